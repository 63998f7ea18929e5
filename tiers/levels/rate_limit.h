// SPDX-License-Identifier: Apache-2.0
// Limits all background traffic of this node: threads wait here until they may send or fetch.
#pragma once

#include <chrono>

#include "tiers/clock.h"
#include "tiers/levels/token_bucket.h"
#include "tiers/mutex.h"

namespace gpusnap::levels {

// At full rate for so long after a pause.
inline constexpr uint64_t kBurstsPerSecond = 20;

// Thread-safe.
class RateLimit {
 public:
  // `rate`: bytes per second; 0: without a bound.
  explicit RateLimit(uint64_t rate, Clock& clock = monotonic_clock())
      : bucket_(rate, rate / kBurstsPerSecond), clock_(clock) {}

  // Waits until so many bytes may pass, or until stop().
  void pass(uint64_t bytes) {
    const MutexLock lock(mutex_);
    const int64_t wait = bucket_.take(bytes, clock_.now_ns());
    if (wait > 0) {
      stopping_.wait_for(mutex_, std::chrono::nanoseconds(wait),
                         [this]() REQUIRES(mutex_) { return stopped_; });
    }
  }
  // Ends all present and future waits.
  void stop() {
    const MutexLock lock(mutex_);
    stopped_ = true;
    stopping_.notify_all();
  }

 private:
  Mutex mutex_;
  ConditionVariable stopping_;
  TokenBucket bucket_ GUARDED_BY(mutex_);
  Clock& clock_;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace gpusnap::levels
