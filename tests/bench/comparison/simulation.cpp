// SPDX-License-Identifier: Apache-2.0
//
// The nodes, the store that they share, and the program. Rates change at the moment when a transfer
// begins or ends, or the interference changes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/bench/comparison/node.h"
#include "tests/bench/comparison/scenario.h"
#include "tiers/placement/measure.h"

namespace gpusnap::comparison {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTickS = 0.02;  // how often gpusnapd looks while writers wait

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario) : scenario_(scenario), random_(scenario.seed) {
    const std::array<ThroughputModel, Node::kTiers> models = {
        model_of(scenario.machine.memory, scenario.writers),
        model_of(scenario.machine.ssd, scenario.writers)};
    for (uint32_t i = 0; i < scenario.nodes; ++i) nodes_.emplace_back(scenario_, models);
    demands_.resize(nodes_.size() * Node::kTiers);
    next_s_.resize(nodes_.size());
    has_changed_.assign(nodes_.size(), true);
  }

  Outcome run() {
    interfere();
    compute_before();
    go_on();
    while (phase_ != Phase::kDone && outcome_.wrong.empty()) {
      share();
      const double next_s = find_next_s();
      if (next_s == kNever) {
        outcome_.wrong = "a writer waits for ever";
        break;
      }
      now_s_ = std::max(now_s_, next_s);
      end_transfers();
      go_on();
    }
    report();
    return outcome_;
  }

 private:
  enum class Phase { kComputing, kWriting, kFlushing, kDone };

  // Before a node is changed.
  Node& change(size_t i) {
    nodes_[i].advance(now_s_);
    has_changed_[i] = true;
    return nodes_[i];
  }

  template <typename Change>
  void change_all(const Change& what) {
    for (size_t i = 0; i < nodes_.size(); ++i) what(change(i));
  }

  bool all(bool (Node::*is)() const) const {
    return std::ranges::all_of(nodes_, [is](const Node& node) { return (node.*is)(); });
  }

  void compute(double seconds) {
    phase_ = Phase::kComputing;
    computed_s_ += seconds;
    change_all([seconds](Node& node) { node.compute(seconds); });
  }

  void compute_before() {
    if (checkpoints_ == scenario_.checkpoints) return compute(scenario_.compute_after_s);
    if (scenario_.period_s == 0) return compute(scenario_.compute_s);
    compute(std::max(checkpoints_ * scenario_.period_s - now_s_, 0.0));
  }

  // Checkpoints begin and end on all nodes together (section V.B).
  void go_on() {
    if (phase_ == Phase::kComputing && all(&Node::is_computed)) {
      if (checkpoints_ < scenario_.checkpoints) return begin_checkpoint();
      end_program();
    }
    if (phase_ == Phase::kWriting && all(&Node::is_local)) {
      outcome_.local_s = now_s_ - begun_s_;
      if (checkpoints_ == scenario_.warm_up) warm_up_s_ = now_s_ - computed_s_;
      compute_before();
      if (all(&Node::is_computed)) go_on();
    }
    if (checkpoints_ == scenario_.checkpoints && outcome_.complete_s == 0 &&
        all(&Node::is_flushed)) {
      outcome_.complete_s = now_s_ - begun_s_;
    }
    if (phase_ == Phase::kFlushing && outcome_.complete_s > 0) phase_ = Phase::kDone;
  }

  void begin_checkpoint() {
    ++checkpoints_;
    phase_ = Phase::kWriting;
    begun_s_ = now_s_;
    change_all([](Node& node) { node.begin_checkpoint(); });
  }

  void end_program() {
    outcome_.increase_s = now_s_ - computed_s_ - warm_up_s_;
    phase_ = Phase::kFlushing;
  }

  // Evenly from `least_left` to 1, the same with every standard library.
  double draw() {
    const double part = static_cast<double>(random_() >> 11) * 0x1p-53;
    const Store& store = scenario_.machine.store;
    const double left = store.least_left + (1 - store.least_left) * part;
    return store.part_at ? left * store.part_at(now_s_) : left;
  }

  void interfere() {
    total_factor_ = draw();
    change_all([this](Node& node) { node.set_store_factor(draw()); });
    ++intervals_;
  }

  void share() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!has_changed_[i]) continue;
      std::ranges::copy(nodes_[i].demands(),
                        demands_.begin() + static_cast<ptrdiff_t>(i * Node::kTiers));
    }
    const double level = water_level(demands_, scenario_.machine.store.total * total_factor_);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!has_changed_[i] && nodes_[i].has_rates_of(level)) continue;
      nodes_[i].advance(now_s_);
      nodes_[i].set_rates(level);
      next_s_[i] = nodes_[i].next_s();
      has_changed_[i] = false;
      if (!nodes_[i].wrong().empty()) outcome_.wrong = nodes_[i].wrong();
    }
  }

  double find_next_s() const {
    const double next_s = *std::ranges::min_element(next_s_);
    if (next_s == kNever) return next_s;
    const bool waits =
        std::ranges::any_of(nodes_, [](const Node& node) { return node.has_waiting(); });
    return std::min({next_s, next_change_s(), waits ? next_tick_s_ : kNever});
  }

  double next_change_s() const {
    return static_cast<double>(intervals_) * scenario_.machine.store.interval_s;
  }

  void end_transfers() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (next_s_[i] <= now_s_) change(i).settle();
    }
    if (now_s_ >= next_tick_s_) {
      next_tick_s_ = now_s_ + kTickS;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i].has_waiting()) change(i).tick();
      }
    }
    if (now_s_ >= next_change_s()) interfere();
  }

  void report() {
    outcome_.placed.resize(Node::kTiers);
    outcome_.peaks.resize(Node::kTiers);
    for (const Node& node : nodes_) {
      for (size_t tier = 0; tier < Node::kTiers; ++tier) {
        outcome_.placed[tier] += static_cast<double>(node.placed()[tier]);
        outcome_.peaks[tier] = std::max(outcome_.peaks[tier], node.peaks()[tier]);
      }
      outcome_.written_bytes += node.written_bytes();
      outcome_.flushed_bytes += node.flushed_bytes();
      outcome_.flushes += node.flush_limit() / static_cast<double>(nodes_.size());
      outcome_.flush_bandwidth += node.flush_bandwidth() / static_cast<double>(nodes_.size());
    }
  }

  const Scenario& scenario_;
  std::mt19937_64 random_;
  std::deque<Node> nodes_;
  std::vector<Demand> demands_;    // by node and tier
  std::vector<double> next_s_;     // by node
  std::vector<bool> has_changed_;  // by node: its rates are not those of this moment
  double total_factor_ = 1;
  uint64_t intervals_ = 0;  // of the interference, begun
  Phase phase_ = Phase::kComputing;
  uint32_t checkpoints_ = 0;  // begun
  double now_s_ = 0, begun_s_ = 0, next_tick_s_ = 0;
  double computed_s_ = 0;  // without slowdown
  double warm_up_s_ = 0;   // more than that, at the end of the warm-up
  Outcome outcome_;
};

}  // namespace

ThroughputModel model_of(const Curve& curve, uint32_t writers) {
  std::vector<ThroughputSample> samples;
  for (const uint32_t level : concurrency_levels(writers)) samples.push_back({level, curve(level)});
  return ThroughputModel::fit(samples).value();
}

Outcome simulate(const Scenario& scenario) {
  return Simulation(scenario).run();
}

}  // namespace gpusnap::comparison
