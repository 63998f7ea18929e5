// SPDX-License-Identifier: Apache-2.0
//
// Discrete-event simulation of a job on a whole machine: every node draws its failures, checkpoints
// of all nodes hold the job, and their data then flow to the PFS in waves of nodes. It checks the
// analytic models, and goes where their assumptions do not hold.
#pragma once

#include <cstdint>
#include <vector>

#include "tiers/plan/level.h"
#include "tiers/plan/markov.h"
#include "tiers/status.h"

namespace gpusnap::plan {

struct Simulation {
  std::vector<Level> levels;  // all with failures; the last one's failures are of the whole system
  Pattern pattern;
  uint64_t nodes = 1;
  // Nodes that send a checkpoint of the last level at the same time, in the background. Each wave
  // takes its part of the level's latency. A failure of a node in a wave makes the wave begin
  // again.
  uint64_t nodes_in_wave = 1;
  // Failures strike during checkpoints and restarts, too. Otherwise the time of components stands
  // still meanwhile, as kMarkov has it.
  bool anywhere = true;
  // A level's checkpoint or restart begins again for failures of its class or a higher one only:
  // its data are where lower classes do no harm. Otherwise for all, as in kMarkovFailures.
  bool protected_copies = false;
  // Shape of the Weibull distribution of a component's time between failures; below 1 young
  // components fail more often. 1: exponential, as in all models. All components are new at the
  // beginning.
  double shape = 1;
  double work_s = 0;  // useful time after which it ends
  // It gives up after so much time (0: 1000 times the work) or so many events; the result is that
  // of the time until then.
  double most_s = 0;
  uint64_t most_events = 200'000'000;
  uint64_t seed = 1;
};

struct SimulationResult {
  double work_s = 0;  // of checkpoints that were complete at the end, and after the last one
  double total_s = 0;
  double restart_s = 0;
  std::vector<double> checkpoints_s;  // by level, including those that were lost later
  std::vector<uint64_t> failures;     // by class
  uint64_t events = 0;
  double efficiency() const { return total_s > 0 ? work_s / total_s : 0; }
};

inline constexpr uint64_t kMostSimulatedNodes = 10'000'000;  // about 500 MB

// kInvalid for sizes that make no sense, and for too many nodes. The same seed gives the same
// result. A million events take some tenths of a second.
Result<SimulationResult> simulate(const Simulation& simulation);

}  // namespace gpusnap::plan
