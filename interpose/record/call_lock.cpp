#include "interpose/record/call_lock.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpusnap {

namespace {
long membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

// A wait is a place where a thread may be cancelled, and the program's calls are none.
class NotCancelled {
 public:
  NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// ThreadSanitizer knows mutexes, and nothing of barriers that another thread makes.
#ifdef __SANITIZE_THREAD__
constexpr bool kMayBeBiased = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kMayBeBiased = false;
#else
constexpr bool kMayBeBiased = true;
#endif
#else
constexpr bool kMayBeBiased = true;
#endif
}  // namespace

void CallLock::begin() {
  if (kMayBeBiased && membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0) return;
  shared_ = true;
  shared_for_all_ = true;
  biased_ = false;
}

void CallLock::share() {
  const NotCancelled not_cancelled;
  const std::lock_guard sharing(sharing_);
  if (shared_for_all_) return;
  shared_.store(true, std::memory_order_seq_cst);
  // From here on the first thread either sees that, or we see that it holds the lock.
  (void)membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  while (held_.load(std::memory_order_acquire)) usleep(20);
  shared_for_all_ = true;
}

bool CallLock::wait_until(std::condition_variable& changed, Clock::time_point deadline) {
  if (biased_) {
    // A thread that comes meanwhile, or has come, waits for held_ first and then for the mutex.
    shared_.store(true, std::memory_order_seq_cst);
    mutex_.lock();
    biased_ = false;
    held_.store(false, std::memory_order_release);
  }
  const NotCancelled not_cancelled;
  std::unique_lock lock(mutex_, std::adopt_lock);
  const bool in_time = changed.wait_until(lock, deadline) == std::cv_status::no_timeout;
  lock.release();
  return in_time;
}

}  // namespace gpusnap
