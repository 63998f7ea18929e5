// SPDX-License-Identifier: Apache-2.0
// The segments of one rank's part of a checkpoint: one writer for what goes straight to the store
// and for chunks on their way there, and one for blocks that go to chunks.
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

  // Begins with the segment of that number. Before all that follows but abandon(). Once; fails also
  // if the part has ended before.
  Status start(uint32_t first_segment);
  // Starts the writer for chunks, if it is not there yet. By the thread that makes chunks.
  Status start_for_chunks();

  // To their chunk or, if they have none, to segments; all of them together. Any thread.
  void add(std::vector<SegmentStore::Block> blocks);
  // As SegmentStore::take(). Any thread.
  Result<SegmentStore::Place> take(uint64_t bytes);
  // Makes durable what has been written so far, but for the names. By the part's thread.
  Status sync();
  // Ends all that is on its way, as failures do. Does not wait. Any thread, any time.
  void abandon();
  // Waits until all is in files, durably; the first failure. By the part's thread, also if it was
  // not started.
  Status finish();
  // Waits for what is on its way, and releases what was not written. After the part's thread, when
  // no other thread uses it.
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
