// SPDX-License-Identifier: Apache-2.0
// Measures how fast the store takes bytes at present: in the time in which anything was on its way
// to it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tiers/clock.h"
#include "tiers/mutex.h"

namespace gpusnap {

// Thread-safe.
class StoreRate {
 public:
  explicit StoreRate(Clock& clock) : clock_(clock) {}

  void begun(uint64_t bytes) {
    const MutexLock lock(mutex_);
    pass();
    ++on_way_;
    bytes_on_way_ += static_cast<double>(bytes);
  }
  void ended(uint64_t bytes, bool stored) {
    const MutexLock lock(mutex_);
    pass();
    --on_way_;
    bytes_on_way_ -= static_cast<double>(bytes);
    if (!stored) return;
    bytes_ += static_cast<double>(bytes);
    // Where all that is on its way is served at the same time, the first to end have taken the time
    // of all of it. A few small writes say nothing anyway.
    is_known_ = is_known_ || (bytes_ >= kLeast && bytes_ >= bytes_on_way_);
    if (bytes_ < kWindow) return;
    // Older bytes count ever less.
    bytes_ /= 2;
    busy_ns_ /= 2;
  }
  // Somebody who shares it with the others has something on the way; or has nothing any more.
  void enter() {
    const MutexLock lock(mutex_);
    ++sharers_;
  }
  void leave() {
    const MutexLock lock(mutex_);
    --sharers_;
  }

  // 0: not known yet.
  double bytes_per_second() const {
    const MutexLock lock(mutex_);
    return known();
  }
  // Bytes per second for one of the sharers; 0 likewise.
  double share() const {
    const MutexLock lock(mutex_);
    return known() / static_cast<double>(std::max<uint64_t>(sharers_, 1));
  }
  // For how long it has enough to do with what is on its way. Where its speed is not known, it is
  // thought to be as fast as can be by what it has not done yet.
  double busy_seconds() {
    const MutexLock lock(mutex_);
    pass();
    double fastest = known();
    if (fastest <= 0) {
      fastest = kFastest;
      if (busy_ns_ > 0) fastest = std::min(fastest, (bytes_ + bytes_on_way_) / busy_ns_ * 1e9);
    }
    return fastest > 0 ? bytes_on_way_ / fastest : 0;
  }

 private:
  static constexpr double kWindow = 256 << 20;
  static constexpr double kLeast = 8 << 20;
  static constexpr double kFastest = 2e9;  // bytes per second, as long as nothing is known

  double known() const REQUIRES(mutex_) {
    return !is_known_ || busy_ns_ <= 0 ? 0 : bytes_ / busy_ns_ * 1e9;
  }

  void pass() REQUIRES(mutex_) {
    const int64_t now = clock_.now_ns();
    if (on_way_ > 0) busy_ns_ += static_cast<double>(now - last_ns_);
    last_ns_ = now;
  }

  Clock& clock_;
  mutable Mutex mutex_;
  uint64_t on_way_ GUARDED_BY(mutex_) = 0;
  uint64_t sharers_ GUARDED_BY(mutex_) = 0;
  double bytes_on_way_ GUARDED_BY(mutex_) = 0;
  bool is_known_ GUARDED_BY(mutex_) = false;
  int64_t last_ns_ GUARDED_BY(mutex_) = 0;
  double busy_ns_ GUARDED_BY(mutex_) = 0;
  double bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace gpusnap
