// SPDX-License-Identifier: Apache-2.0
// The block log of one rank's part of a checkpoint while the part is on its way, and what this
// backend has noted there of the part's chunks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/backend/block_log.h"
#include "tiers/backend/part_progress.h"
#include "tiers/file_system.h"
#include "tiers/mutex.h"
#include "tiers/segment_store.h"
#include "tiers/status.h"

namespace gpusnap {

// open() and close() come before and after all else; what is between is thread-safe where it says
// so, and else by the part's thread.
class PartLog {
 public:
  using Blocks = std::vector<SegmentStore::StoredBlock>;

  // Both outlive it.
  PartLog(FileSystem& files, PartProgress& progress) : files_(files), progress_(progress) {}

  // `text`: the first record. `moved`: the chunks that an earlier backend has moved.
  void open(BlockLogWriter::Place place, std::string text, std::map<uint32_t, MovedChunk> moved);
  // Closes the file. Facts about chunks stay.
  void close() { writer_.reset(); }
  bool is_open() const { return writer_ != nullptr; }
  bool has_moved_on() const { return writer_->has_moved_on(); }  // its first device has failed

  // The blocks are in files. The progress counts them after they are in the log. Any thread.
  Status note_stored(std::span<const SegmentStore::StoredBlock> blocks);
  // The chunk is in a segment, durably.
  Status note_moved(const MovedChunk& moved);
  Status note_manifest(uint64_t sequence, std::span<const std::byte> bytes);
  // All is in files that outlive the machine's memory: so many slots. Durable only after sync().
  Status note_sealed(uint64_t slots);
  // Durable at return.
  Status note_committed();
  Status sync() { return writer_->sync(); }

  // The blocks that this backend has noted in that chunk. Any thread.
  Blocks blocks_in(uint32_t chunk) const;
  // The blocks of all of these chunks, by number, after the last note_stored().
  const std::map<uint32_t, Blocks>& in_chunks() const { return in_chunks_; }
  // All chunks that have been moved, by number.
  const std::map<uint32_t, MovedChunk>& moved() const { return moved_; }

 private:
  FileSystem& files_;
  PartProgress& progress_;
  std::unique_ptr<BlockLogWriter> writer_;  // thread-safe; from open() to close()
  std::map<uint32_t, MovedChunk> moved_;    // the part's thread's own

  mutable Mutex mutex_;
  std::map<uint32_t, Blocks> in_chunks_ GUARDED_BY(mutex_);  // as long as blocks are noted
};

}  // namespace gpusnap
