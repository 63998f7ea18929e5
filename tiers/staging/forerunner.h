// SPDX-License-Identifier: Apache-2.0
//
// Threads that touch the slots of a staging area before anybody writes to them (the deep-tiers
// showcase, slides 24 and 62), as a TouchPlan says. Several, because one thread clears memory more
// slowly than the devices of a node fill it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "tiers/mutex.h"
#include "tiers/spawn.h"
#include "tiers/staging/touch_plan.h"

namespace gpusnap {

// observe() is thread-safe, also beside stop(). start() comes before both, and one thread at a time
// starts and stops.
class Forerunner {
 public:
  struct Actions {
    // Makes a slot's memory be there; false: the system has none. Called by several threads at the
    // same time, once for a slot, without a lock.
    std::function<bool(uint32_t slot)> touch;
    // The leading slots that are there now; `all`: the system has no memory for the others. One
    // call at a time, in order, with the lock held: does not block, and calls nothing in here.
    std::function<void(uint32_t backed, bool all)> publish;
  };

  Forerunner(TouchPlan plan, Actions actions);
  ~Forerunner();  // as stop()
  Forerunner(const Forerunner&) = delete;
  Forerunner& operator=(const Forerunner&) = delete;

  // With up to so many threads. Where not one is to be had, observe() touches slots itself.
  void start(const Spawn& spawn, uint32_t threads);
  // The area's state now.
  void observe(const TouchPlan::Demand& demand);
  // Waits until no thread touches anything.
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
