// SPDX-License-Identifier: Apache-2.0
//
// How long one more checkpoint may take to be read from the last tier before the application waits
// for it. Prefetches read from there one after the other, in the order of the hints, while the
// application computes. Not in the GPU cache and prefetch paper, which never asks what a prefetch
// can hide. Pure logic.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tiers/history/restore_queue.h"

namespace gpusnap::history {

// Holds for the queue as it was given. Not thread-safe.
class ReadSlack {
 public:
  // Hints that are looked at, from the head of the queue on: enough to tell whether the last tier
  // falls behind, and few enough for every write.
  static constexpr uint64_t kMostHints = 4096;

  // Nanoseconds for which the last tier is read for this checkpoint; 0: a cache holds it.
  using ReadTime = std::function<int64_t(Version)>;

  // `pace_ns`: nanoseconds that the application computes before each restore, at least 0.
  ReadSlack(const RestoreQueue& queue, int64_t pace_ns, const ReadTime& read_time);

  // True: the application waits for no hinted checkpoint longer if this one has to be read for
  // `read_ns`, too. False for a checkpoint that is not among the hints that are looked at.
  bool hides(Version version, int64_t read_ns) const;

 private:
  const RestoreQueue& queue_;
  std::vector<int64_t> spare_ns_;  // by distance: the least from there to the end of the queue
};

}  // namespace gpusnap::history
