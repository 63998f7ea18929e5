// SPDX-License-Identifier: Apache-2.0
//
// The configurations that `gpusnap plan` compares, and changes that would help.
#pragma once

#include <string>
#include <vector>

#include "tiers/plan/machine.h"
#include "tiers/plan/models.h"
#include "tiers/plan/simulation.h"

namespace gpusnap::plan {

struct Configuration {
  std::string name;
  std::vector<Level> levels;
  Prediction prediction;  // with the best intervals
};

// "baseline": full checkpoints that hold the program; "level1_free", "level1_and_2_free": the same
// as if the first levels cost nothing; "own": as the machine's inputs say. kInvalid: see check().
Result<std::vector<Configuration>> compare(const Machine& machine, Model model);

// A change of one input, and the efficiency of "own" with it.
struct WhatIf {
  std::string key;
  std::string value;
  double efficiency = 0;
};
// Twice each bandwidth, half of each kind of failures, GPU Snapshot's stall: the most helpful
// first.
std::vector<WhatIf> what_if(const Machine& machine, Model model);

// A simulation of the configuration at its intervals. Levels without cost or failures are left out.
// kInvalid where none remains.
Result<Simulation> simulation_of(const Configuration& configuration, Model model,
                                 const Machine& machine);

}  // namespace gpusnap::plan
