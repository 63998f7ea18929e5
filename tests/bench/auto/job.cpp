// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/auto/job.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "tiers/checkpoint_levels.h"
#include "tiers/plan/failure_source.h"
#include "tiers/plan/models.h"

namespace gpusnap::bench {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMostTotal = 1000;  // times the work
// A full checkpoint and as many increments as GPUSNAP_CHAIN allows.
constexpr uint64_t kChain = 17;

// The committed state that a restart goes on from.
struct Saved {
  uint64_t number = 0;  // from 1; 0: there is none
  bool in_memory = false;
  uint64_t since_stored = 0;  // as CheckpointLevels has it
  double done_s = 0;
  double stalls_s = 0;  // of all checkpoints until here
  double stall_s = 0;   // of this one
  plan::ChosenInterval chosen;
};

class Failures {
 public:
  explicit Failures(const JobConfiguration& configuration)
      : set_s_(configuration.failures_s), drawn_(1, configuration.seed) {
    drawn_.add(0, 1 / configuration.between_failures_s, 1);
  }

  double next_s() const {
    if (set_s_.empty()) return drawn_.next().time_s;
    return passed_ < set_s_.size() ? set_s_[passed_] : kNever;
  }
  void pop() {
    drawn_.pop();
    ++passed_;
  }

 private:
  const std::vector<double>& set_s_;
  plan::FailureSource drawn_;
  size_t passed_ = 0;
};

class Job {
 public:
  explicit Job(const JobConfiguration& configuration)
      : configuration_(configuration),
        failures_(configuration),
        random_(configuration.seed),
        classes_(~configuration.seed) {}

  JobOutcome run() {
    while (!run_once()) {
      ++outcome_.failures;
      if (now_s_ > kMostTotal * configuration_.work_s) {
        outcome_.has_ended = false;
        break;
      }
      restart();
    }
    outcome_.total_s = now_s_;
    outcome_.lost_s = now_s_ - configuration_.work_s - outcome_.stall_s - outcome_.restart_s;
    return outcome_;
  }

 private:
  struct InFlight {
    Saved saved;  // once it is committed
    double latency_s = 0;
    double commit_s = 0;
  };

  // Time goes on to `until`, or to a failure before it: then false.
  bool advance(double until_s) {
    const double failure_s = failures_.next_s();
    if (failure_s <= until_s) {
      now_s_ = failure_s;
      failures_.pop();
      const bool survives = std::uniform_real_distribution<>()(classes_) < configuration_.survived;
      if (!survives) kept_ = {};
      return false;
    }
    now_s_ = until_s;
    return true;
  }

  // A failure in a restart begins it again.
  void restart() {
    const double begun_s = now_s_;
    const auto takes_s = [this] {
      return newest().in_memory ? configuration_.memory_restart_s : configuration_.restart_s;
    };
    while (!advance(now_s_ + takes_s())) ++outcome_.failures;
    outcome_.restart_s += now_s_ - begun_s;
  }

  const Saved& newest() const {
    const bool is_kept = kept_.number != 0 && kept_.done_s >= saved_.done_s;
    return is_kept ? kept_ : saved_;
  }

  // From the last checkpoint until the work is done, or to a failure: then false.
  bool run_once() {
    begin();
    for (;;) {
      const double end_s = now_s_ + configuration_.work_s - done_s_;
      const double event_s =
          in_flight_ ? in_flight_->commit_s : std::max(now_s_, last_cut_s_ + interval_s());
      const double before_s = now_s_;
      if (!advance(std::min(event_s, end_s))) return false;
      done_s_ += now_s_ - before_s;
      if (event_s > end_s) {
        outcome_.stall_s += stalls_s_;
        outcome_.interval_s = interval_s();
        return true;
      }
      if (in_flight_) {
        commit();
      } else if (!cut()) {
        return false;
      }
    }
  }

  void begin() {
    in_flight_.reset();
    last_ = newest();
    levels_ = CheckpointLevels(configuration_.has_levels() ? 2 : 1);
    choice_.emplace(
        plan::Failures{configuration_.said_s(), plan::kStatedWeight, configuration_.survived},
        configuration_.has_levels());
    ran_before_s_ = last_.chosen.run_s;
    begun_s_ = now_s_;
    if (last_.number != 0) {
      levels_.restored(last_.number, last_.since_stored, 0, !last_.in_memory);
      outcome_.restored += last_.in_memory ? 1 : 0;
    }
    if (configuration_.is_automatic() && last_.number != 0) {
      const auto to = destination(last_.in_memory);
      choice_->resume(last_.chosen);
      choice_->restarted();
      choice_->measured(last_.stall_s, choice_->latency_s(to), to);
    }
    done_s_ = last_.done_s;
    stalls_s_ = last_.stalls_s;
    last_cut_s_ = now_s_;
  }

  static plan::Destination destination(bool in_memory) {
    return in_memory ? plan::Destination::kMemory : plan::Destination::kStore;
  }
  double run_s() const { return ran_before_s_ + now_s_ - begun_s_; }

  void commit() {
    last_ = in_flight_->saved;
    (last_.in_memory ? kept_ : saved_) = last_;
    ++(last_.in_memory ? outcome_.kept : outcome_.checkpoints);
    levels_.succeeded(last_.number, last_.in_memory, 0);
    if (configuration_.is_automatic()) {
      choice_->ran(run_s());
      choice_->measured(last_.stall_s, in_flight_->latency_s, destination(last_.in_memory));
    }
    in_flight_.reset();
  }

  bool cut() {
    const uint64_t number = last_.number + 1;
    if (configuration_.has_levels()) levels_.set_store_every(choice_->store_every());
    const bool in_memory = !levels_.wants_store();
    const double factor = factor_of(number);
    const Costs& costs = in_memory ? configuration_.memory : configuration_.costs_at(done_s_);
    const double stall_s = factor * costs.stall_s, latency_s = factor * costs.latency_s;
    last_cut_s_ = now_s_;
    stalls_s_ += stall_s;
    plan::ChosenInterval chosen = choice_->chosen();
    chosen.run_s = run_s();
    in_flight_ = InFlight{.saved = {.number = number,
                                    .in_memory = in_memory,
                                    .since_stored = levels_.next_since_stored(in_memory),
                                    .done_s = done_s_,
                                    .stalls_s = stalls_s_,
                                    .stall_s = stall_s,
                                    .chosen = chosen},
                          .latency_s = latency_s,
                          .commit_s = now_s_ + stall_s + latency_s};
    return advance(now_s_ + stall_s);
  }

  // How many times as much the checkpoint costs.
  double factor_of(uint64_t number) {
    double factor = 1;
    if (number == 1) {
      factor = configuration_.first_costs;
    } else if (number % kChain == 1) {
      factor = configuration_.full_costs;
    }
    const double deviation = configuration_.deviation;
    if (deviation == 0) return factor;
    return factor * std::lognormal_distribution(-deviation * deviation / 2, deviation)(random_);
  }

  double interval_s() const {
    return configuration_.is_automatic() ? choice_->interval_s() : configuration_.interval_s;
  }

  const JobConfiguration& configuration_;
  Failures failures_;
  std::mt19937_64 random_;   // of the costs
  std::mt19937_64 classes_;  // of failures
  double now_s_ = 0;
  Saved saved_, kept_;  // in the store; in memory
  Saved last_;          // the newest of the two, as the job knows
  CheckpointLevels levels_{1};
  double ran_before_s_ = 0;
  double begun_s_ = 0;
  // Since the last start.
  std::optional<plan::IntervalChoice> choice_;
  std::optional<InFlight> in_flight_;
  double done_s_ = 0;
  double stalls_s_ = 0;  // of all checkpoints that were not undone
  double last_cut_s_ = 0;
  JobOutcome outcome_;
};

plan::Prediction prediction_of(const JobConfiguration& configuration, const Costs& costs) {
  const plan::Level level = {"store", costs.stall_s, costs.latency_s, configuration.restart_s,
                             1 / configuration.between_failures_s};
  if (configuration.is_automatic()) return optimise(plan::Model::kMarkovFailures, {level});
  // The model counts work alone. One checkpoint at a time.
  const double between_s = std::max(configuration.interval_s - costs.stall_s, costs.latency_s);
  return predict(plan::Model::kMarkovFailures, {level},
                 {std::max(between_s, plan::kLeastInterval_s)});
}

}  // namespace

JobOutcome run_job(const JobConfiguration& configuration) {
  return Job(configuration).run();
}

double known_interval_s(const JobConfiguration& configuration, const Costs& costs) {
  plan::IntervalChoice choice(configuration.said_s());
  choice.measured(costs.stall_s, costs.latency_s);
  return choice.interval_s();
}

double predicted_total_s(const JobConfiguration& configuration) {
  const auto total_s = [&](const Costs& costs, double work_s) {
    const double efficiency = prediction_of(configuration, costs).efficiency;
    return efficiency > 0 ? work_s / efficiency : kNever;
  };
  const double first_s = configuration.changes_at * configuration.work_s;
  double total = total_s(configuration.costs, first_s);
  if (configuration.changes_at < 1) {
    total += total_s(configuration.later, configuration.work_s - first_s);
  }
  return total;
}

}  // namespace gpusnap::bench
