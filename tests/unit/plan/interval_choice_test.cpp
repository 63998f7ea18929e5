// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/interval_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tiers/plan/models.h"

namespace gpusnap::plan {
namespace {

double chosen(double between_failures_s, double stall_s, double latency_s = 0) {
  IntervalChoice choice(between_failures_s);
  choice.measured(stall_s, latency_s);
  return choice.interval_s();
}

TEST(IntervalChoice, IsNearYoungsWhereCostsAreSmall) {
  for (const double stall : {0.001, 0.01, 0.1, 1.0}) {
    const double young = std::sqrt(2 * stall * 86400);
    EXPECT_NEAR(chosen(86400, stall), young, 0.02 * young) << stall;
  }
}

TEST(IntervalChoice, BeginsWithAnAssumedStall) {
  EXPECT_EQ(IntervalChoice(3600).interval_s(), chosen(3600, IntervalChoice::kAssumedStall_s));
}

TEST(IntervalChoice, FallsWithFailuresAndRisesWithCosts) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(0, 1);
  for (int i = 0; i < 300; ++i) {
    const double between = std::pow(10, 1 + 5 * exponent(random));
    const double stall = between * std::pow(10, -6 + 4 * exponent(random));
    const double latency = stall * 3 * exponent(random);
    const double slack = 1.001;  // the search is not exact
    EXPECT_GE(chosen(2 * between, stall, latency) * slack, chosen(between, stall, latency));
    EXPECT_GE(chosen(between, 2 * stall, latency) * slack, chosen(between, stall, latency));
    EXPECT_GE(chosen(between, stall, latency) * slack,
              std::max(stall + latency, IntervalChoice::kLeast_s));
  }
}

// No interval that is a tenth off is better.
TEST(IntervalChoice, BeatsItsNeighbours) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> exponent(0, 1);
  for (int i = 0; i < 300; ++i) {
    const double between = std::pow(10, 1 + 5 * exponent(random));
    const double stall = between * std::pow(10, -5 + 3 * exponent(random));
    const Level level = {"store", stall, 0, 0, 1 / between};
    const double work = chosen(between, stall) - stall;
    const double best = predict(Model::kMarkov, {level}, {work}).efficiency;
    for (const double off : {0.9, 1.1}) {
      EXPECT_GE(best, predict(Model::kMarkov, {level}, {work * off}).efficiency - 1e-9);
    }
  }
}

TEST(IntervalChoice, FollowsWhatCheckpointsCost) {
  IntervalChoice choice(3600);
  choice.measured(0.01, 0.5);
  const double cheap = choice.interval_s();
  for (int i = 0; i < 60; ++i) choice.measured(1, 0.5);
  EXPECT_NEAR(choice.stall_s(), 1, 1e-3);
  EXPECT_NEAR(choice.interval_s(), chosen(3600, 1, 0.5), 0.01 * choice.interval_s());
  EXPECT_GT(choice.interval_s(), 5 * cheap);
}

// The first one holds all of a job's memory, and is not what the next ones cost.
TEST(IntervalChoice, ForgetsTheFirstCheckpointWithTheSecond) {
  IntervalChoice choice(3600);
  choice.measured(20, 60);
  EXPECT_EQ(choice.stall_s(), 20);
  choice.measured(1, 3);
  EXPECT_EQ(choice.stall_s(), 1);
  EXPECT_EQ(choice.latency_s(), 3);
  EXPECT_EQ(choice.interval_s(), chosen(3600, 1, 3));
}

TEST(IntervalChoice, TakesThePlainMeanOfTheNext) {
  IntervalChoice choice(3600);
  choice.measured(100, 100);
  double sum = 0;
  for (int i = 1; i <= 8; ++i) {
    choice.measured(i, 2 * i);
    sum += i;
    EXPECT_NEAR(choice.stall_s(), sum / i, 1e-12);
    EXPECT_NEAR(choice.latency_s(), 2 * sum / i, 1e-12);
  }
  // From here on, what is older counts less and less.
  const double mean = choice.stall_s();
  choice.measured(mean + 8, 0);
  EXPECT_NEAR(choice.stall_s(), mean + 1, 1e-12);
}

// Wherever it is taken up, the run that was never interrupted does not differ.
TEST(IntervalChoice, GoesOnWhereAnEarlierRunEnded) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> seconds(0.001, 2);
  for (int i = 0; i < 100; ++i) {
    IntervalChoice whole(3600);
    for (int measured = 0; measured < i % 7; ++measured) {
      whole.measured(seconds(random), seconds(random));
    }
    IntervalChoice taken_up(3600);
    taken_up.resume(whole.chosen());
    EXPECT_EQ(taken_up.chosen(), whole.chosen());
    const double stall = seconds(random);
    const double latency = seconds(random);
    whole.measured(stall, latency);
    taken_up.measured(stall, latency);
    EXPECT_EQ(taken_up.chosen(), whole.chosen());
    EXPECT_EQ(taken_up.chosen().measurements, static_cast<uint64_t>(i % 7 + 1));
  }
}

TEST(IntervalChoice, GoesOnAtItsOwnFailureRate) {
  IntervalChoice earlier(3600);
  earlier.measured(0.5, 0.25);
  IntervalChoice now(60);
  now.resume(earlier.chosen());
  EXPECT_EQ(now.chosen().between_failures_s, 60);
  EXPECT_EQ(now.interval_s(), chosen(60, 0.5, 0.25));
}

TEST(IntervalChoice, AChoiceWithoutMeasurementsChangesNothing) {
  IntervalChoice choice(60);
  choice.resume(IntervalChoice(3600).chosen());
  EXPECT_EQ(choice.chosen(), IntervalChoice(60).chosen());
  choice.resume({});
  EXPECT_EQ(choice.chosen(), IntervalChoice(60).chosen());
}

TEST(IntervalChoice, WhatIsSoundMakesAnIntervalThatIs) {
  for (const double most : {0.0, 1e-9, 1.0, ChosenInterval::kMost_s}) {
    const ChosenInterval earlier = {1, most, most, 1, ChosenInterval::kMostMeasurements};
    ASSERT_TRUE(earlier.is_sound());
    IntervalChoice choice(60);
    choice.resume(earlier);
    EXPECT_GE(choice.interval_s(), IntervalChoice::kLeast_s) << most;
    EXPECT_TRUE(std::isfinite(choice.interval_s())) << most;
    choice.measured(1, 1);
    EXPECT_TRUE(std::isfinite(choice.interval_s())) << most;
  }
}

TEST(IntervalChoice, AllThatItChoosesIsSound) {
  EXPECT_TRUE(ChosenInterval().is_sound());
  for (const double between : {1e-9, 1.0, 9.2e9}) {
    IntervalChoice choice(between);
    EXPECT_TRUE(choice.chosen().is_sound()) << between;
    for (const double cost : {0.0, 1e-9, 1.0, 1e10}) {
      choice.measured(cost, cost);
      EXPECT_TRUE(choice.chosen().is_sound()) << between << " " << cost;
    }
  }
}

// ---- Levels

constexpr double kTenth = 0.9;  // survived

IntervalChoice with_levels(double between_s, double survived, double memory_stall,
                           double memory_latency, double store_stall, double store_latency) {
  IntervalChoice choice({between_s, kStatedWeight, survived}, true);
  choice.measured(store_stall, store_latency);
  choice.measured(memory_stall, memory_latency, Destination::kMemory);
  return choice;
}

std::vector<Level> levels_of(double between_s, double survived, double memory_stall,
                             double memory_latency, double store_stall, double store_latency) {
  return {{"memory", memory_stall, memory_latency, 0, survived / between_s},
          {"store", store_stall, store_latency, 0, (1 - survived) / between_s}};
}

TEST(LevelChoice, KeepsCheckpointsInMemoryWhereTheStoreIsSlow) {
  const IntervalChoice choice = with_levels(3600, kTenth, 0.5, 0.5, 0.5, 300);
  EXPECT_GT(choice.store_every(), 2U);
  EXPECT_LT(choice.interval_s(), chosen(3600, 0.5, 300) / 3);
}

TEST(LevelChoice, IsThatOfOneLevelWithoutMemoryOrWhereNoFailureSparesIt) {
  IntervalChoice one({3600, kStatedWeight, kTenth}, false);
  one.measured(0.5, 300);
  for (const double survived : {0.0, kTenth}) {
    IntervalChoice two = with_levels(3600, survived, 0.5, 0.5, 0.5, 300);
    if (survived > 0) two.without_memory();
    EXPECT_EQ(two.store_every(), 1U);
    EXPECT_EQ(two.interval_s(), one.interval_s());
  }
}

// Everything may go to a store that costs no more than memory.
TEST(LevelChoice, IsThatOfOneLevelWhereTheStoreCostsNoMore) {
  for (const double between : {60.0, 3600.0, 86400.0}) {
    const double stall = between * 1e-4;
    const IntervalChoice two = with_levels(between, kTenth, 2 * stall, stall, stall, stall);
    EXPECT_EQ(two.store_every(), 1U) << between;
    EXPECT_EQ(two.interval_s(), chosen(between, stall, stall)) << between;
  }
}

// In the model: it is never worse than one level, and neither is a pattern beside it better.
TEST(LevelChoice, BeatsItsNeighboursAndOneLevel) {
  std::mt19937_64 random(6);
  std::uniform_real_distribution<double> exponent(0, 1);
  int with_two = 0;
  for (int i = 0; i < 200; ++i) {
    const double between = std::pow(10, 2 + 4 * exponent(random));
    const double survived = exponent(random);
    const double stall = between * std::pow(10, -5 + 2 * exponent(random));
    const double memory_stall = stall * std::pow(10, -1 + 1.5 * exponent(random));
    const double latency = between * std::pow(10, -5 + 4 * exponent(random));
    const double memory_latency = memory_stall;
    const IntervalChoice choice =
        with_levels(between, survived, memory_stall, memory_latency, stall, latency);
    const auto levels = levels_of(between, survived, memory_stall, memory_latency, stall, latency);
    const auto every = static_cast<double>(choice.store_every());
    const auto efficiency = [&](double interval_s, double count) {
      return predict(Model::kMarkov, levels, {interval_s, interval_s * count}).efficiency;
    };
    if (choice.store_every() == 1) continue;
    ++with_two;
    const double mean_stall = (memory_stall * (every - 1) + stall) / every;
    const double interval = choice.interval_s() - mean_stall;
    const double best = efficiency(interval, every);
    const Prediction one = optimise(Model::kMarkov, {{"store", stall, latency, 0, 1 / between}});
    EXPECT_GE(best, one.efficiency - 1e-6) << i;
    // The pattern with one more, or one less, for the store, at its own best interval around here.
    for (const double count : {every - 1, every + 1}) {
      if (count < 2) continue;
      if (interval * count < stall + latency) continue;  // one checkpoint at a time
      EXPECT_GE(best, efficiency(interval, count) - 1e-4) << i << ": " << count;
    }
    for (const double off : {0.9, 1.1}) {
      if (interval * off * every < stall + latency) continue;
      if (interval * off < memory_stall + memory_latency) continue;
      EXPECT_GE(best, efficiency(interval * off, every) - 1e-4) << i << ": " << off;
    }
  }
  EXPECT_GT(with_two, 40);
}

TEST(LevelChoice, GoesOnWithWhatWasMeasuredOfBothLevels) {
  const IntervalChoice earlier = with_levels(3600, kTenth, 0.25, 0.5, 1, 300);
  IntervalChoice now({3600, kStatedWeight, kTenth}, true);
  now.resume(earlier.chosen());
  EXPECT_EQ(now.chosen(), earlier.chosen());
  EXPECT_TRUE(now.chosen().is_sound());
}

// ---- Observed failures

TEST(ObservedFailures, ChangeNothingAtTheStatedRate) {
  const Failures stated{3600, kStatedWeight, kTenth};
  EXPECT_EQ(refined_s(stated, 0, 0), 3600);
  for (const uint64_t restarts : {1U, 10U, 1000U}) {
    EXPECT_DOUBLE_EQ(refined_s(stated, restarts, 3600.0 * static_cast<double>(restarts)), 3600);
  }
}

TEST(ObservedFailures, CountMoreTheMoreThereAre) {
  const Failures stated{3600, kStatedWeight, kTenth};
  double before = 3600;
  for (uint64_t restarts = 1; restarts < 1000; restarts *= 2) {
    const double now = refined_s(stated, restarts, 600.0 * static_cast<double>(restarts));
    EXPECT_LT(now, before);
    EXPECT_GT(now, 600);
    before = now;
  }
  EXPECT_NEAR(before, 600, 60);
  // A job that does not fail fails less often than was stated.
  EXPECT_GT(refined_s(stated, 0, 36000), 3600);
  // Where nothing was stated one failure counts as much as that.
  EXPECT_LT(refined_s({86400, kAssumedWeight, kTenth}, 1, 600), 86400 / 1.9);
}

TEST(ObservedFailures, ShortenTheInterval) {
  IntervalChoice choice({3600, kStatedWeight, kTenth});
  choice.measured(1, 1);
  const double before = choice.interval_s();
  for (int i = 0; i < 20; ++i) choice.restarted();
  EXPECT_LT(choice.interval_s(), before / 1.5);
  choice.ran(3600 * 200);
  choice.measured(1, 1);
  EXPECT_GT(choice.interval_s(), before);
  EXPECT_EQ(choice.chosen().failures, 20U);
}

TEST(IntervalChoice, AStallOfNothingDoesNotMeanWithoutEnd) {
  EXPECT_GE(chosen(1, 0), IntervalChoice::kLeast_s);
  EXPECT_GE(chosen(1e-3, 0), IntervalChoice::kLeast_s);
}

}  // namespace
}  // namespace gpusnap::plan
