// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/simulation.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tiers/plan/configurations.h"
#include "tiers/plan/failure_source.h"
#include "tiers/plan/published.h"

namespace gpusnap::plan {
namespace {

constexpr uint64_t kSeed = 20191;

Simulation baseline(Model model, double work_s) {
  const Machine machine = snapshot_machine(3.6, 16);
  const auto configurations = compare(machine, model);
  Simulation simulation = simulation_of(configurations.value()[0], model, machine).value();
  simulation.work_s = work_s;
  simulation.seed = kSeed;
  return simulation;
}

double model_of(const Simulation& simulation, bool anywhere) {
  const PatternTime time = markov_time(simulation.levels, simulation.pattern, anywhere);
  return time.work_s / time.total_s;
}

TEST(FailureSource, RatesAndOrderAreRight) {
  for (const double shape : {1.0, 0.7}) {
    FailureSource source(shape, kSeed);
    source.add(0, 1e-2, 100);
    source.add(1, 1e-3, 1);
    double before_s = 0;
    uint64_t counts[2] = {0, 0};
    while (source.next().time_s < 1e7) {
      EXPECT_GE(source.next().time_s, before_s);
      before_s = source.next().time_s;
      ++counts[source.next().level];
      source.pop();
    }
    EXPECT_NEAR(static_cast<double>(counts[0]), 1e5, 2e3) << "seed " << kSeed;
    EXPECT_NEAR(static_cast<double>(counts[1]), 1e4, 5e2) << "seed " << kSeed;
  }
}

TEST(Simulation, ASeedGivesTheSameResultAgain) {
  Simulation simulation = baseline(Model::kMarkov, 1e7);
  const double first = simulate(simulation)->total_s;
  EXPECT_EQ(simulate(simulation)->total_s, first);
  simulation.seed += 1;
  EXPECT_NE(simulate(simulation)->total_s, first);
}

TEST(Simulation, AgreesWithTheMarkovChainsWithinAPoint) {
  for (const Model model : {Model::kMarkov, Model::kMarkovFailures}) {
    const Simulation simulation = baseline(model, 2e8);
    const Result<SimulationResult> result = simulate(simulation);
    ASSERT_TRUE(result.ok());
    EXPECT_NEAR(result->efficiency(), model_of(simulation, simulation.anywhere), 0.01)
        << name_of(model) << ", seed " << kSeed;
    EXPECT_GT(result->failures[2], 10u);
  }
}

TEST(Simulation, AgreesWithTheModelForAHundredThousandNodes) {
  Machine machine = snapshot_machine(3.6, 16);
  ASSERT_TRUE(set_input(machine, "nodes", "100000").ok());
  ASSERT_TRUE(set_input(machine, "pfs.write", "7x").ok());
  ASSERT_TRUE(set_input(machine, "failures.gpu", "0.1").ok());
  const auto configurations = compare(machine, Model::kMarkovFailures);
  Simulation simulation =
      simulation_of(configurations.value()[0], Model::kMarkovFailures, machine).value();
  EXPECT_EQ(simulation.nodes, 100000u);
  simulation.work_s = 1e8;
  simulation.seed = kSeed;
  EXPECT_NEAR(simulate(simulation)->efficiency(), configurations.value()[0].prediction.efficiency,
              0.01)
      << "seed " << kSeed;
}

// Young components fail more often than the models have it, and all are new at the beginning.
TEST(Simulation, YoungComponentsCostMore) {
  Simulation simulation = baseline(Model::kMarkovFailures, 1e8);
  const double constant = simulate(simulation)->efficiency();
  simulation.shape = 0.7;
  EXPECT_LT(simulate(simulation)->efficiency(), constant - 0.01) << "seed " << kSeed;
}

// Failures of one class that are frequent, so that statistics are good.
TEST(Simulation, AgreesCloselyWithOneLevel) {
  Simulation simulation;
  simulation.levels = {{"pfs", 20, 0, 30, 1e-3}};
  simulation.pattern.interval_s = 200;
  simulation.nodes = 1000;
  simulation.work_s = 2e7;
  simulation.seed = kSeed;
  const Result<SimulationResult> result = simulate(simulation);
  EXPECT_NEAR(result->efficiency(), model_of(simulation, true), 0.004) << "seed " << kSeed;
  EXPECT_NEAR(result->checkpoints_s[0], 2e7 / 200 * 20, 1);
}

TEST(Simulation, AgreesWithBackgroundCopiesWithinAPoint) {
  Machine machine = snapshot_machine(3.6, 16);
  for (const char* change : {"stall.memory", "stall.ssd", "stall.pfs"}) {
    ASSERT_TRUE(set_input(machine, change, "0.05").ok());
  }
  const auto configurations = compare(machine, Model::kMarkov);
  Simulation simulation = simulation_of(configurations.value()[3], Model::kMarkov, machine).value();
  simulation.work_s = 1e8;
  simulation.seed = kSeed;
  EXPECT_NEAR(simulate(simulation)->efficiency(), configurations.value()[3].prediction.efficiency,
              0.01)
      << "seed " << kSeed;
}

// No analytic model has this: failures of GPUs do no harm to copies from the host's memory.
TEST(Simulation, ProtectedCopiesLoseLess) {
  Simulation simulation = baseline(Model::kMarkovFailures, 1e8);
  const double all = simulate(simulation)->efficiency();
  simulation.protected_copies = true;
  EXPECT_GT(simulate(simulation)->efficiency(), all + 0.005) << "seed " << kSeed;
}

TEST(Simulation, AWaveThatLosesANodeTakesLonger) {
  Simulation simulation;
  simulation.levels = {{"ssd", 1, 0, 1, 1e-2}, {"pfs", 1, 900, 1, 1e-4}};
  simulation.pattern = {10, {100}};
  simulation.nodes = 100;
  simulation.nodes_in_wave = 100;
  simulation.work_s = 1e6;
  simulation.seed = kSeed;
  const double whole = simulate(simulation)->efficiency();
  simulation.nodes_in_wave = 1;
  EXPECT_GE(simulate(simulation)->efficiency(), whole) << "seed " << kSeed;
}

TEST(Simulation, AJobThatNeverEndsIsGivenUp) {
  Simulation simulation;
  simulation.levels = {{"pfs", 1000, 0, 10, 1.0}};
  simulation.pattern.interval_s = 100;
  simulation.work_s = 1000;
  simulation.most_s = 1e5;
  const Result<SimulationResult> result = simulate(simulation);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->work_s, 0);
  EXPECT_GE(result->total_s, 1e5);
  simulation.most_s = 1e100;
  simulation.most_events = 1000;
  for (const double restart_s : {10.0, 1e9}) {
    for (const bool protects : {false, true}) {
      simulation.levels[0].restart_s = restart_s;
      simulation.protected_copies = protects;
      EXPECT_LE(simulate(simulation)->events, 1010u) << restart_s << protects;
    }
  }
}

TEST(Simulation, SizesThatMakeNoSenseAreRefused) {
  EXPECT_EQ(simulate({}).status().code(), Code::kInvalid);
  Simulation simulation;
  simulation.levels = {{"pfs", 1, 0, 1, 0}};
  simulation.pattern.interval_s = 1;
  simulation.work_s = 1;
  EXPECT_NE(simulate(simulation).status().message().find("pfs"), std::string::npos);
  simulation.levels[0].failures_per_s = 1;
  simulation.nodes = kMostSimulatedNodes + 1;
  EXPECT_NE(simulate(simulation).status().message().find("nodes"), std::string::npos);
}

}  // namespace
}  // namespace gpusnap::plan
