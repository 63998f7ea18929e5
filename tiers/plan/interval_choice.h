// SPDX-License-Identifier: Apache-2.0
//
// The interval between checkpoints that follows from what a job's own checkpoints have cost and how
// often the job fails: GPUSNAP_EVERY=auto. The model is that of `gpusnap plan` (Moody et al. 2010;
// GPU Snapshot, section 3), with the one level to which every checkpoint goes.
#pragma once

namespace gpusnap::plan {

// Not thread-safe.
class IntervalChoice {
 public:
  // The mean time between two failures of the whole job, in seconds, above 0.
  explicit IntervalChoice(double between_failures_s);

  // A checkpoint held the program for `stall_s` seconds, and a failure in the `latency_s` seconds
  // after that would have lost it. Both are at least 0.
  void measured(double stall_s, double latency_s);

  // Seconds from one checkpoint to the next. Until a checkpoint has been measured, that for a stall
  // of kAssumedStall_s.
  double interval_s() const { return interval_s_; }
  // Means in which each checkpoint weighs a quarter, and those before it the rest.
  double stall_s() const { return stall_s_; }
  double latency_s() const { return latency_s_; }

  static constexpr double kAssumedStall_s = 0.1;
  static constexpr double kLeast_s = 0.01;

 private:
  void choose();

  const double failures_per_s_;
  bool is_measured_ = false;
  double stall_s_ = kAssumedStall_s;
  double latency_s_ = 0;
  double interval_s_ = 0;
};

}  // namespace gpusnap::plan
