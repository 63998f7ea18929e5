// The session's lock, biased towards programs of which one thread makes the CUDA calls: as long as
// there is only that one, taking it is a store and a load. The first call of a second thread turns
// it into a mutex for good. The price of the turn, a barrier in all threads of the process, is
// paid by the second thread (membarrier; where the system has none it is a mutex from the start).
//
// Held for a few instructions, never while the driver is called for the program.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace gpusnap {

class CallLock {
 public:
  using Clock = std::chrono::steady_clock;

  // Before anything else, on the thread that the lock is biased towards.
  void begin();
  // Once by every other thread, before it first takes the lock.
  void share();

  [[gnu::always_inline]] void lock() {
    if (!shared_.load(std::memory_order_relaxed)) [[likely]] {
      held_.store(true, std::memory_order_relaxed);
      // Kept in order by the compiler here, and by the barrier of share() everywhere else.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (!shared_.load(std::memory_order_relaxed)) [[likely]] {
        return;
      }
      held_.store(false, std::memory_order_release);
    }
    mutex_.lock();
    biased_ = false;
  }
  [[gnu::always_inline]] void unlock() {
    if (biased_) [[likely]] {
      held_.store(false, std::memory_order_release);
    } else {
      mutex_.unlock();
    }
  }
  // Held before and after, not meanwhile. False: the deadline has passed.
  bool wait_until(std::condition_variable& changed, Clock::time_point deadline);

 private:
  std::atomic<bool> shared_{false};  // a mutex from now on
  std::atomic<bool> held_{false};    // by the thread it is biased towards
  bool biased_ = true;               // how it is held; as it was, until it first is a mutex
  std::mutex mutex_;
  std::mutex sharing_;
  bool shared_for_all_ = false;  // under sharing_: nobody holds it as a biased one any more
};

}  // namespace gpusnap
