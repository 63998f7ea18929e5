// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/interval_choice.h"

#include <algorithm>

#include "tiers/plan/models.h"

namespace gpusnap::plan {
namespace {

constexpr double kLeastWeight = 0.125;
// A stall of nothing would ask for checkpoints without end.
constexpr double kLeastStall_s = 1e-6;

// The weight of a measurement in the means. The first one is forgotten with the second: a job's
// first checkpoint holds all, and those after it what has changed.
double weight_after(uint64_t measurements) {
  if (measurements <= 1) return 1;
  return std::max(1 / static_cast<double>(measurements), kLeastWeight);
}

}  // namespace

IntervalChoice::IntervalChoice(double between_failures_s)
    : between_failures_s_(between_failures_s) {
  choose();
}

void IntervalChoice::measured(double stall_s, double latency_s) {
  const double weight = weight_after(measurements_);
  stall_s_ += weight * (stall_s - stall_s_);
  latency_s_ += weight * (latency_s - latency_s_);
  ++measurements_;
  choose();
}

void IntervalChoice::resume(const ChosenInterval& earlier) {
  if (earlier.measurements == 0) return;
  measurements_ = earlier.measurements;
  stall_s_ = earlier.stall_s;
  latency_s_ = earlier.latency_s;
  choose();
}

void IntervalChoice::choose() {
  Level level;
  level.name = "store";
  level.stall_s = std::max(stall_s_, kLeastStall_s);
  level.latency_s = latency_s_;
  level.failures_per_s = 1 / between_failures_s_;
  const Prediction best = optimise(Model::kMarkov, {level});
  // The model counts work alone.
  interval_s_ = std::max(best.intervals_s.front() + level.stall_s, kLeast_s);
}

}  // namespace gpusnap::plan
