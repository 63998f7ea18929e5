// SPDX-License-Identifier: Apache-2.0
// The files of one part's segments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/manifest.h"
#include "tiers/mutex.h"
#include "tiers/segment_store.h"
#include "tiers/status.h"

namespace gpusnap {

// The segments of one part, and who gets which bytes of them. Thread-safe.
class SegmentFiles {
 public:
  SegmentFiles(FileSystem& files, std::string folder, SegmentStore::Identity identity,
               const SegmentStore::Options& options)
      : files_(files),
        folder_(std::move(folder)),
        identity_(std::move(identity)),
        most_(options.segment_bytes),
        first_(options.first_segment) {}

  Result<SegmentStore::Place> take(uint64_t bytes);

  // Makes all segments durable. No write is in flight any more.
  Status finish();

  Status sync();

  void remove();

  // After finish(): does not change any more.
  const std::vector<SegmentRef>& refs() const NO_THREAD_SAFETY_ANALYSIS { return refs_; }

 private:
  Status open() REQUIRES(mutex_);

  FileSystem& files_;
  const std::string folder_;
  const SegmentStore::Identity identity_;
  const uint64_t most_;
  const uint32_t first_;
  Mutex mutex_;
  std::vector<std::shared_ptr<PlacedFile>> open_ GUARDED_BY(mutex_);
  std::vector<SegmentRef> refs_ GUARDED_BY(mutex_);
};

}  // namespace gpusnap
