// SPDX-License-Identifier: Apache-2.0
//
// A job that fails now and then, on a virtual clock. Its checkpoints come at a fixed interval, or
// at that of the product's IntervalChoice, which learns from them as a process does (Triggers).
// They go to the store, or stay in the node's memory as the product decides (CheckpointLevels).
#pragma once

#include <cstdint>
#include <vector>

#include "tiers/plan/interval_choice.h"
#include "tiers/plan/level.h"

namespace gpusnap::bench {

struct Costs {
  double stall_s = 1;    // how long a checkpoint holds the job
  double latency_s = 0;  // then, until a failure does not lose the checkpoint any more
};

struct JobConfiguration {
  double work_s = 36'000;
  double between_failures_s = 1800;
  double said_between_failures_s = 0;  // what IntervalChoice is told; 0: the truth
  double interval_s = 0;               // from cut to cut; 0: IntervalChoice decides
  double restart_s = 0;
  // The share of failures that the node's memory survives, and what checkpoints cost that stay
  // there. A stall of 0: none does.
  double survived = 0;
  Costs memory{0, 0};
  double memory_restart_s = 0;  // of a restart from there
  Costs costs;
  Costs later;                     // from `changes_at` of the work on; where that is below 1
  double changes_at = 1;           // part of the work
  double first_costs = 1;          // how many times as much the job's first checkpoint costs
  double full_costs = 1;           // and each 17th one after it
  double deviation = 0;            // of the logarithm of each checkpoint's costs, whose mean stays
  uint64_t seed = 1;               // of the failures, which are the same whatever the interval is
  std::vector<double> failures_s;  // when they come instead; empty: they are drawn

  const Costs& costs_at(double done_s) const {
    return done_s < changes_at * work_s ? costs : later;
  }
  bool is_automatic() const { return interval_s == 0; }
  bool has_levels() const { return memory.stall_s > 0; }
  double said_s() const {
    return said_between_failures_s > 0 ? said_between_failures_s : between_failures_s;
  }
};

struct JobOutcome {
  double total_s = 0;  // the sum of the work and of the three below
  double stall_s = 0;  // of checkpoints that were not undone
  double restart_s = 0;
  double lost_s = 0;  // undone
  uint64_t failures = 0;
  uint64_t checkpoints = 0;  // committed
  uint64_t kept = 0;         // in memory
  uint64_t restored = 0;     // from there
  double interval_s = 0;     // in the end
  bool has_ended = true;     // false: given up after a thousand times the work
};

JobOutcome run_job(const JobConfiguration& configuration);

// The total time that the model `markov-failures` predicts: with the fixed interval, or else with
// the best one for the true costs and failures.
double predicted_total_s(const JobConfiguration& configuration);

// The interval that IntervalChoice takes once it knows the costs.
double known_interval_s(const JobConfiguration& configuration, const Costs& costs);

}  // namespace gpusnap::bench
