// The system's report on threads that wait in each way.
#include "interpose/replay/seen_threads.h"
#include "tests/support/becomes.h"

#include <gtest/gtest.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace gpusnap {
namespace {

std::optional<SeenThread> see(int id) {
  const auto all = see_threads();
  const auto found = std::ranges::find(all, id, &SeenThread::id);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

// A thread that does something, known by the system's number.
class Other {
 public:
  template <class Body>
  explicit Other(Body body)
      : thread_([this, body] {
          id_ = gettid();
          body();
        }) {
    while (id_ == 0) std::this_thread::yield();
  }
  int id() const { return id_; }
  void join() { thread_.join(); }

 private:
  std::atomic<int> id_{0};
  std::jthread thread_;
};

bool comes_to(const Other& thread, Activity activity) {
  return becomes([&] {
    const auto seen = see(thread.id());
    return seen && seen->activity == activity;
  });
}

class Condition {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
  }
  void wait_with_a_limit() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::hours(1), [this] { return over_; });
  }
  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
};

TEST(SeenThreads, TheCallingOneRuns) {
  const auto seen = see(gettid());
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->activity, Activity::kRunning);
  EXPECT_FALSE(seen->matters);
  EXPECT_GT(seen->cpu_ns, 0);
}

TEST(SeenThreads, OneThatWaitsForAConditionOrALockWaitsForAnother) {
  Condition condition;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  const Other waits([&] { condition.wait(); });
  const Other locks([&] { const std::lock_guard held(mutex); });
  EXPECT_TRUE(comes_to(waits, Activity::kLock));
  EXPECT_TRUE(comes_to(locks, Activity::kLock));
  condition.end();
  lock.unlock();
}

TEST(SeenThreads, OneThatJoinsAnotherWaitsForIt) {
  Condition condition;
  Other other([&] { condition.wait(); });
  const Other joins([&] { other.join(); });
  EXPECT_TRUE(comes_to(joins, Activity::kLock));
  condition.end();
}

TEST(SeenThreads, AWaitWithALimitIsTold) {
  Condition condition;
  const Other waits([&] { condition.wait_with_a_limit(); });
  EXPECT_TRUE(comes_to(waits, Activity::kTimedLock));
  condition.end();
}

TEST(SeenThreads, OneThatSleepsOrReadsDoesNotWaitForAnother) {
  std::atomic<bool> over{false};
  const Other sleeps([&] {
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Other reads([&] {
    char byte = 0;
    (void)!read(ends[0], &byte, 1);
  });
  EXPECT_TRUE(comes_to(sleeps, Activity::kOutside));
  EXPECT_TRUE(comes_to(reads, Activity::kOutside));
  over = true;
  close(ends[1]);
}

TEST(SeenThreads, OneThatWaitsForAnotherProcessIsTold) {
  void* const memory =
      mmap(nullptr, sizeof(sem_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const shared = static_cast<sem_t*>(memory);
  sem_t own;
  ASSERT_EQ(sem_init(shared, 1, 0), 0);
  ASSERT_EQ(sem_init(&own, 0, 0), 0);
  {
    const Other waits_for_process([&] { sem_wait(shared); });
    const Other waits_for_thread([&] { sem_wait(&own); });
    EXPECT_TRUE(comes_to(waits_for_process, Activity::kOutside));
    EXPECT_TRUE(comes_to(waits_for_thread, Activity::kLock));
    sem_post(shared);
    sem_post(&own);
  }
  munmap(memory, sizeof(sem_t));
}

TEST(SeenThreads, OneThatComputesRunsAndUsesTime) {
  std::atomic<bool> over{false};
  const Other computes([&] {
    while (!over) {
    }
  });
  EXPECT_TRUE(comes_to(computes, Activity::kRunning));
  const uint64_t before = see(computes.id())->cpu_ns;
  EXPECT_TRUE(becomes([&] { return see(computes.id())->cpu_ns > before + 1'000'000; }));
  over = true;
}

TEST(SeenThreads, OneThatHasEndedIsNotThere) {
  Other other([] {});
  const int id = other.id();
  other.join();
  EXPECT_TRUE(becomes([&] { return !see(id); }));
}

}  // namespace
}  // namespace gpusnap
