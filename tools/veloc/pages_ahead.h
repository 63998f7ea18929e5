// SPDX-License-Identifier: Apache-2.0
//
// Makes the pages of a cache be there before they are pinned (SC'22 showcase, slides 23 to 29:
// forerunner threads). Most of the time that pinning takes goes to pages that nobody has touched,
// and one thread of ours pins, while several can make pages.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tiers/spawn.h"

namespace gpusnap::veloc {

// The memory may be in use meanwhile: what it holds does not change.
class PagesAhead {
 public:
  // Whole pages from `start` on, in steps of `step_bytes`; the last one may be shorter. `threads`
  // begin at once; with none, wait_for() never waits. The memory outlives this.
  PagesAhead(std::byte* start, uint64_t bytes, uint64_t step_bytes, unsigned threads);
  PagesAhead(const PagesAhead&) = delete;
  PagesAhead& operator=(const PagesAhead&) = delete;
  // Within a step.
  ~PagesAhead();

  // Waits until the pages of the step are there, or cannot be made this way: who touches them then
  // makes them. Any thread.
  void wait_for(uint64_t step);

 private:
  void run();
  bool make(uint64_t step);

  std::byte* const start_;
  const uint64_t bytes_, step_bytes_;
  std::mutex mutex_;
  std::condition_variable made_;
  std::vector<bool> is_made_;  // by step
  uint64_t next_ = 0;          // step
  unsigned running_ = 0;       // threads
  bool is_ending_ = false;
  std::vector<Join> threads_;
};

}  // namespace gpusnap::veloc
