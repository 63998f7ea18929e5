// SPDX-License-Identifier: Apache-2.0
//
// The interval between checkpoints that follows from what a job's own checkpoints have cost and how
// often the job fails: GPUSNAP_EVERY=auto. The model is that of `gpusnap plan` (Moody et al. 2010;
// GPU Snapshot, section 3), with the one level to which every checkpoint goes.
#pragma once

#include <cstdint>

namespace gpusnap::plan {

// An interval that was chosen, and what it was chosen from.
struct ChosenInterval {
  double interval_s = 0;  // from one checkpoint to the next; 0: none was chosen
  double stall_s = 0;     // means, as IntervalChoice has them
  double latency_s = 0;
  double between_failures_s = 0;  // of the whole job
  uint64_t measurements = 0;      // checkpoints in the means; 0: the stall is assumed

  static constexpr double kMost_s = 1e12;
  static constexpr uint64_t kMostMeasurements = uint64_t{1} << 48;

  bool is_chosen() const { return interval_s > 0; }
  // Whether IntervalChoice can have made it.
  bool is_sound() const {
    const auto within = [](double seconds) { return seconds >= 0 && seconds <= kMost_s; };
    if (*this == ChosenInterval()) return true;
    return is_chosen() && between_failures_s > 0 && within(interval_s) && within(stall_s) &&
           within(latency_s) && within(between_failures_s) && measurements <= kMostMeasurements;
  }
  bool operator==(const ChosenInterval&) const = default;
};

// Not thread-safe.
class IntervalChoice {
 public:
  // The mean time between two failures of the whole job, in seconds, above 0.
  explicit IntervalChoice(double between_failures_s);

  // A checkpoint held the program for `stall_s` seconds, and a failure in the `latency_s` seconds
  // after that would have lost it. Both are at least 0.
  void measured(double stall_s, double latency_s);
  // Goes on with what an earlier run had measured, which is sound. The mean time between failures
  // stays as it is.
  void resume(const ChosenInterval& earlier);

  // Seconds from one checkpoint to the next. Until a checkpoint has been measured, that for a stall
  // of kAssumedStall_s.
  double interval_s() const { return interval_s_; }
  // Means of all checkpoints but the first, in which the newest weighs an eighth or more, and those
  // before it the rest.
  double stall_s() const { return stall_s_; }
  double latency_s() const { return latency_s_; }
  ChosenInterval chosen() const {
    return {interval_s_, stall_s_, latency_s_, between_failures_s_, measurements_};
  }

  static constexpr double kAssumedStall_s = 0.1;
  static constexpr double kLeast_s = 0.01;

 private:
  void choose();

  const double between_failures_s_;
  uint64_t measurements_ = 0;
  double stall_s_ = kAssumedStall_s;
  double latency_s_ = 0;
  double interval_s_ = 0;
};

}  // namespace gpusnap::plan
