// The lock that is biased towards one thread: whoever comes, only one has it.
#include "interpose/record/call_lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gpusnap {
namespace {

TEST(CallLock, OneThreadTakesItAgainAndAgain) {
  CallLock lock;
  lock.begin();
  for (int i = 0; i < 1000; ++i) {
    lock.lock();
    lock.unlock();
  }
}

// The others arrive while the first thread takes it as fast as it can.
TEST(CallLock, ExcludesThreadsThatArriveLater) {
  for (int round = 0; round < 50; ++round) {
    CallLock lock;
    lock.begin();
    constexpr int kThreads = 3, kTimes = 2000;
    uint64_t counter = 0;  // torn by two at a time
    auto count = [&] {
      lock.lock();
      counter = counter + 1;
      lock.unlock();
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        lock.share();
        for (int j = 0; j < kTimes; ++j) count();
      });
    }
    for (int j = 0; j < kTimes; ++j) count();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(counter, uint64_t{(kThreads + 1) * kTimes});
  }
}

TEST(CallLock, AWaitGivesItToOthersMeanwhile) {
  CallLock lock;
  lock.begin();
  lock.lock();
  std::condition_variable changed;
  bool done = false;
  std::thread other([&] {
    lock.share();
    lock.lock();
    done = true;
    changed.notify_all();
    lock.unlock();
  });
  const auto deadline = CallLock::Clock::now() + std::chrono::minutes(1);
  while (!done) ASSERT_TRUE(lock.wait_until(changed, deadline));
  lock.unlock();
  other.join();
}

TEST(CallLock, AWaitEndsAtItsDeadline) {
  CallLock lock;
  lock.begin();
  lock.lock();
  std::condition_variable changed;
  while (lock.wait_until(changed, CallLock::Clock::now())) continue;
  lock.unlock();
  lock.lock();
  lock.unlock();
}

}  // namespace
}  // namespace gpusnap
