// SPDX-License-Identifier: Apache-2.0
//
// Threads that touch the slots of a staging area before programs write to them (the deep-tiers
// showcase, slides 24 and 62), in the order of a TouchPlan. There are several, because one thread
// clears memory more slowly than the devices of a node fill it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "tiers/mutex.h"
#include "tiers/spawn.h"
#include "tiers/staging/touch_plan.h"

namespace gpusnap {

// observe() is thread-safe, also beside stop(). start() comes before both. One thread at a time
// calls start() and stop().
class Forerunner {
 public:
  struct Actions {
    // Backs a slot with memory. Returns false if the system has none. Called once for each slot, by
    // several threads at the same time, without a lock held.
    std::function<bool(uint32_t slot)> touch;
    // Reports the number of leading slots that are backed; `all`: the system has no memory for the
    // others. Calls come one at a time, in order, with the lock held: must not block or call the
    // Forerunner.
    std::function<void(uint32_t backed, bool all)> publish;
  };

  Forerunner(TouchPlan plan, Actions actions);
  ~Forerunner();  // calls stop()
  Forerunner(const Forerunner&) = delete;
  Forerunner& operator=(const Forerunner&) = delete;

  // Starts up to `threads` threads. If none can be started, observe() touches slots itself.
  void start(const Spawn& spawn, uint32_t threads);
  // Tells the current state of the area.
  void observe(const TouchPlan::Demand& demand);
  // Ends the threads and waits for them.
  void stop();

 private:
  void run();
  // Both release the lock meanwhile.
  void touch_part(TouchPlan::Part part) REQUIRES(mutex_);
  bool touch(uint32_t slot) REQUIRES(mutex_);

  const Actions actions_;
  std::vector<Join> threads_;
  Mutex mutex_;
  ConditionVariable changed_;
  TouchPlan plan_ GUARDED_BY(mutex_);
  bool has_threads_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
};

}  // namespace gpusnap
