// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/simulation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>

#include "tiers/plan/failure_source.h"

namespace gpusnap::plan {
namespace {

// A checkpoint that is still copied in the background to one level.
struct Copy {
  uint64_t index = 0;  // intervals of work that it holds
  double start_s = 0;
  double ready_s = 0;
};

class Machinery {
 public:
  explicit Machinery(const Simulation& plan)
      : plan_(plan),
        failures_(plan.shape, plan.seed),
        safe_(plan.levels.size(), 0),
        copies_(plan.levels.size()) {
    result_.checkpoints_s.assign(plan.levels.size(), 0);
    result_.failures.assign(plan.levels.size(), 0);
    for (size_t level = 0; level < plan.levels.size(); ++level) {
      const bool whole = level + 1 == plan.levels.size();
      failures_.add(level, plan.levels[level].failures_per_s, whole ? 1 : plan.nodes);
    }
  }

  SimulationResult run() {
    const auto intervals =
        static_cast<uint64_t>(std::ceil(plan_.work_s / plan_.pattern.interval_s));
    while (index_ < intervals && goes_on()) {
      ++result_.events;
      const std::optional<Failure> failure = one_interval();
      if (failure) recover(*failure);
    }
    result_.work_s = static_cast<double>(index_) * plan_.pattern.interval_s;
    result_.total_s = now_s_;
    return result_;
  }

 private:
  bool goes_on() const {
    const double most_s = plan_.most_s > 0 ? plan_.most_s : 1000 * plan_.work_s;
    return now_s_ < most_s && result_.events < plan_.most_events;
  }

  // Lets time pass. A failure ends it early.
  std::optional<Failure> pass(double length_s, bool fails) {
    ++result_.events;
    if (!fails) {
      now_s_ += length_s;
      return std::nullopt;
    }
    const Failure next = failures_.next();
    if (next.time_s >= component_s_ + length_s) {
      now_s_ += length_s;
      component_s_ += length_s;
      return std::nullopt;
    }
    now_s_ += next.time_s - component_s_;
    component_s_ = next.time_s;
    ++result_.failures[next.level];
    failures_.pop();
    lose_copies(next);
    return next;
  }

  // A copy to, or a restart from, a level. Failures of lower classes harm only the devices, which
  // are then restarted, where the plan protects copies.
  std::optional<Failure> pass_copying(double length_s, size_t level) {
    double left_s = length_s;
    while (true) {
      const double before_s = now_s_;
      const std::optional<Failure> failure = pass(left_s, plan_.anywhere);
      const bool harms = !plan_.protected_copies || (failure && failure->level >= level);
      if (!failure || harms || !goes_on()) return failure;
      left_s -= now_s_ - before_s;
      now_s_ += plan_.levels[failure->level].restart_s;
      result_.restart_s += plan_.levels[failure->level].restart_s;
    }
  }

  std::optional<Failure> one_interval() {
    if (const auto failure = pass(plan_.pattern.interval_s, true)) return failure;
    const size_t level = level_at(index_ + 1);
    if (const auto failure = pass_copying(plan_.levels[level].stall_s, level)) return failure;
    result_.checkpoints_s[level] += plan_.levels[level].stall_s;
    ++index_;
    for (size_t below = 0; below <= level; ++below) begin_copy(below);
    return std::nullopt;
  }

  // The level of the checkpoint at the end of this interval; the first interval is 1.
  size_t level_at(uint64_t interval) const {
    size_t level = 0;
    uint64_t multiple = 1;
    for (const uint64_t count : plan_.pattern.counts) {
      multiple *= count;
      if (interval % multiple != 0) break;
      ++level;
    }
    return level;
  }

  void begin_copy(size_t level) {
    settle();
    const double latency_s = plan_.levels[level].latency_s;
    if (latency_s == 0) {
      safe_[level] = index_;
    } else if (!copies_[level]) {  // else the level is busy, and this checkpoint skips it
      copies_[level] = Copy{index_, now_s_, now_s_ + latency_s};
    }
  }

  void settle() {
    for (size_t level = 0; level < copies_.size(); ++level) {
      if (!copies_[level] || copies_[level]->ready_s > now_s_) continue;
      safe_[level] = std::max(safe_[level], copies_[level]->index);
      copies_[level].reset();
    }
  }

  // Copies of what this failure destroys end; those of a checkpoint that lies safe on the failure's
  // own level go on.
  void lose_copies(const Failure& failure) {
    settle();
    const uint64_t kept = safe_[failure.level];
    for (size_t level = 0; level < copies_.size(); ++level) {
      if (copies_[level] && (level <= failure.level || copies_[level]->index > kept)) {
        copies_[level].reset();
      }
    }
    std::optional<Copy>& last = copies_.back();
    if (last && failure.level > 0) delay(*last, failure.node);
  }

  // Nodes send in waves; a wave that loses one of its nodes begins again.
  void delay(Copy& copy, uint64_t node) const {
    const double waves =
        std::ceil(static_cast<double>(plan_.nodes) / static_cast<double>(plan_.nodes_in_wave));
    const double wave_s = plan_.levels.back().latency_s / waves;
    const double lost_s = std::fmod(now_s_ - copy.start_s, wave_s);
    const auto current = static_cast<uint64_t>((now_s_ - copy.start_s) / wave_s);
    if (node / plan_.nodes_in_wave != current) return;
    copy.start_s += lost_s;
    copy.ready_s += lost_s;
  }

  void recover(const Failure& first) {
    size_t level = first.level;
    const double before_s = now_s_;
    while (const auto failure = pass_copying(plan_.levels[level].restart_s, level)) {
      level = std::max(level, failure->level);
      if (!goes_on()) break;
    }
    result_.restart_s += now_s_ - before_s;
    uint64_t target = 0;
    for (size_t from = level; from < safe_.size(); ++from) target = std::max(target, safe_[from]);
    for (size_t below = 0; below <= level; ++below) safe_[below] = target;
    index_ = target;
  }

  const Simulation& plan_;
  FailureSource failures_;
  std::vector<uint64_t> safe_;  // by level: intervals of work in its last complete checkpoint
  std::vector<std::optional<Copy>> copies_;
  double now_s_ = 0;
  double component_s_ = 0;  // how long components have been exposed to failures
  uint64_t index_ = 0;      // intervals that are complete
  SimulationResult result_;
};

Status check(const Simulation& plan) {
  if (plan.levels.empty() || plan.pattern.counts.size() + 1 != plan.levels.size()) {
    return {Code::kInvalid, "a simulation needs levels, and one count fewer than levels"};
  }
  for (const Level& level : plan.levels) {
    if (level.failures_per_s > 0) continue;
    return {Code::kInvalid,
            "a simulation needs failures of each level, and " + level.name + " has none"};
  }
  if (plan.nodes > kMostSimulatedNodes) {
    return {Code::kInvalid,
            "a simulation takes at most " + std::to_string(kMostSimulatedNodes) + " nodes"};
  }
  if (plan.nodes < 1 || plan.nodes_in_wave < 1 || !(plan.pattern.interval_s > 0) ||
      !(plan.shape > 0) || !(plan.work_s > 0)) {
    return {Code::kInvalid, "a simulation needs nodes, an interval, a shape and work above 0"};
  }
  return {};
}

}  // namespace

Result<SimulationResult> simulate(const Simulation& simulation) {
  const Status good = check(simulation);
  if (!good.ok()) return good;
  return Machinery(simulation).run();
}

}  // namespace gpusnap::plan
