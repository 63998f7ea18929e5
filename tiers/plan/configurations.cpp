// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/configurations.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpusnap::plan {
namespace {

constexpr std::pair<const char*, const char*> kChanges[] = {
    {"link.node", "2x"},       {"ssd.write", "2x"},       {"pfs.write", "2x"},
    {"failures.gpu", "0.5x"},  {"failures.node", "0.5x"}, {"failures.system", "0.5x"},
    {"memory.stored", "0.5x"}, {"memory.dirty", "0.5x"},  {"stall.memory", "0.05"},
};

}  // namespace

Result<std::vector<Configuration>> compare(const Machine& machine, Model model) {
  const std::vector<Level> full = levels_of(blocking(machine));
  const std::vector<Level> own = levels_of(machine);
  for (const std::vector<Level>* levels : {&full, &own}) {
    const Status good = check(*levels);
    if (!good.ok()) return good;
  }
  std::vector<Configuration> all = {
      {"baseline", full, {}},
      {"level1_free", with_free_levels(full, 1), {}},
      {"level1_and_2_free", with_free_levels(full, 2), {}},
      {"own", own, {}},
  };
  for (Configuration& each : all) each.prediction = optimise(model, each.levels);
  return all;
}

std::vector<WhatIf> what_if(const Machine& machine, Model model) {
  std::vector<WhatIf> all;
  for (const auto& [key, value] : kChanges) {
    Machine changed = machine;
    if (!set_input(changed, key, value).ok()) continue;  // out of this machine's bounds
    all.push_back({key, value, optimise(model, levels_of(changed)).efficiency});
  }
  std::stable_sort(all.begin(), all.end(), [](const WhatIf& left, const WhatIf& right) {
    return left.efficiency > right.efficiency;
  });
  return all;
}

Result<Simulation> simulation_of(const Configuration& configuration, Model model,
                                 const Machine& machine) {
  constexpr double kShareOfNodesInWave = 0.01;
  Simulation simulation;
  simulation.nodes = static_cast<uint64_t>(std::llround(machine.nodes));
  simulation.nodes_in_wave = static_cast<uint64_t>(std::ceil(machine.nodes * kShareOfNodesInWave));
  simulation.anywhere = model != Model::kMarkov;
  double interval_s = 0;
  for (size_t i = 0; i < configuration.levels.size(); ++i) {
    const double this_s = configuration.prediction.intervals_s[i];
    if (!std::isfinite(this_s) || this_s <= 0) continue;
    if (simulation.levels.empty()) {
      simulation.pattern.interval_s = interval_s = this_s;
    } else {
      const auto count = std::max<int64_t>(1, std::llround(this_s / interval_s));
      simulation.pattern.counts.push_back(static_cast<uint64_t>(count));
      interval_s *= static_cast<double>(count);
    }
    simulation.levels.push_back(configuration.levels[i]);
  }
  if (simulation.levels.empty()) {
    return Status(Code::kInvalid, configuration.name + ": nothing fails, or nothing costs time");
  }
  return simulation;
}

}  // namespace gpusnap::plan
