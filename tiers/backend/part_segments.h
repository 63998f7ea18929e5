// SPDX-License-Identifier: Apache-2.0
// The segments of one rank's part of a checkpoint: one writer for what goes straight to the store
// and for chunks on their way there, and one for blocks that go to chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tiers/backend/part_progress.h"
#include "tiers/file_system.h"
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

  // Takes the blocks of the chunk or, without one, those that go straight to segments. Any thread.
  SegmentStore& writer_for(const std::shared_ptr<PlacedFile>& chunk);
  // As SegmentStore::take(). Any thread.
  Result<SegmentStore::Place> take(uint64_t bytes) { return writer_->take(bytes); }
  // Makes durable what has been written so far, but for the names. By the part's thread.
  Status sync();
  // Ends all that is on its way, as failures do. Does not wait. Any thread, any time.
  void abandon();
  // Waits until all is in files, durably; the first failure. By the part's thread, also if it was
  // not started.
  Status finish();
  // Waits for what is on its way, and releases what was not written. After the part's thread.
  void close();

  // The writers that have been started. They stay until close(). Any thread.
  std::vector<SegmentStore*> writers() const;

 private:
  Result<std::unique_ptr<SegmentStore>> start_writer(uint32_t first_segment, uint32_t workers);

  FileSystem& files_;
  const Setting setting_;
  PartProgress& progress_;
  uint32_t first_segment_ = 0;  // set by start(), then constant

  // Guards that the two appear. Each is set once, and read without it by those that come after.
  mutable std::mutex mutex_;
  std::unique_ptr<SegmentStore> writer_;      // from start() on
  std::unique_ptr<SegmentStore> for_chunks_;  // from the first chunk on
};

}  // namespace gpusnap
