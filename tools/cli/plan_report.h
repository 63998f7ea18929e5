// SPDX-License-Identifier: Apache-2.0
//
// How `gpusnap plan` shows its numbers: as a table and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tiers/plan/configurations.h"

namespace gpusnap {

struct SimulatedConfiguration {
  std::string name;
  plan::SimulationResult result;
};

struct PlanReport {
  plan::Machine machine;
  plan::Model model = plan::Model::kMarkov;
  std::vector<plan::Configuration> configurations;
  std::vector<plan::WhatIf> what_if;
  bool published = false;  // compare with the points that GPU Snapshot's paper states
  std::optional<plan::CompressionCosts> compression;
  std::vector<SimulatedConfiguration> simulated;  // empty: not asked for
  uint64_t seed = 0;                              // of the simulation
};

// "870 ms", "8.0 s", "2m45s", "5h22m", "1d8h".
std::string show_span(double seconds);
std::string plan_as_text(const PlanReport& report);
std::string plan_as_json(const PlanReport& report);

}  // namespace gpusnap
