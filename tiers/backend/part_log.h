// SPDX-License-Identifier: Apache-2.0
// The block log of one rank's part of a checkpoint while the part is in flight, and what this
// backend has recorded in it about the part's chunks.
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

// open() comes before and close() after all other calls. Functions marked "any thread" are
// thread-safe; the part's thread calls the others.
class PartLog {
 public:
  using Blocks = std::vector<SegmentStore::StoredBlock>;

  // Both outlive it.
  PartLog(FileSystem& files, PartProgress& progress) : files_(files), progress_(progress) {}

  // `text`: the first record. `moved`: chunks that an earlier backend has moved.
  void open(BlockLogWriter::Place place, std::string text, std::map<uint32_t, MovedChunk> moved);
  // Closes the file. in_chunks() and moved() stay.
  void close() { writer_.reset(); }
  bool is_open() const { return writer_ != nullptr; }
  bool has_moved_on() const { return writer_->has_moved_on(); }  // its first device has failed

  // Records that the blocks are in files, and then lets the progress count them. Any thread.
  Status note_stored(std::span<const SegmentStore::StoredBlock> blocks);
  // Records that the chunk is in a segment, durably.
  Status note_moved(const MovedChunk& moved);
  Status note_manifest(uint64_t sequence, std::span<const std::byte> bytes);
  // Records that all slots, that many, are in files that outlive the machine's memory. Durable
  // after sync().
  Status note_sealed(uint64_t slots);
  // Records that the part is committed. Durable at return.
  Status note_committed();
  Status sync() { return writer_->sync(); }

  // Returns the blocks that this backend has recorded in that chunk. Any thread.
  Blocks blocks_in(uint32_t chunk) const;
  // The blocks of all these chunks, by number. After the last note_stored().
  const std::map<uint32_t, Blocks>& in_chunks() const { return in_chunks_; }
  // All chunks that have been moved, by number.
  const std::map<uint32_t, MovedChunk>& moved() const { return moved_; }

 private:
  FileSystem& files_;
  PartProgress& progress_;
  std::unique_ptr<BlockLogWriter> writer_;  // thread-safe; from open() to close()
  std::map<uint32_t, MovedChunk> moved_;    // used by the part's thread alone

  mutable Mutex mutex_;
  std::map<uint32_t, Blocks> in_chunks_ GUARDED_BY(mutex_);  // as long as blocks are noted
};

}  // namespace gpusnap
