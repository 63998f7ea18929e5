// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/models.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>

#include "tiers/plan/markov.h"
#include "tiers/plan/search.h"

namespace gpusnap::plan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool costs_nothing(const Level& level) {
  return level.stall_s == 0 && level.latency_s == 0 && level.restart_s == 0;
}

// Levels with a part in the prediction, by index.
std::vector<size_t> active_levels(const std::vector<Level>& levels) {
  std::vector<size_t> active;
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i].failures_per_s > 0 && !costs_nothing(levels[i])) active.push_back(i);
  }
  return active;
}

std::vector<Level> chosen(const std::vector<Level>& levels, const std::vector<size_t>& active) {
  std::vector<Level> some;
  some.reserve(active.size());
  for (const size_t i : active) some.push_back(levels[i]);
  return some;
}

// How many intervals make a longer one.
uint64_t count_in(double longer_s, double interval_s) {
  constexpr double kMostIntervals = 1e15;
  const double count = std::round(longer_s / interval_s);
  return count >= 1 ? static_cast<uint64_t>(std::min(count, kMostIntervals)) : 1;
}

double shortest_interval(const Level& level) {
  return std::max(kLeastInterval_s, level.stall_s + level.latency_s);
}

// Costs of one level, each as a multiple of the useful time.
struct Cost {
  double checkpoint = 0, restart = 0, lost_work = 0;
  double all() const { return checkpoint + restart + lost_work; }
};

Cost first_order_cost(const Level& level, double interval_s) {
  return {level.stall_s / interval_s, level.failures_per_s * level.restart_s,
          level.failures_per_s * (interval_s / 2 + level.latency_s)};
}

// Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", equation 20
// for one interval: (R, then interval and checkpoint) until both pass without a failure.
Cost daly_cost(const Level& level, double interval_s) {
  const double rate = level.failures_per_s;
  const double failures = std::expm1(rate * (interval_s + level.stall_s));  // in one interval
  const double restart_s = std::expm1(rate * level.restart_s) / rate;
  const double total_s = failures * (1 / rate + restart_s + level.latency_s);
  Cost cost;
  cost.checkpoint = level.stall_s / interval_s;
  if (!std::isfinite(total_s)) {
    cost.lost_work = kInfinite;  // it never ends
    return cost;
  }
  cost.restart = failures * restart_s / interval_s;
  cost.lost_work = total_s / interval_s - 1 - cost.checkpoint - cost.restart;
  return cost;
}

Cost cost_of(Model model, const Level& level, double interval_s) {
  return model == Model::kDaly ? daly_cost(level, interval_s) : first_order_cost(level, interval_s);
}

// The levels' costs add up (first order), or each level holds up the time with all lower ones.
double total_over_useful(Model model, const std::vector<Cost>& costs) {
  double sum = 1, together = 1;
  for (const Cost& cost : costs) {
    sum += cost.all();
    together *= 1 + cost.all();
  }
  return model == Model::kDaly ? together : sum;
}

// Shares of the total; the costs' proportions are kept.
void add_shares(Model model, const std::vector<Cost>& costs, const std::vector<size_t>& active,
                Prediction& prediction) {
  const double total = total_over_useful(model, costs);
  prediction.efficiency = 1 / total;
  double all = 0;
  for (const Cost& cost : costs) all += cost.all();
  const double scale = all > 0 && std::isfinite(all) ? (1 - prediction.efficiency) / all : 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    prediction.overhead.checkpoint[active[i]] = costs[i].checkpoint * scale;
    prediction.overhead.restart += costs[i].restart * scale;
    prediction.overhead.lost_work += costs[i].lost_work * scale;
  }
  if (scale == 0 && !costs.empty()) prediction.overhead.lost_work = 1 - prediction.efficiency;
}

Prediction empty_prediction(const std::vector<Level>& levels) {
  Prediction prediction;
  prediction.efficiency = 1;
  prediction.overhead.checkpoint.assign(levels.size(), 0);
  for (const Level& level : levels) {
    prediction.intervals_s.push_back(level.failures_per_s == 0 ? kInfinite : 0);
  }
  return prediction;
}

Prediction predict_by_pattern(const std::vector<Level>& levels, const std::vector<size_t>& active,
                              const Pattern& pattern, bool anywhere) {
  Prediction prediction = empty_prediction(levels);
  const PatternTime time = markov_time(chosen(levels, active), pattern, anywhere);
  double interval_s = pattern.interval_s;
  for (size_t i = 0; i < active.size(); ++i) {
    prediction.intervals_s[active[i]] = interval_s;
    if (i < pattern.counts.size()) interval_s *= static_cast<double>(pattern.counts[i]);
  }
  Overhead& overhead = prediction.overhead;
  if (!std::isfinite(time.total_s) || time.total_s <= 0) {
    prediction.efficiency = 0;
    overhead.lost_work = 1;
    return prediction;
  }
  prediction.efficiency = time.work_s / time.total_s;
  double checkpoints = 0;
  for (size_t i = 0; i < active.size(); ++i) {
    overhead.checkpoint[active[i]] = time.checkpoints_s[i] / time.total_s;
    checkpoints += overhead.checkpoint[active[i]];
  }
  overhead.restart = time.restart_s / time.total_s;
  overhead.lost_work = 1 - prediction.efficiency - checkpoints - overhead.restart;
  return prediction;
}

bool fails_anywhere(Model model) {
  return model == Model::kMarkovFailures;
}
bool is_markov(Model model) {
  return model == Model::kMarkov || model == Model::kMarkovFailures;
}

// Young's intervals, each at least as long as the one below.
std::vector<double> first_order_intervals(const std::vector<Level>& levels) {
  std::vector<double> intervals_s;
  for (const Level& level : levels) {
    const double best = std::sqrt(2 * level.stall_s / level.failures_per_s);
    const double below = intervals_s.empty() ? 0 : intervals_s.back();
    intervals_s.push_back(std::max({best, shortest_interval(level), below}));
  }
  return intervals_s;
}

std::vector<double> daly_intervals(const std::vector<Level>& levels) {
  constexpr double kAround = 64;  // the optimum is Young's interval but for higher orders
  std::vector<double> intervals_s = first_order_intervals(levels);
  for (size_t i = 0; i < levels.size(); ++i) {
    const double least = std::max(shortest_interval(levels[i]), i > 0 ? intervals_s[i - 1] : 0);
    const double low = std::max(least, intervals_s[i] / kAround);
    const double best =
        minimum_between(low, std::max(low * 1.000001, intervals_s[i] * kAround),
                        [&](double interval_s) { return daly_cost(levels[i], interval_s).all(); });
    intervals_s[i] = best < low * 1.00001 ? low : best;
  }
  return intervals_s;
}

// Local search over the first interval and the counts, from the first order's optimum. The cost has
// one minimum in each of them.
class PatternSearch {
 public:
  PatternSearch(const std::vector<Level>& levels, bool anywhere)
      : levels_(levels), anywhere_(anywhere) {
    const std::vector<double> intervals_s = first_order_intervals(levels);
    best_.interval_s = intervals_s[0];
    for (size_t i = 0; i + 1 < levels.size(); ++i) {
      best_.counts.push_back(count_in(intervals_s[i + 1], intervals_s[i]));
    }
    for (size_t i = 0; i < best_.counts.size(); ++i) lengthen(i);
    best_cost_ = cost(best_);
  }

  Pattern find() {
    constexpr int kMostRounds = 200;
    for (int round = 0; round < kMostRounds; ++round) {
      const double before = best_cost_;
      search_interval();
      for (size_t i = 0; i < best_.counts.size(); ++i) search_count(i);
      if (!(best_cost_ < before * (1 - 1e-9))) break;
    }
    return best_;
  }

 private:
  double cost(const Pattern& pattern) const {
    const PatternTime time = markov_time(levels_, pattern, anywhere_);
    const double cost = time.total_s / time.work_s;
    return std::isfinite(cost) ? cost : kInfinite;
  }

  // The interval of a level is not shorter than the level allows.
  bool is_allowed(const Pattern& pattern) const {
    double interval_s = pattern.interval_s;
    for (size_t i = 0; i < levels_.size(); ++i) {
      if (interval_s < shortest_interval(levels_[i]) * (1 - 1e-9)) return false;
      if (i < pattern.counts.size()) interval_s *= static_cast<double>(pattern.counts[i]);
    }
    return true;
  }
  void lengthen(size_t count) {
    double interval_s = best_.interval_s;
    for (size_t i = 0; i < count; ++i) interval_s *= static_cast<double>(best_.counts[i]);
    const double needed = std::ceil(shortest_interval(levels_[count + 1]) / interval_s);
    best_.counts[count] = std::max(best_.counts[count], count_in(needed, 1));
  }

  bool take_if_better(const Pattern& pattern) {
    if (!is_allowed(pattern)) return false;
    const double its_cost = cost(pattern);
    if (!(its_cost < best_cost_)) return false;
    best_ = pattern;
    best_cost_ = its_cost;
    return true;
  }

  void search_interval() {
    constexpr double kAround = 4;
    // The shortest that all levels allow with these counts.
    double low = 0, multiple = 1;
    for (size_t i = 0; i < levels_.size(); ++i) {
      low = std::max(low, shortest_interval(levels_[i]) / multiple);
      if (i < best_.counts.size()) multiple *= static_cast<double>(best_.counts[i]);
    }
    low = std::max(low, best_.interval_s / kAround);
    const double high = std::max(low * 1.001, best_.interval_s * kAround);
    Pattern pattern = best_;
    pattern.interval_s = minimum_between(low, high, [&](double interval_s) {
      Pattern candidate = best_;
      candidate.interval_s = interval_s;
      return cost(candidate);
    });
    take_if_better(pattern);
    pattern.interval_s = low;
    take_if_better(pattern);
  }

  // Steps up and down, smaller and smaller, at last by one.
  void search_count(size_t which) {
    for (double factor = 2; factor > 1; factor = factor > 1.01 ? 1 + (factor - 1) / 4 : 1) {
      while (step_count(which, factor) || step_count(which, 1 / factor)) {
      }
    }
    while (move_count(which, 1) || move_count(which, -1)) {
    }
  }
  bool step_count(size_t which, double factor) {
    const auto now = static_cast<double>(best_.counts[which]);
    return move_count(which, std::llround(now * factor) - static_cast<int64_t>(now));
  }
  bool move_count(size_t which, int64_t by) {
    const int64_t count = static_cast<int64_t>(best_.counts[which]) + by;
    if (by == 0 || count < 1) return false;
    Pattern pattern = best_;
    pattern.counts[which] = static_cast<uint64_t>(count);
    // The levels above keep their interval as far as whole numbers allow.
    Pattern balanced = pattern;
    if (which + 1 < pattern.counts.size()) {
      const double above = static_cast<double>(best_.counts[which + 1]) *
                           static_cast<double>(best_.counts[which]) / static_cast<double>(count);
      balanced.counts[which + 1] = std::max<uint64_t>(1, std::llround(above));
    }
    return take_if_better(balanced) || take_if_better(pattern);
  }

  const std::vector<Level>& levels_;
  bool anywhere_;
  Pattern best_;
  double best_cost_ = kInfinite;
};

}  // namespace

const char* name_of(Model model) {
  switch (model) {
    case Model::kFirstOrder:
      return "first-order";
    case Model::kDaly:
      return "daly";
    case Model::kMarkov:
      return "markov";
    case Model::kMarkovFailures:
      return "markov-failures";
  }
  return "";
}

Result<Model> parse_model(std::string_view name) {
  std::string names;
  for (const Model model : kModels) {
    if (name == name_of(model)) return model;
    names += std::string(names.empty() ? "" : ", ") + name_of(model);
  }
  return Status(Code::kInvalid, "no model '" + std::string(name) + "': there are " + names);
}

Status check(const std::vector<Level>& levels) {
  if (levels.empty()) return {Code::kInvalid, "no level of storage"};
  for (const Level& level : levels) {
    for (const double value :
         {level.stall_s, level.latency_s, level.restart_s, level.failures_per_s}) {
      if (std::isfinite(value) && value >= 0) continue;
      return {Code::kInvalid, "level " + level.name + " has a cost or rate that is no number >= 0"};
    }
  }
  return {};
}

Prediction predict(Model model, const std::vector<Level>& levels,
                   const std::vector<double>& intervals_s) {
  Prediction prediction = empty_prediction(levels);
  const std::vector<size_t> active = active_levels(levels);
  if (active.empty()) return prediction;
  if (is_markov(model)) {
    Pattern pattern;
    pattern.interval_s = intervals_s[active[0]];
    double rounded_s = pattern.interval_s;
    for (size_t i = 1; i < active.size(); ++i) {
      pattern.counts.push_back(count_in(intervals_s[active[i]], rounded_s));
      rounded_s *= static_cast<double>(pattern.counts.back());
    }
    return predict_by_pattern(levels, active, pattern, fails_anywhere(model));
  }
  std::vector<Cost> costs;
  for (const size_t i : active) {
    prediction.intervals_s[i] = intervals_s[i];
    costs.push_back(cost_of(model, levels[i], intervals_s[i]));
  }
  add_shares(model, costs, active, prediction);
  return prediction;
}

Prediction optimise(Model model, const std::vector<Level>& levels) {
  const std::vector<size_t> active = active_levels(levels);
  if (active.empty()) return empty_prediction(levels);
  const std::vector<Level> some = chosen(levels, active);
  if (is_markov(model)) {
    const Pattern pattern = PatternSearch(some, fails_anywhere(model)).find();
    return predict_by_pattern(levels, active, pattern, fails_anywhere(model));
  }
  const std::vector<double> best =
      model == Model::kDaly ? daly_intervals(some) : first_order_intervals(some);
  std::vector<double> intervals_s(levels.size(), 0);
  for (size_t i = 0; i < active.size(); ++i) intervals_s[active[i]] = best[i];
  return predict(model, levels, intervals_s);
}

}  // namespace gpusnap::plan
