// SPDX-License-Identifier: Apache-2.0
//
// GPU Snapshot's published points. Where the paper's inputs do not give a point, the test asserts
// what they do give; docs/planner-papers.md has the arithmetic.
#include "tiers/plan/published.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tiers/plan/configurations.h"

namespace gpusnap::plan {
namespace {

double efficiency_at(double density, Model model) {
  return optimise(model, levels_of(snapshot_machine(3.6, density))).efficiency;
}

TEST(Published, TableOneAgreesWithTableTwo) {
  for (const PublishedSystem& system : published_systems()) {
    // Three digits are printed; the PFS of other densities has slightly more processors to serve.
    EXPECT_NEAR(system.gpus / 128000, system.exaflops, 1e-9);
    EXPECT_NEAR(system.ssd / system.nodes / 2.15, 1, 0.006);
    EXPECT_NEAR(system.memory / system.nodes / 340, 1, 0.006);
    const double link = std::min(system.cpus * 64, system.gpus * 8);
    EXPECT_NEAR(system.pcie / link, 1, 0.006);
    EXPECT_NEAR(system.gpu_failures / system.gpus / 1.139e-9, 1, 0.006);
    EXPECT_NEAR(system.node_failures / system.nodes / 1.444e-10, 1, 0.006);
  }
}

// Between the columns, machines follow from table 2: near 3.6 exaflops they are those of the
// column.
TEST(Published, MachinesBetweenTheColumnsAreContinuous) {
  for (const double density : {2.0, 4.0, 8.0, 16.0, 32.0}) {
    const auto column = levels_of(snapshot_machine(3.6, density));
    const auto between = levels_of(snapshot_machine(3.6001, density));
    for (size_t level = 0; level < 3; ++level) {
      EXPECT_NEAR(between[level].stall_s / column[level].stall_s, 1, 0.01) << density;
      EXPECT_NEAR(between[level].failures_per_s / column[level].failures_per_s, 1, 0.02) << density;
    }
  }
}

TEST(Published, MachinesHaveNames) {
  for (const std::string& name : machine_names()) {
    EXPECT_EQ(published_machine(name)->name, name);
    EXPECT_TRUE(check(levels_of(published_machine(name).value())).ok());
  }
  EXPECT_EQ(published_machine("snapshot-ics19:3.6:2")->gpus_per_node, 4);
  EXPECT_EQ(published_machine("snapshot-ics19:1:8")->gpus(), 128000);
  EXPECT_EQ(published_machine("summit").status().code(), Code::kNotFound);
  for (const char* wrong : {"snapshot-ics19:", "snapshot-ics19:3.6", "snapshot-ics19:0:2",
                            "snapshot-ics19:3.6:x", "snapshot-ics19:3.6:1e9", "snapshot-ics192"}) {
    EXPECT_EQ(published_machine(wrong).status().code(), Code::kInvalid) << wrong;
  }
}

TEST(Published, EfficienciesAreMetWithinAPoint) {
  for (const Model model : {Model::kFirstOrder, Model::kDaly, Model::kMarkov}) {
    int met = 0;
    for (const PublishedPoint& point : published_points()) {
      if (point.stall < 1 || point.at_most) continue;  // those below
      EXPECT_NEAR(efficiency_of(point, model), point.efficiency, 0.01)
          << name_of(model) << ", " << point.what;
      ++met;
    }
    EXPECT_EQ(met, 4);
  }
}

// Failures of any class during a checkpoint to the PFS, which takes longer than the time between
// two failures, make it begin again: the baseline falls short by 1.7 points.
TEST(Published, FailuresDuringCheckpointsCostTheBaselineMore) {
  const double baseline = efficiency_of(published_points()[0], Model::kMarkovFailures);
  EXPECT_LT(baseline, 0.849 - 0.01);
  EXPECT_GT(baseline, 0.82);
}

TEST(Published, FiftyTimesTheFailuresLeaveLessThanThePapersBound) {
  for (const Model model : kModels) {
    for (const PublishedPoint& point : published_points()) {
      if (!point.at_most) continue;
      EXPECT_LT(efficiency_of(point, model), point.efficiency) << name_of(model);
    }
  }
}

// A host that sends 32 GB to each GPU at 4 GB/s takes 8 s. With 50 times the failures, one every 38
// s, restarts alone take 17% of the time: 90% cannot be kept, however short the stall.
TEST(Published, NinetyPercentIsNotKeptWithRestartsThatTakeTime) {
  Machine machine = snapshot_machine(3.6, 16);
  machine.gpu_failures = 50;
  std::vector<Level> levels = levels_of(machine);
  levels[0].stall_s = levels[0].latency_s = 0;
  const double best = optimise(Model::kFirstOrder, levels).efficiency;
  EXPECT_LT(best, 0.80);
  levels[0].restart_s = 0;
  EXPECT_GT(optimise(Model::kFirstOrder, levels).efficiency, 0.90);
}

// Averages over programs; their stalls and dirty shares are in figures, and the text has ranges.
TEST(Published, AveragesLieInTheRangesOfTheText) {
  const auto efficiency = [](double stall, double dirty) {
    Machine machine = snapshot_machine(3.6, 16);
    machine.memory_stall = stall;
    machine.gpu_dirty = dirty;
    return optimise(Model::kMarkov, levels_of(machine)).efficiency;
  };
  EXPECT_LT(efficiency(1.0 / 3, 1), 0.909);
  EXPECT_GT(efficiency(1.0 / 20, 0.5), 0.909);
  EXPECT_LT(efficiency(1.0 / 4, 1), 0.940);
  EXPECT_GT(efficiency(1.0 / 40, 0.4), 0.940);
  // A memory level without any cost ends below it: the SSDs must receive less.
  EXPECT_LT(efficiency(1e-6, 1), 0.940);
}

// The loss against a machine whose memory level is free is 8 points, as the paper says. Against 2
// GPUs a CPU it is 2: table 1 gives a GPU no more than 8 GB/s there, half of a checkpoint's time.
TEST(Published, DensityCostsEightPointsAgainstAFreeMemoryLevel) {
  for (const Model model : {Model::kFirstOrder, Model::kDaly, Model::kMarkov}) {
    const auto levels = levels_of(snapshot_machine(3.6, 16));
    const double free = optimise(model, with_free_levels(levels, 1)).efficiency;
    EXPECT_NEAR(free - efficiency_at(16, model), 0.08, 0.01) << name_of(model);
    const double loss = efficiency_at(2, model) - efficiency_at(16, model);
    EXPECT_GT(loss, 0.015);
    EXPECT_LT(loss, 0.025);
    EXPECT_GT(efficiency_at(16, model), efficiency_at(32, model));
  }
}

TEST(Published, ConfigurationsAreOrdered) {
  const auto all = compare(snapshot_machine(3.6, 16), Model::kMarkov);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 4u);
  EXPECT_LT(all.value()[0].prediction.efficiency, all.value()[1].prediction.efficiency);
  EXPECT_LT(all.value()[1].prediction.efficiency, all.value()[2].prediction.efficiency);
  EXPECT_EQ(all.value()[3].prediction.efficiency, all.value()[0].prediction.efficiency);
}

TEST(Published, BandwidthHelpsAndFailuresHarm) {
  const Machine machine = snapshot_machine(3.6, 16);
  const auto own = [](const Machine& its) {
    return optimise(Model::kMarkov, levels_of(its)).efficiency;
  };
  for (const char* key : {"link.node", "ssd.write", "pfs.write"}) {
    Machine changed = machine;
    ASSERT_TRUE(set_input(changed, key, "2x").ok());
    EXPECT_GT(own(changed), own(machine)) << key;
    ASSERT_TRUE(set_input(changed, key, "0.25x").ok());
    EXPECT_LT(own(changed), own(machine)) << key;
  }
  for (const char* key : {"failures.gpu", "failures.cpu", "failures.node", "failures.system"}) {
    Machine changed = machine;
    ASSERT_TRUE(set_input(changed, key, "2").ok());
    EXPECT_LT(own(changed), own(machine)) << key;
  }
}

TEST(Published, EveryChangeThatIsOfferedHelps) {
  const Machine machine = snapshot_machine(3.6, 16);
  const double own = optimise(Model::kMarkov, levels_of(machine)).efficiency;
  const auto changes = what_if(machine, Model::kMarkov);
  ASSERT_EQ(changes.size(), 9u);
  double before = 1;
  for (const WhatIf& change : changes) {
    EXPECT_GT(change.efficiency, own) << change.key;
    EXPECT_LE(change.efficiency, before);
    before = change.efficiency;
  }
}

}  // namespace
}  // namespace gpusnap::plan
