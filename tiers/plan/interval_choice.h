// SPDX-License-Identifier: Apache-2.0
//
// The interval between checkpoints, and how many of them stay in memory, that follow from what a
// job's own checkpoints have cost and how often the job fails: GPUSNAP_EVERY=auto and
// GPUSNAP_STORE_EVERY=auto. The model is that of `gpusnap plan` (Moody et al. 2010; GPU Snapshot,
// section 3), with two levels, the node's memory and the store, or with the store alone.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace gpusnap::plan {

enum class Destination : uint8_t { kMemory, kStore };

// The share of failures that a node's memory survives: those of GPUs and CPUs, in the table of the
// machine snapshot-ics19.
inline constexpr double kSurvived = 0.996;
inline constexpr double kMostSurvived = 0.9999;

// As many failures as what is stated of their rate is worth, beside those that are observed.
inline constexpr double kStatedWeight = 8;
inline constexpr double kAssumedWeight = 1;  // nothing was stated

// A job's failures, as they are stated.
struct Failures {
  double between_s = 86'400;  // mean time from one to the next, of the whole job; above 0
  double weight = kAssumedWeight;
  double survived = kSurvived;
};

// The mean time between failures of a job that has run for `run_s` seconds, and was restarted so
// often: as if it had run for `weight` of the stated times before, with a failure in each.
double refined_s(const Failures& stated, uint64_t restarts, double run_s);

// A choice, and what it was made from.
struct ChosenInterval {
  double interval_s = 0;  // from one checkpoint to the next; 0: none was chosen
  double stall_s = 0;     // means, as IntervalChoice has them
  double latency_s = 0;
  double between_failures_s = 0;  // of the whole job, as it was stated
  uint64_t measurements = 0;      // checkpoints in the means; 0: the stall is assumed
  uint64_t store_every = 1;       // every n-th checkpoint goes to the store
  double memory_stall_s = 0;      // the same of those that stay in memory
  double memory_latency_s = 0;
  uint64_t memory_measurements = 0;
  uint64_t failures = 0;  // restarts
  double run_s = 0;       // how long the job had run, in all runs up to here

  static constexpr double kMost_s = 1e12;
  static constexpr uint64_t kMostMeasurements = uint64_t{1} << 48;
  static constexpr uint64_t kMostStoreEvery = 1'000'000;

  bool is_chosen() const { return interval_s > 0; }
  // Whether IntervalChoice can have made it.
  bool is_sound() const {
    const auto within = [](double seconds) { return seconds >= 0 && seconds <= kMost_s; };
    if (*this == ChosenInterval()) return true;
    for (const double seconds : {interval_s, stall_s, latency_s, between_failures_s, memory_stall_s,
                                 memory_latency_s, run_s}) {
      if (!within(seconds)) return false;
    }
    for (const uint64_t count : {measurements, memory_measurements, failures}) {
      if (count > kMostMeasurements) return false;
    }
    return is_chosen() && between_failures_s > 0 && store_every >= 1 &&
           store_every <= kMostStoreEvery;
  }
  bool operator==(const ChosenInterval&) const = default;
};

// Not thread-safe.
class IntervalChoice {
 public:
  // `levels`: checkpoints may stay in memory.
  explicit IntervalChoice(const Failures& failures, bool levels = false);
  // As it is stated, with one level.
  explicit IntervalChoice(double between_failures_s);

  // A checkpoint held the program for `stall_s` seconds, and a failure in the `latency_s` seconds
  // after that would have lost it. Both are at least 0.
  void measured(double stall_s, double latency_s, Destination to = Destination::kStore);
  // Goes on with what an earlier run had measured and observed, which is sound. The statement of
  // failures stays as it is.
  void resume(const ChosenInterval& earlier);
  // The job was restarted: it has failed once more.
  void restarted();
  // So long it has run in all. Counts with the next choice.
  void ran(double run_s) { run_s_ = run_s; }
  // No checkpoint can stay in memory.
  void without_memory();

  // Seconds from one checkpoint to the next. Until a checkpoint has been measured, that for a stall
  // of kAssumedStall_s.
  double interval_s() const { return interval_s_; }
  uint64_t store_every() const { return store_every_; }
  // Means of all checkpoints but the first, in which the newest weighs an eighth or more, and those
  // before it the rest. As long as none has stayed in memory, the stall of the others stands in.
  double stall_s(Destination to = Destination::kStore) const;
  double latency_s(Destination to = Destination::kStore) const;
  ChosenInterval chosen() const;

  static constexpr double kAssumedStall_s = 0.1;
  static constexpr double kLeast_s = 0.01;

 private:
  struct Means {
    uint64_t measurements = 0;
    double stall_s = kAssumedStall_s;
    double latency_s = 0;
    void add(double stall, double latency);
  };

  void choose();

  const Failures stated_;
  bool levels_;
  Means store_, memory_;
  uint64_t failures_ = 0;
  double run_s_ = 0;
  double interval_s_ = 0;
  uint64_t store_every_ = 1;
};

}  // namespace gpusnap::plan
