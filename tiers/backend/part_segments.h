// SPDX-License-Identifier: Apache-2.0
// The segments of one rank's part of a checkpoint: one writer for blocks that go straight to the
// store and for chunks that are moved there, and one for blocks that go to chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tiers/backend/part_progress.h"
#include "tiers/file_system.h"
#include "tiers/mutex.h"
#include "tiers/segment_store.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

class PartSegments {
 public:
  struct Setting {
    std::string folder;
    SegmentStore::Identity identity;
    SegmentStore::Options options;  // first_segment is not used; on_failure ends the progress
    std::shared_ptr<Compression> compression;
    Spawn spawn;
  };

  // Both outlive it.
  PartSegments(FileSystem& files, Setting setting, PartProgress& progress);

  // Begins with the segment of that number. Called once, before all functions below except
  // abandon(). Also fails if the part has ended.
  Status start(uint32_t first_segment);
  // Starts the writer for chunks, if it is not there yet. By the thread that makes chunks.
  Status start_for_chunks();

  // Returns the writer of the chunk's blocks or, without a chunk, of blocks that go straight to
  // segments. Any thread.
  SegmentStore& writer_for(const std::shared_ptr<PlacedFile>& chunk);
  // As SegmentStore::take(). Any thread.
  Result<SegmentStore::Place> take(uint64_t bytes);
  // Makes all bytes written so far durable, but not the files' names. By the part's thread.
  Status sync();
  // Ends the writers as a failure does. Does not wait. Any thread, any time.
  void abandon();
  // Waits until all blocks are durable in files and returns the first failure. By the part's
  // thread; may be called without start().
  Status finish();
  // Waits for writes in flight and releases unwritten blocks. After the part's thread has ended,
  // when no other thread uses it.
  void close() NO_THREAD_SAFETY_ANALYSIS;

  // The writers that have been started. They stay until close(). Any thread.
  std::vector<SegmentStore*> writers() const;

 private:
  Result<std::unique_ptr<SegmentStore>> start_writer(uint32_t first_segment, uint32_t workers);

  FileSystem& files_;
  const Setting setting_;
  PartProgress& progress_;
  uint32_t first_segment_ = 0;  // set by start(), then constant

  mutable Mutex mutex_;
  std::unique_ptr<SegmentStore> writer_ GUARDED_BY(mutex_);      // from start() on
  std::unique_ptr<SegmentStore> for_chunks_ GUARDED_BY(mutex_);  // from the first chunk on
};

}  // namespace gpusnap
