// SPDX-License-Identifier: Apache-2.0
// Measures the present throughput of the store, over the time in which any write to it was in
// flight.
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
    // A store may serve all writes at the same time: then the first writes to end have taken the
    // time of all of them. A few small writes say nothing.
    is_known_ = is_known_ || (bytes_ >= kLeast && bytes_ >= bytes_on_way_);
    if (bytes_ < kWindow) return;
    // Older bytes count less and less.
    bytes_ /= 2;
    busy_ns_ /= 2;
  }
  // A user of the store begins or ends having writes in flight.
  void enter() {
    const MutexLock lock(mutex_);
    ++sharers_;
  }
  void leave() {
    const MutexLock lock(mutex_);
    --sharers_;
  }

  // Returns bytes per second; 0: not known yet.
  double bytes_per_second() const {
    const MutexLock lock(mutex_);
    return known();
  }
  // Returns the bytes per second for one of the users; 0: not known yet.
  double share() const {
    const MutexLock lock(mutex_);
    return known() / static_cast<double>(std::max<uint64_t>(sharers_, 1));
  }
  // Returns the time that the writes in flight will take. If the throughput is not known, assumes
  // the highest that the unfinished writes allow.
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
