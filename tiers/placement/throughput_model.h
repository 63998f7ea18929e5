// SPDX-License-Identifier: Apache-2.0
// How fast a device takes writes when so many write at the same time: MODEL in the VeloC paper
// (section IV.C), a cubic B-spline through the few samples of a calibration.
//
// Samples and spline are of the throughput of all writers together. That of one falls like a
// hyperbola, which no spline follows between few samples; it is the total divided by the writers.
#pragma once

#include <cstdint>
#include <span>

#include "tiers/placement/bspline.h"
#include "tiers/status.h"

namespace gpusnap {

struct ThroughputSample {
  uint32_t writers = 0;
  double bytes_per_second = 0;  // of all of them together
  bool operator==(const ThroughputSample&) const = default;
};

inline constexpr uint32_t kMostModelWriters = 1U << 20;
inline constexpr double kMostBytesPerSecond = 1e15;

// kInvalid, with what is wrong and no name, unless there are samples, with rising and equally
// spaced writers from 1 to kMostModelWriters, and throughputs from 1 to kMostBytesPerSecond.
Status check_samples(std::span<const ThroughputSample> samples);

// Immutable, so thread-safe.
class ThroughputModel {
 public:
  // kInvalid where check_samples() says so.
  static Result<ThroughputModel> fit(std::span<const ThroughputSample> samples);

  // Bytes per second, always positive; beyond the samples the total stays what it was at the
  // nearest one. No writers count as one. Constant time.
  double total(uint32_t writers) const;
  double of_one(uint32_t writers) const;

  // How far total() is from measurements, relative to them (the paper's figure 3).
  struct Error {
    double mean = 0;
    double most = 0;
    uint32_t most_at = 0;  // writers
  };
  // Compares with the samples that have a positive throughput.
  Error error_against(std::span<const ThroughputSample> measured) const;

 private:
  ThroughputModel(BSpline curve, double lowest) : curve_(std::move(curve)), lowest_(lowest) {}

  BSpline curve_;
  double lowest_;
};

}  // namespace gpusnap
