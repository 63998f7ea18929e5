// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/models.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tiers/plan/markov.h"

namespace gpusnap::plan {
namespace {

// As the machine of GPU Snapshot: memory, SSD, PFS.
std::vector<Level> three_levels() {
  return {
      {"memory", 8, 0, 8, 5.34e-4}, {"ssd", 476, 0, 476, 2.08e-6}, {"pfs", 1943, 0, 1943, 1.77e-7}};
}
std::vector<Level> one_level() {
  return {{"pfs", 60, 0, 90, 1e-5}};
}

double sum_of(const Prediction& prediction) {
  double sum = prediction.efficiency + prediction.overhead.restart + prediction.overhead.lost_work;
  for (const double share : prediction.overhead.checkpoint) sum += share;
  return sum;
}

TEST(Models, NamesAreRead) {
  for (const Model model : kModels) EXPECT_EQ(parse_model(name_of(model)).value(), model);
  const Result<Model> none = parse_model("weibull");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("markov-failures"), std::string::npos);
}

TEST(Models, CostsThatMakeNoSenseAreRefused) {
  EXPECT_EQ(check(std::vector<Level>()).code(), Code::kInvalid);
  std::vector<Level> levels = three_levels();
  EXPECT_TRUE(check(levels).ok());
  levels[1].stall_s = -1;
  EXPECT_NE(check(levels).message().find("ssd"), std::string::npos);
  levels[1].stall_s = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(check(levels).ok());
}

TEST(Models, SharesAddUp) {
  for (const Model model : kModels) {
    const Prediction prediction = optimise(model, three_levels());
    EXPECT_NEAR(sum_of(prediction), 1, 1e-9) << name_of(model);
    EXPECT_GT(prediction.overhead.lost_work, 0);
    EXPECT_GT(prediction.overhead.restart, 0);
  }
}

TEST(Models, EfficiencyFallsWithEachFailureRateAndCost) {
  for (const Model model : kModels) {
    for (size_t level = 0; level < 3; ++level) {
      for (double Level::*member :
           {&Level::failures_per_s, &Level::stall_s, &Level::restart_s, &Level::latency_s}) {
        std::vector<Level> levels = three_levels();
        double before = 1;
        for (int step = 0; step < 4; ++step) {
          const double now = optimise(model, levels).efficiency;
          EXPECT_LT(now, before) << name_of(model) << ", level " << level;
          before = now;
          levels[level].*member = levels[level].*member * 1.5 + (member == &Level::latency_s);
        }
      }
    }
  }
}

// A neighbour differs by a tenth in one interval; the others stay as they are.
TEST(Models, BestIntervalsBeatTheirNeighbours) {
  for (const Model model : kModels) {
    const Prediction best = optimise(model, three_levels());
    for (size_t level = 0; level < 3; ++level) {
      for (const double factor : {0.5, 0.9, 1.1, 2.0}) {
        std::vector<double> intervals_s = best.intervals_s;
        intervals_s[level] *= factor;
        EXPECT_LE(predict(model, three_levels(), intervals_s).efficiency, best.efficiency + 1e-9)
            << name_of(model) << ", level " << level << " times " << factor;
      }
    }
  }
}

TEST(Models, TheBestPatternIsTheBestOfAllNearby) {
  const std::vector<Level> levels = {{"memory", 2, 0, 2, 1e-3}, {"pfs", 100, 0, 100, 2e-5}};
  const double best = optimise(Model::kMarkov, levels).efficiency;
  double found = 0;
  for (uint64_t count = 1; count < 200; ++count) {
    for (double interval_s = 20; interval_s < 200; interval_s *= 1.02) {
      const PatternTime time = markov_time(levels, {interval_s, {count}}, false);
      found = std::max(found, time.work_s / time.total_s);
    }
  }
  EXPECT_GE(best, found - 1e-9);
  EXPECT_NEAR(best, found, 1e-4);
}

TEST(Models, OneLevelHasAClosedForm) {
  const Level level = one_level()[0];
  const double rate = level.failures_per_s;
  for (const double interval_s : {600.0, 3600.0, 40000.0}) {
    const double computing = std::expm1(rate * interval_s) * (1 / rate + level.restart_s);
    EXPECT_NEAR(predict(Model::kMarkov, one_level(), {interval_s}).efficiency,
                interval_s / (computing + level.stall_s), 1e-12);
    const double all =
        std::expm1(rate * (interval_s + level.stall_s)) * std::exp(rate * level.restart_s) / rate;
    EXPECT_NEAR(predict(Model::kMarkovFailures, one_level(), {interval_s}).efficiency,
                interval_s / all, 1e-12);
    EXPECT_NEAR(predict(Model::kDaly, one_level(), {interval_s}).efficiency, interval_s / all,
                1e-12);
  }
}

TEST(Models, YoungsIntervalIsTheFirstOrdersOptimum) {
  const Prediction best = optimise(Model::kFirstOrder, one_level());
  EXPECT_NEAR(best.intervals_s[0], std::sqrt(2 * 60 / 1e-5), 1e-6);
  EXPECT_NEAR(1 / best.efficiency, 1 + std::sqrt(2 * 60 * 1e-5) + 90 * 1e-5, 1e-12);
}

TEST(Models, AllAgreeWhereFailuresAreRare) {
  std::vector<Level> levels = three_levels();
  for (Level& level : levels) level.failures_per_s *= 1e-4;
  const double first = optimise(Model::kFirstOrder, levels).efficiency;
  for (const Model model : kModels) {
    EXPECT_NEAR(optimise(model, levels).efficiency, first, 1e-4) << name_of(model);
  }
}

// With equal intervals every checkpoint is of the last level, and serves all classes.
TEST(Models, EqualIntervalsAreOneLevel) {
  const std::vector<Level> two = {{"memory", 60, 0, 90, 4e-6}, {"pfs", 60, 0, 90, 6e-6}};
  for (const Model model : {Model::kMarkov, Model::kMarkovFailures}) {
    EXPECT_NEAR(predict(model, two, {5000, 5000}).efficiency,
                predict(model, one_level(), {5000}).efficiency, 1e-12);
  }
}

TEST(Models, WorkThatIsNotCoveredYetIsLostOnceMore) {
  std::vector<Level> late = one_level();
  late[0].latency_s = 300;
  const double before = predict(Model::kFirstOrder, one_level(), {5000}).efficiency;
  const double after = predict(Model::kFirstOrder, late, {5000}).efficiency;
  EXPECT_NEAR(1 / after - 1 / before, 300 * 1e-5, 1e-12);
}

TEST(Models, FreeLevelsAndRareClassesAreLeftOut) {
  for (const Model model : kModels) {
    std::vector<Level> levels = three_levels();
    levels[0].stall_s = levels[0].restart_s = 0;
    levels[2].failures_per_s = 0;
    const Prediction prediction = optimise(model, levels);
    EXPECT_EQ(prediction.intervals_s[0], 0);
    EXPECT_TRUE(std::isinf(prediction.intervals_s[2]));
    EXPECT_NEAR(prediction.efficiency, optimise(model, {levels[1]}).efficiency, 1e-12);
    for (Level& level : levels) level.failures_per_s = 0;
    EXPECT_EQ(optimise(model, levels).efficiency, 1);
  }
}

TEST(Models, ALevelTakesOneCheckpointAtATime) {
  for (const Model model : kModels) {
    std::vector<Level> levels = three_levels();
    for (Level& level : levels) level.stall_s = 0.1;
    levels[1].latency_s = 50000;
    levels[2].latency_s = 200000;
    const Prediction prediction = optimise(model, levels);
    EXPECT_GE(prediction.intervals_s[1], 50000) << name_of(model);
    EXPECT_GE(prediction.intervals_s[2], 200000) << name_of(model);
    EXPECT_LE(prediction.intervals_s[0], prediction.intervals_s[1]);
  }
}

TEST(Models, AJobThatNeverEndsHasNoEfficiency) {
  std::vector<Level> levels = three_levels();
  levels[0].failures_per_s = 10;
  const Prediction prediction = optimise(Model::kMarkovFailures, levels);
  EXPECT_LT(prediction.efficiency, 1e-9);
  EXPECT_NEAR(sum_of(prediction), 1, 1e-9);
}

// Shares add up at any costs.
TEST(Models, ExtremeCostsGiveSharesThatAddUp) {
  for (const Model model : kModels) {
    for (size_t level = 0; level < 3; ++level) {
      for (double Level::*member :
           {&Level::failures_per_s, &Level::stall_s, &Level::restart_s, &Level::latency_s}) {
        for (const double value : {0.0, 1e-300, 1e3, 1e300}) {
          std::vector<Level> levels = three_levels();
          levels[level].*member = value;
          const Prediction prediction = optimise(model, levels);
          EXPECT_GE(prediction.efficiency, 0) << name_of(model) << ' ' << level << ' ' << value;
          EXPECT_LE(prediction.efficiency, 1) << name_of(model) << ' ' << level << ' ' << value;
          EXPECT_NEAR(sum_of(prediction), 1, 1e-6)
              << name_of(model) << ' ' << level << ' ' << value;
        }
      }
    }
  }
}

}  // namespace
}  // namespace gpusnap::plan
