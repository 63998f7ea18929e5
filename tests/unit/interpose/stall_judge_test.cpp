// When a replay in which nothing moves goes on waiting, says for whom, and is given up.
#include "interpose/replay/stall_judge.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpusnap {
namespace {

using namespace std::chrono_literals;
using Verdict = StallJudge::Verdict;
using Threads = std::vector<SeenThread>;

constexpr SeenThread waits_for_turn(int id) {
  return {.id = id, .activity = Activity::kTurn, .matters = true};
}
constexpr SeenThread that(int id, Activity activity, bool matters = true) {
  return {.id = id, .activity = activity, .matters = matters};
}

// Looks every five seconds, as long as nothing moves.
class StallJudgeTest : public ::testing::Test {
 protected:
  StallJudgeTest() { EXPECT_FALSE(judge_.wants_look(progress_, now_)); }

  // The next look; every thread has used so much of a processor, in thousandths, since the last.
  Verdict look(Threads threads, std::vector<uint64_t> used = {}, StallJudge::Duration after = 5s) {
    now_ += after;
    EXPECT_TRUE(judge_.wants_look(progress_, now_));
    cpu_ns_.resize(std::max(cpu_ns_.size(), threads.size()));
    for (size_t i = 0; i < threads.size(); ++i) {
      if (i < used.size()) cpu_ns_[i] += static_cast<uint64_t>(after.count()) / 1000 * used[i];
      threads[i].cpu_ns = cpu_ns_[i];
    }
    return judge_.judge(threads, now_);
  }
  void move() {
    ++progress_;
    EXPECT_FALSE(judge_.wants_look(progress_, now_));
  }
  // After how many looks it is given up; 0: not within an hour.
  int given_up_after(const Threads& threads, const std::vector<uint64_t>& used = {}) {
    for (int looks = 1; looks <= 720; ++looks) {
      if (look(threads, used) == Verdict::kGiveUp) return looks;
    }
    return 0;
  }

  StallJudge judge_;
  uint64_t progress_ = 1;
  StallJudge::Duration now_ = 1000s;
  std::vector<uint64_t> cpu_ns_;
};

const Threads kDeadlock = {waits_for_turn(1), that(2, Activity::kLock)};

TEST_F(StallJudgeTest, LooksOnlyWhereNothingHasMovedForAWhile) {
  EXPECT_FALSE(judge_.wants_look(progress_, now_ + 4s));
  EXPECT_TRUE(judge_.wants_look(progress_, now_ + 5s));
  EXPECT_FALSE(judge_.wants_look(progress_ + 1, now_ + 6s));
  EXPECT_FALSE(judge_.wants_look(progress_ + 1, now_ + 10s));
  EXPECT_TRUE(judge_.wants_look(progress_ + 1, now_ + 11s));
}

TEST_F(StallJudgeTest, ADeadlockIsSaidAndGivenUpWithinAMinute) {
  std::vector<Verdict> verdicts;
  for (int i = 0; i < 10; ++i) verdicts.push_back(look(kDeadlock));
  std::vector<Verdict> expected(10, Verdict::kGoOn);
  expected[1] = Verdict::kSay;
  expected[9] = Verdict::kGiveUp;
  EXPECT_EQ(verdicts, expected);
}

TEST_F(StallJudgeTest, AnAwaitedThreadThatHasEndedIsADeadlock) {
  EXPECT_EQ(given_up_after({waits_for_turn(1)}), 10);
  move();
  EXPECT_EQ(given_up_after({waits_for_turn(1), that(2, Activity::kEnded)}), 10);
}

TEST_F(StallJudgeTest, SoIsAReplayOfWhichAllThreadsWaitForTheirTurns) {
  EXPECT_EQ(given_up_after({waits_for_turn(1), waits_for_turn(2)}), 10);
}

TEST_F(StallJudgeTest, WhateverMovesBeginsTheMinuteAnew) {
  for (int i = 0; i < 9; ++i) EXPECT_NE(look(kDeadlock), Verdict::kGiveUp);
  move();
  EXPECT_EQ(given_up_after(kDeadlock), 10);
}

TEST_F(StallJudgeTest, AThreadThatComputesIsWaitedFor) {
  EXPECT_EQ(given_up_after({waits_for_turn(1), that(2, Activity::kRunning)}, {0, 1000}), 0);
}

// Also one that has nothing to do with CUDA, for which the awaited one waits.
TEST_F(StallJudgeTest, AnyThreadOfTheProcessMayBeTheOneThatComputes) {
  const Threads threads = {waits_for_turn(1), that(2, Activity::kLock),
                           that(3, Activity::kRunning, false)};
  EXPECT_EQ(given_up_after(threads, {0, 0, 1000}), 0);
  move();
  EXPECT_EQ(given_up_after(threads, {0, 0, 0}), 10);
}

// It shares two processors with forty others.
TEST_F(StallJudgeTest, ABusyMachineIsNoReasonToGiveUp) {
  EXPECT_EQ(
      given_up_after({waits_for_turn(1), that(2, Activity::kLock), that(3, Activity::kLock, false)},
                     {0, 0, 40}),
      0);
}

// As a thread of Python does that waits for the interpreter's lock.
TEST_F(StallJudgeTest, AThreadThatLooksAtALockAgainAndAgainWaits) {
  EXPECT_EQ(given_up_after({waits_for_turn(1), that(2, Activity::kTimedLock)}, {0, 3}), 10);
}

TEST_F(StallJudgeTest, AThreadThatSleepsIsWaitedForAndSaidAgainEachMinute) {
  for (const Activity activity : {Activity::kOutside, Activity::kTimedLock, Activity::kRunning}) {
    int said = 0;
    for (int i = 0; i < 60; ++i) {
      const Verdict verdict = look({waits_for_turn(1), that(2, activity)});
      EXPECT_NE(verdict, Verdict::kGiveUp);
      said += verdict == Verdict::kSay ? 1 : 0;
    }
    EXPECT_EQ(said, 5);  // after 10 s, 70 s ... of 300 s
    move();
  }
}

// Then others may make calls for it that are made for all.
TEST_F(StallJudgeTest, TheAwaitedThreadIsStuckWhereItWaitsForOthersAndNobodyComputes) {
  const auto awaited = [](Activity activity) {
    return Threads{waits_for_turn(1),
                   {.id = 2, .activity = activity, .matters = true, .awaited = true}};
  };
  for (int i = 0; i < 2; ++i) {
    (void)look(awaited(Activity::kLock));
    EXPECT_FALSE(judge_.awaited_is_stuck());
  }
  (void)look(awaited(Activity::kLock));
  EXPECT_TRUE(judge_.awaited_is_stuck());
  (void)look(awaited(Activity::kLock), {0, 500});
  EXPECT_FALSE(judge_.awaited_is_stuck());
  for (int i = 0; i < 3; ++i) (void)look(awaited(Activity::kOutside));
  EXPECT_FALSE(judge_.awaited_is_stuck());
  (void)look(kDeadlock);
  EXPECT_TRUE(judge_.awaited_is_stuck());
  move();
  EXPECT_FALSE(judge_.awaited_is_stuck());
  EXPECT_EQ(judge_.idle(), 0s);
}

TEST_F(StallJudgeTest, NothingIsSaidOfAnAwaitedThreadThatHasComeWithAnotherCall) {
  const Threads threads = {
      waits_for_turn(1), {.id = 2, .activity = Activity::kTurn, .matters = true, .awaited = true}};
  for (int i = 0; i < 9; ++i) EXPECT_EQ(look(threads), Verdict::kGoOn);
  EXPECT_EQ(look(threads), Verdict::kGiveUp);
}

TEST_F(StallJudgeTest, OneThatSleepsAndDoesNotMatterIsNotWaitedFor) {
  EXPECT_EQ(given_up_after(
                {waits_for_turn(1), that(2, Activity::kLock), that(3, Activity::kOutside, false)}),
            10);
}

TEST_F(StallJudgeTest, ItIsGivenUpAsSoonAsTheSleeperWaitsToo) {
  for (int i = 0; i < 30; ++i) {
    EXPECT_NE(look({waits_for_turn(1), that(2, Activity::kOutside)}), Verdict::kGiveUp);
  }
  EXPECT_EQ(look(kDeadlock), Verdict::kGiveUp);
}

TEST_F(StallJudgeTest, TheMinuteBeginsWhenTheLastOneHasComputed) {
  for (int i = 0; i < 30; ++i) {
    EXPECT_NE(look({waits_for_turn(1), that(2, Activity::kLock)}, {0, 500}), Verdict::kGiveUp);
  }
  EXPECT_EQ(given_up_after(kDeadlock), 9);
}

// A virtual machine that was not given its processors: nobody could move.
TEST_F(StallJudgeTest, WhatLiesBetweenTwoLooksCountsForLittle) {
  (void)look(kDeadlock);
  EXPECT_EQ(look(kDeadlock, {}, 10min), Verdict::kSay);
  EXPECT_EQ(judge_.idle(), 10s);
  EXPECT_EQ(given_up_after(kDeadlock), 7);
}

}  // namespace
}  // namespace gpusnap
