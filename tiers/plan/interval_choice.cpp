// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/interval_choice.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

Level level_of(const char* name, double stall_s, double latency_s, double failures_per_s) {
  Level level;
  level.name = name;
  level.stall_s = std::max(stall_s, kLeastStall_s);
  level.latency_s = latency_s;
  level.failures_per_s = failures_per_s;
  return level;
}

}  // namespace

double refined_s(const Failures& stated, uint64_t restarts, double run_s) {
  return (stated.weight * stated.between_s + run_s) /
         (stated.weight + static_cast<double>(restarts));
}

IntervalChoice::IntervalChoice(const Failures& failures, bool levels)
    : stated_(failures), levels_(levels) {
  choose();
}

IntervalChoice::IntervalChoice(double between_failures_s)
    : IntervalChoice(Failures{between_failures_s, kStatedWeight, kSurvived}) {}

void IntervalChoice::Means::add(double stall, double latency) {
  const double weight = weight_after(measurements);
  stall_s += weight * (stall - stall_s);
  latency_s += weight * (latency - latency_s);
  ++measurements;
}

void IntervalChoice::measured(double stall_s, double latency_s, Destination to) {
  (to == Destination::kMemory ? memory_ : store_).add(stall_s, latency_s);
  choose();
}

void IntervalChoice::resume(const ChosenInterval& earlier) {
  failures_ = earlier.failures;
  run_s_ = earlier.run_s;
  if (earlier.measurements != 0) {
    store_ = {earlier.measurements, earlier.stall_s, earlier.latency_s};
  }
  if (earlier.memory_measurements != 0) {
    memory_ = {earlier.memory_measurements, earlier.memory_stall_s, earlier.memory_latency_s};
  }
  choose();
}

void IntervalChoice::restarted() {
  ++failures_;
  choose();
}

void IntervalChoice::without_memory() {
  levels_ = false;
  choose();
}

double IntervalChoice::stall_s(Destination to) const {
  const bool is_known = to == Destination::kMemory && memory_.measurements != 0;
  return is_known ? memory_.stall_s : store_.stall_s;
}

double IntervalChoice::latency_s(Destination to) const {
  return to == Destination::kMemory ? memory_.latency_s : store_.latency_s;
}

ChosenInterval IntervalChoice::chosen() const {
  ChosenInterval chosen{interval_s_, store_.stall_s, store_.latency_s, stated_.between_s,
                        store_.measurements};
  chosen.store_every = store_every_;
  if (memory_.measurements != 0) {
    chosen.memory_stall_s = memory_.stall_s;
    chosen.memory_latency_s = memory_.latency_s;
    chosen.memory_measurements = memory_.measurements;
  }
  chosen.failures = failures_;
  chosen.run_s = run_s_;
  return chosen;
}

// One level where two are not predicted to be better.
void IntervalChoice::choose() {
  const double rate = 1 / refined_s(stated_, failures_, run_s_);
  const Level store = level_of("store", store_.stall_s, store_.latency_s, rate);
  const Prediction one = optimise(Model::kMarkov, {store});
  // The model counts work alone.
  interval_s_ = std::max(one.intervals_s.front() + store.stall_s, kLeast_s);
  store_every_ = 1;
  if (!levels_ || stated_.survived <= 0) return;
  const Level memory =
      level_of("memory", stall_s(Destination::kMemory), memory_.latency_s, rate * stated_.survived);
  Level rest = store;
  rest.failures_per_s = rate * (1 - stated_.survived);
  const Prediction two = optimise(Model::kMarkov, {memory, rest});
  const double count = std::round(two.intervals_s[1] / two.intervals_s[0]);
  if (two.efficiency <= one.efficiency || count <= 1) return;
  store_every_ =
      static_cast<uint64_t>(std::min(count, static_cast<double>(ChosenInterval::kMostStoreEvery)));
  const auto every = static_cast<double>(store_every_);
  const double stall = (memory.stall_s * (every - 1) + rest.stall_s) / every;
  interval_s_ = std::max(two.intervals_s[0] + stall, kLeast_s);
}

}  // namespace gpusnap::plan
