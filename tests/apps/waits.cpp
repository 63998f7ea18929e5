// Waits until moments that it reckons from clocks, in each of the ways that there are, before the
// first CUDA call and between the others. A wait that nothing ends must last as long as it says by
// the real clock, and no longer than that by hours: whoever looks on sees it hang.
//
// The result does not depend on any time.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>

#include "app.h"

namespace app {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr int64_t kSecond = 1'000'000'000, kLength = 2'000'000;  // ns
constexpr milliseconds kFor(2);
static_assert(std::chrono::nanoseconds(kFor).count() == kLength);

// As the system has it, whatever functions of the C library say.
int64_t real_now() {
  timespec now = {};
  if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) != 0)
    fail("clock_gettime", "it has failed");
  return now.tv_sec * kSecond + now.tv_nsec;
}

timespec soon(clockid_t clock) {
  timespec now = {};
  (void)clock_gettime(clock, &now);
  const int64_t until = now.tv_sec * kSecond + now.tv_nsec + kLength;
  return {until / kSecond, until % kSecond};
}

// `wait()`: whether it has waited until the moment that it reckons.
template <class Wait>
void must_last(const char* how, Wait&& wait) {
  // Its end is by the clock of the wall in some, which may be put right meanwhile.
  constexpr int64_t kClocksDiffer = kLength / 2;
  const int64_t begin = real_now();
  if (!wait()) fail(how, "it has not waited until its end");
  if (real_now() - begin < kLength - kClocksDiffer) fail(how, "it has ended too early");
}

void wait_for_conditions() {
  std::mutex mutex;
  std::condition_variable condition;
  std::condition_variable_any any;
  std::unique_lock lock(mutex);
  const auto never = [] { return false; };
  must_last("wait_for", [&] { return !condition.wait_for(lock, kFor, never); });
  must_last("wait_until",
            [&] { return !condition.wait_until(lock, system_clock::now() + kFor, never); });
  must_last("any.wait_until",
            [&] { return !any.wait_until(lock, steady_clock::now() + kFor, never); });
  mtx_t plain{};
  cnd_t changed{};
  if (mtx_init(&plain, mtx_timed) != thrd_success || cnd_init(&changed) != thrd_success) {
    fail("mtx_init", "it has failed");
  }
  mtx_lock(&plain);
  must_last("cnd_timedwait", [&] {
    const timespec until = soon(CLOCK_REALTIME);
    return cnd_timedwait(&changed, &plain, &until) == thrd_timedout;
  });
  std::thread([&] {
    must_last("mtx_timedlock", [&] {
      const timespec until = soon(CLOCK_REALTIME);
      return mtx_timedlock(&plain, &until) == thrd_timedout;
    });
  }).join();
  mtx_unlock(&plain);
  cnd_destroy(&changed);
  mtx_destroy(&plain);
}

void wait_for_locks() {
  std::timed_mutex mutex;
  std::shared_timed_mutex shared;
  const std::lock_guard lock(mutex);
  std::thread([&] {
    must_last("try_lock_for", [&] { return !mutex.try_lock_for(kFor); });
    must_last("try_lock_until", [&] { return !mutex.try_lock_until(system_clock::now() + kFor); });
    shared.lock();
  }).join();
  // A thread of its own has ended with it.
  must_last("shared.try_lock_for", [&] { return !shared.try_lock_for(kFor); });
  must_last("shared.try_lock_until",
            [&] { return !shared.try_lock_until(system_clock::now() + kFor); });
  must_last("try_lock_shared_for", [&] { return !shared.try_lock_shared_for(kFor); });
  must_last("try_lock_shared_until",
            [&] { return !shared.try_lock_shared_until(system_clock::now() + kFor); });
}

void wait_for_others() {
  std::promise<int> promise;
  const std::future<int> future = promise.get_future();
  must_last("future.wait_for",
            [&] { return future.wait_for(kFor) == std::future_status::timeout; });
  must_last("future.wait_until", [&] {
    return future.wait_until(system_clock::now() + kFor) == std::future_status::timeout;
  });
  std::counting_semaphore<4> semaphore(0);
  // Looks at the clock again and again before it waits: that is what it lasts by.
  if (semaphore.try_acquire_for(kFor)) fail("try_acquire_for", "it was given by nobody");
  sem_t plain{};
  if (sem_init(&plain, 0, 0) != 0) fail("sem_init", "it has failed");
  must_last("sem_timedwait", [&] {
    const timespec until = soon(CLOCK_REALTIME);
    return sem_timedwait(&plain, &until) == -1 && errno == ETIMEDOUT;
  });
#if __GLIBC_PREREQ(2, 30)
  must_last("sem_clockwait", [&] {
    const timespec until = soon(CLOCK_MONOTONIC);
    return sem_clockwait(&plain, CLOCK_MONOTONIC, &until) == -1 && errno == ETIMEDOUT;
  });
#endif
  sem_destroy(&plain);
}

void wait_for_timers() {
  for (const clockid_t clock : {CLOCK_REALTIME, CLOCK_MONOTONIC}) {
    must_last("clock_nanosleep", [&] {
      const timespec until = soon(clock);
      return clock_nanosleep(clock, TIMER_ABSTIME, &until, nullptr) == 0;
    });
    const int timer = timerfd_create(clock, TFD_CLOEXEC);
    must_last("timerfd_settime", [&] {
      const itimerspec at = {{}, soon(clock)};
      uint64_t expired = 0;
      return timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, nullptr) == 0 &&
             read(timer, &expired, sizeof expired) == sizeof expired && expired == 1;
    });
    close(timer);
    timer_t alarm = nullptr;
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGUSR1;
    if (timer_create(clock, &event, &alarm) != 0) fail("timer_create", "it has failed");
    must_last("timer_settime", [&] {
      sigset_t only{};
      sigaddset(&only, SIGUSR1);
      const itimerspec at = {{}, soon(clock)};
      return timer_settime(alarm, TIMER_ABSTIME, &at, nullptr) == 0 &&
             sigwaitinfo(&only, nullptr) == SIGUSR1;
    });
    timer_delete(alarm);
  }
}

void wait_in_all_ways() {
  wait_for_conditions();
  wait_for_locks();
  wait_for_others();
  wait_for_timers();
}

// Gives what is put in on, and waits for it with a deadline that is a minute of the clock's away.
class Turn {
 public:
  void give(int turn) {
    const std::lock_guard lock(mutex_);
    turn_ = turn;
    changed_.notify_all();
  }
  void wait(int turn) {
    std::unique_lock lock(mutex_);
    while (turn_ != turn) (void)changed_.wait_for(lock, std::chrono::minutes(1));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int turn_ = 0;
};

int run(int steps) {
  sigset_t blocked{};
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  wait_in_all_ways();
  const Device device(ContextKind::kPrimary);
  Buffer<unsigned> cells(64);
  Turn given, taken;
  std::thread other([&] {
    for (int step = 1; step <= steps; ++step) {
      given.wait(step);
      if (step % 4 == 0) wait_for_conditions();
      taken.give(step);
    }
  });
  std::vector<unsigned> values(64);
  for (int step = 1; step <= steps; ++step) {
    for (unsigned& value : values) value = value * 3 + static_cast<unsigned>(step);
    cells.upload(values);
    given.give(step);
    if (step % 8 == 0) wait_in_all_ways();
    taken.wait(step);
    CHECK(cuCtxSynchronize());
    must_equal("cells", cells.download(), values);
    std::printf("step %d: %016" PRIx64 "\n", step, digest(std::span<const unsigned>(values)));
  }
  other.join();
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 60));
}
