// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/touch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace gpusnap {
namespace {

using Part = TouchPlan::Part;

constexpr TouchPlan::Options kSmall{
    .slots = 100, .part_slots = 4, .ahead_slots = 8, .few_slots = 2};

// Takes and touches as much as the plan allows.
uint32_t touch_all(TouchPlan& plan) {
  while (const auto part = plan.take()) {
    for (uint32_t i = 0; i < part->count; ++i) plan.touched(part->first + i);
  }
  return plan.backed();
}

TEST(TouchPlan, TouchesNothingForNobody) {
  TouchPlan plan(kSmall, 0);
  EXPECT_FALSE(plan.take());
  plan.observe({.used = 0, .clients = 0, .transferring = false});
  EXPECT_FALSE(plan.take());
}

TEST(TouchPlan, AnIdleProgramTakesItsShareAndNoMore) {
  TouchPlan plan(kSmall, 0);
  plan.observe({.clients = 1});
  for (int again = 0; again < 10; ++again) EXPECT_EQ(touch_all(plan), 8U);
  plan.observe({.clients = 3});
  EXPECT_EQ(touch_all(plan), 24U);
}

TEST(TouchPlan, TheReserveDoublesWhileItIsConsumed) {
  TouchPlan plan(kSmall, 0);
  plan.observe({.clients = 1});
  EXPECT_EQ(touch_all(plan), 8U);
  plan.observe({.used = 8, .clients = 1});
  EXPECT_EQ(touch_all(plan), 16U);
  plan.observe({.used = 16, .clients = 1});
  EXPECT_EQ(touch_all(plan), 32U);
  plan.observe({.used = 32, .clients = 1});
  EXPECT_EQ(touch_all(plan), 64U);
  plan.observe({.used = 0, .clients = 1});
  EXPECT_EQ(touch_all(plan), 64U) << "what comes free again is enough";
  plan.observe({.used = 64, .clients = 1});
  EXPECT_EQ(touch_all(plan), 100U);
}

TEST(TouchPlan, DividesWhatMayBeTouchedBetweenThreads) {
  TouchPlan::Options options = kSmall;
  options.threads = 8;
  TouchPlan plan(options, 0);
  plan.observe({.clients = 1});
  for (uint32_t slot = 0; slot < 8; ++slot) {
    const auto part = plan.take();
    ASSERT_TRUE(part);
    EXPECT_EQ(part->first, slot);
    EXPECT_EQ(part->count, 1U);
  }
  EXPECT_FALSE(plan.take());
  plan.observe({.used = 80, .clients = 1});
  EXPECT_EQ(plan.take()->count, 4U) << "at most a part";
}

TEST(TouchPlan, PausesWhileACheckpointIsHandedOver) {
  TouchPlan plan(kSmall, 4);
  plan.observe({.clients = 1});
  const auto part = plan.take();
  ASSERT_TRUE(part);
  plan.touched(4);
  plan.observe({.clients = 1, .transferring = true});
  EXPECT_FALSE(plan.may_touch(5)) << "also within a part that was begun";
  EXPECT_FALSE(plan.take());
  plan.observe({.clients = 2});
  EXPECT_TRUE(plan.may_touch(5));
  EXPECT_TRUE(plan.take());
}

TEST(TouchPlan, TheWritersNeedComesFirstAndAtOneGo) {
  TouchPlan plan(kSmall, 14);
  plan.observe({.used = 12, .clients = 1, .transferring = true});
  EXPECT_EQ(touch_all(plan), 14U) << "two are free, which is enough";
  plan.observe({.used = 13, .clients = 1, .transferring = true});
  const auto part = plan.take();
  ASSERT_TRUE(part);
  for (uint32_t i = 0; i < part->count; ++i) plan.touched(part->first + i);
  plan.observe({.used = 13, .clients = 1, .transferring = true});
  EXPECT_EQ(touch_all(plan), 26U) << "also once there are two again";
  plan.observe({.used = 24, .clients = 1, .transferring = true});
  EXPECT_EQ(touch_all(plan), 26U) << "it was brought to an end";
}

TEST(TouchPlan, PublishesTheLeadingSlotsAlone) {
  TouchPlan plan(kSmall, 0);
  plan.observe({.clients = 1});
  const auto first = plan.take(), second = plan.take();
  ASSERT_TRUE(first && second);
  for (uint32_t slot = 4; slot < 8; ++slot) plan.touched(slot);
  EXPECT_EQ(plan.backed(), 0U);
  for (uint32_t slot = 0; slot < 3; ++slot) plan.touched(slot);
  EXPECT_EQ(plan.backed(), 3U);
  plan.touched(3);
  EXPECT_EQ(plan.backed(), 8U);
}

TEST(TouchPlan, IsExhaustedOnceAllBeforeTheRefusedSlotAreThere) {
  TouchPlan plan(kSmall, 0);
  plan.observe({.clients = 1});
  const auto first = plan.take(), second = plan.take();
  ASSERT_TRUE(first && second);
  plan.touched(4);
  plan.refused(5);
  EXPECT_FALSE(plan.is_exhausted());
  plan.observe({.used = 0, .clients = 100});
  EXPECT_FALSE(plan.take());
  for (uint32_t slot = 0; slot < 4; ++slot) plan.touched(slot);
  EXPECT_EQ(plan.backed(), 5U);
  EXPECT_TRUE(plan.is_exhausted());
}

TEST(TouchPlan, GoesOnWhereAnotherServerWas) {
  TouchPlan plan(kSmall, 5);
  plan.observe({.clients = 1});
  const auto part = plan.take();
  ASSERT_TRUE(part);
  EXPECT_EQ(part->first, 5U);
}

// Some threads, clients that come and go, and an area that may be refused from some slot on.
class History {
 public:
  explicit History(uint64_t seed, bool pauses = true) : random_(seed) {
    options_.slots = 1 + pick(60);
    options_.part_slots = 1 + pick(6);
    options_.ahead_slots = 1 + pick(12);
    options_.few_slots = 1 + pick(options_.ahead_slots);
    options_.threads = 1 + pick(4);
    options_.pauses = pauses;
    room_ = pick(3) == 0 ? pick(options_.slots) : options_.slots;
    touched_.assign(options_.slots, false);
    plan_.emplace(options_, 0);
    threads_.resize(options_.threads);
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      if (pick(4) == 0) {
        change();
      } else {
        (void)act(threads_[pick(static_cast<uint32_t>(threads_.size()))]);
      }
      check();
    }
    // The writer's need is met in the end, after any history.
    while (std::ranges::any_of(threads_, [this](Thread& thread) { return act(thread); })) check();
    if (demand_.clients > 0) {
      EXPECT_GE(plan_->backed(), std::min(needed(), room_));
    }
  }
  // Slots that were touched while a checkpoint was handed over and that nobody waited for.
  int competing() const { return competing_; }

 private:
  struct Thread {
    std::optional<Part> part;
    uint32_t done = 0;
  };

  uint32_t pick(uint32_t below) {
    return below == 0 ? 0 : static_cast<uint32_t>(random_() % below);
  }
  // Slots that have to be there in the end.
  uint32_t needed() const { return demand_.used + options_.few_slots * demand_.clients; }

  // Programs use what is there, come, go, and begin and end to hand over.
  void change() {
    demand_.used = pick(plan_->backed() + 1);
    if (pick(4) == 0) demand_.clients = pick(4);
    demand_.transferring = pick(2) == 0;
    most_used_ = std::max(most_used_, demand_.used);
    most_clients_ = std::max(most_clients_, demand_.clients);
    if (plan_->backed() - demand_.used < options_.few_slots * demand_.clients) is_urgent_ = true;
    end_urgency();
    plan_->observe(demand_);
  }
  void end_urgency() {
    const uint32_t share = demand_.clients * options_.ahead_slots;
    const uint32_t wanted = most_used_ + std::max(share, most_used_);
    if (plan_->backed() >= (demand_.clients == 0 ? 0 : wanted)) is_urgent_ = false;
  }

  // False: the thread has nothing to do now.
  bool act(Thread& thread) {
    if (!thread.part) {
      thread = {plan_->take(), 0};
      return thread.part.has_value();
    }
    const uint32_t slot = thread.part->first + thread.done;
    if (!plan_->may_touch(slot)) return false;
    EXPECT_LT(slot, options_.slots);
    EXPECT_FALSE(touched_[slot]) << "twice";
    touched_[slot] = true;
    if (demand_.transferring && !is_urgent_) ++competing_;
    if (slot < room_) {
      plan_->touched(slot);
    } else {
      plan_->refused(slot);
    }
    end_urgency();
    if (slot >= room_ || ++thread.done == thread.part->count) thread.part.reset();
    return true;
  }

  void check() {
    const auto first_lacking = static_cast<uint32_t>(
        std::find(touched_.begin(), touched_.end(), false) - touched_.begin());
    EXPECT_EQ(plan_->backed(), std::min(first_lacking, room_));
    if (plan_->is_exhausted()) {
      EXPECT_EQ(plan_->backed(), room_);
    }
    // An idle program takes its share; one that writes, at most as much again as it has used.
    const uint32_t share = options_.ahead_slots * most_clients_;
    const auto all = static_cast<uint32_t>(std::ranges::count(touched_, true));
    EXPECT_LE(all, most_used_ + std::max(share, most_used_));
  }

  std::mt19937_64 random_;
  TouchPlan::Options options_;
  TouchPlan::Demand demand_;
  std::optional<TouchPlan> plan_;
  std::vector<Thread> threads_;
  std::vector<bool> touched_;
  uint32_t room_ = 0;
  uint32_t most_used_ = 0, most_clients_ = 0;
  bool is_urgent_ = false;
  int competing_ = 0;
};

TEST(TouchPlan, RandomHistories) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    History history(seed);
    history.run(200);
    EXPECT_EQ(history.competing(), 0) << "it did not pause";
    if (HasFailure()) return;
  }
}

// That the test before would see it.
TEST(TouchPlan, WithoutThePauseItCompetes) {
  int competing = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    History history(seed, false);
    history.run(200);
    competing += history.competing();
  }
  EXPECT_GT(competing, 0);
}

}  // namespace
}  // namespace gpusnap
