// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpusnap {

// While one lives, its thread does not hold the lock that it holds before and after.
template <class Lock>
class Unlocked {
 public:
  [[gnu::always_inline]] explicit Unlocked(Lock& lock) : lock_(lock) { lock_.unlock(); }
  [[gnu::always_inline]] ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  Lock& lock_;
};

}  // namespace gpusnap
