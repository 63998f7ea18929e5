// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/forerunner.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <set>
#include <thread>

#include "tests/support/becomes.h"

namespace gpusnap {
namespace {

constexpr TouchPlan::Options kArea{.slots = 64, .part_slots = 4, .ahead_slots = 16, .few_slots = 4};

// Memory that is touched as fast as the test lets it.
class Fake {
 public:
  explicit Fake(uint32_t room = UINT32_MAX) : room_(room) {}

  Forerunner::Actions actions() {
    return {[this](uint32_t slot) { return touch(slot); },
            [this](uint32_t backed, bool all) {
              const std::lock_guard lock(mutex_);
              EXPECT_GE(backed, backed_) << "out of order";
              backed_ = backed;
              all_ = all;
            }};
  }
  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  uint32_t backed() {
    const std::lock_guard lock(mutex_);
    return backed_;
  }
  bool is_all() {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  size_t touched() {
    const std::lock_guard lock(mutex_);
    return touched_.size();
  }
  int inside() {
    const std::lock_guard lock(mutex_);
    return inside_;
  }
  std::set<std::thread::id> threads() {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  bool touch(uint32_t slot) {
    std::unique_lock lock(mutex_);
    ++inside_;
    threads_.insert(std::this_thread::get_id());
    changed_.wait(lock, [this] { return !held_; });
    --inside_;
    EXPECT_TRUE(touched_.insert(slot).second) << slot << " twice";
    return slot < room_;
  }

  const uint32_t room_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint32_t> touched_;
  std::set<std::thread::id> threads_;
  uint32_t backed_ = 0;
  bool all_ = false;
  bool held_ = false;
  int inside_ = 0;
};

TEST(Forerunner, TouchesOnThreadsOfItsOwn) {
  Fake fake;
  Forerunner forerunner(TouchPlan(kArea, 0), fake.actions());
  forerunner.start({}, 3);
  forerunner.observe({.clients = 1});
  EXPECT_TRUE(becomes([&] { return fake.backed() == 16; }));
  EXPECT_FALSE(fake.threads().contains(std::this_thread::get_id()));
  forerunner.stop();
  EXPECT_EQ(fake.touched(), 16U);
}

TEST(Forerunner, SeveralTouchAtTheSameTimeAndNobodyWaitsForThem) {
  Fake fake;
  fake.hold(true);
  Forerunner forerunner(TouchPlan(kArea, 0), fake.actions());
  forerunner.start({}, 3);
  forerunner.observe({.clients = 1});
  EXPECT_TRUE(becomes([&] { return fake.inside() == 3; }));
  forerunner.observe({.clients = 1});
  fake.hold(false);
  EXPECT_TRUE(becomes([&] { return fake.backed() == 16; }));
}

// Each thread ends the slot that it is at, and no more.
TEST(Forerunner, PausesWithinAPart) {
  Fake fake;
  fake.hold(true);
  Forerunner forerunner(TouchPlan(kArea, 16), fake.actions());
  forerunner.start({}, 2);
  forerunner.observe({.used = 10, .clients = 1});
  ASSERT_TRUE(becomes([&] { return fake.inside() == 2; }));
  forerunner.observe({.used = 10, .clients = 1, .transferring = true});
  fake.hold(false);
  EXPECT_TRUE(becomes([&] { return fake.backed() == 17 && fake.touched() == 2; }));
  forerunner.observe({.used = 11, .clients = 1, .transferring = true});
  EXPECT_EQ(fake.touched(), 2U);
  forerunner.observe({.used = 14, .clients = 1, .transferring = true});
  EXPECT_TRUE(becomes([&] { return fake.backed() == 30; })) << "what the writer needs";
  EXPECT_EQ(fake.touched(), 14U);
  forerunner.observe({.used = 20, .clients = 1});
  EXPECT_TRUE(becomes([&] { return fake.backed() == 40; }));
}

TEST(Forerunner, EndsWhereTheSystemHasNoMore) {
  for (const uint32_t threads : {0U, 1U, 4U}) {
    Fake fake(10);
    Forerunner forerunner(TouchPlan(kArea, 0), fake.actions());
    forerunner.start({}, threads);
    forerunner.observe({.clients = 1});
    EXPECT_TRUE(becomes([&] { return fake.is_all(); })) << threads;
    EXPECT_EQ(fake.backed(), 10U);
  }
}

TEST(Forerunner, WithoutAThreadTheCallerTouches) {
  Fake fake;
  Forerunner forerunner(TouchPlan(kArea, 0), fake.actions());
  forerunner.start([](auto) -> Join { return {}; }, 3);
  forerunner.observe({.clients = 1, .transferring = true});
  EXPECT_EQ(fake.backed(), 16U);
  forerunner.observe({.used = 8, .clients = 1, .transferring = true});
  EXPECT_EQ(fake.backed(), 16U);
  forerunner.observe({.used = 8, .clients = 1});
  EXPECT_EQ(fake.backed(), 24U);
}

TEST(Forerunner, StopsInTheMiddle) {
  Fake fake;
  fake.hold(true);
  Forerunner forerunner(TouchPlan(kArea, 0), fake.actions());
  forerunner.start({}, 2);
  forerunner.observe({.clients = 1});
  ASSERT_TRUE(becomes([&] { return fake.inside() == 2; }));
  std::thread stopping([&] { forerunner.stop(); });
  forerunner.observe({.clients = 2});
  fake.hold(false);
  stopping.join();
  EXPECT_EQ(fake.inside(), 0);
}

}  // namespace
}  // namespace gpusnap
