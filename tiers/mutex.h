// SPDX-License-Identifier: Apache-2.0
// std::mutex, its lock and its condition variable, with annotations that clang checks. The standard
// ones have none where the library is libstdc++.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "tiers/thread_annotations.h"
#include "tiers/unlocked.h"

namespace gpusnap {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  // Tells the analysis that this thread holds the lock, in a function that it cannot follow to its
  // caller, such as a lambda that is passed on. Does nothing.
  void assert_held() const ASSERT_CAPABILITY(this) {}
  std::mutex& standard() { return mutex_; }

 private:
  std::mutex mutex_;
};

// Holds a mutex for a scope.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

template <>
class SCOPED_CAPABILITY Unlocked<Mutex> {
 public:
  explicit Unlocked(Mutex& mutex) RELEASE(mutex) : mutex_(mutex) { mutex.unlock(); }
  ~Unlocked() RELEASE() { mutex_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable. The waits release the mutex while they wait. A predicate is called with the
// mutex held.
class ConditionVariable {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  // May return without a notification.
  void wait(Mutex& mutex) REQUIRES(mutex) {
    Adopted lock(mutex.standard());
    condition_.wait(lock.lock);
  }
  template <class Predicate>
  void wait(Mutex& mutex, Predicate is_true) REQUIRES(mutex) {
    Adopted lock(mutex.standard());
    condition_.wait(lock.lock, std::move(is_true));
  }
  template <class Rep, class Period>
  void wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> longest) REQUIRES(mutex) {
    Adopted lock(mutex.standard());
    (void)condition_.wait_for(lock.lock, longest);
  }
  // Returns what the predicate said last: false if the time has passed.
  template <class Rep, class Period, class Predicate>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> longest, Predicate is_true)
      REQUIRES(mutex) {
    Adopted lock(mutex.standard());
    return condition_.wait_for(lock.lock, longest, std::move(is_true));
  }
  template <class Clock, class Duration>
  void wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> until) REQUIRES(mutex) {
    Adopted lock(mutex.standard());
    (void)condition_.wait_until(lock.lock, until);
  }

 private:
  // The lock that std::condition_variable takes, of a mutex that stays held before and after.
  struct Adopted {
    explicit Adopted(std::mutex& mutex) : lock(mutex, std::adopt_lock) {}
    ~Adopted() { lock.release(); }
    Adopted(const Adopted&) = delete;
    Adopted& operator=(const Adopted&) = delete;
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable condition_;
};

}  // namespace gpusnap
