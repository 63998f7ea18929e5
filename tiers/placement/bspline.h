// SPDX-License-Identifier: Apache-2.0
// A smooth curve through equally spaced samples: a cubic B-spline, as in section IV.C of the VeloC
// paper. Immutable, so thread-safe; copies share their coefficients.
#pragma once

#include <memory>
#include <span>

#include "tiers/status.h"

namespace gpusnap {

class BSpline {
 public:
  // Makes a curve through values[i] at start + i * step. Returns kInvalid if there is no value,
  // `step` is not positive, or a number is not finite or has a magnitude above 1e18.
  static Result<BSpline> through(double start, double step, std::span<const double> values);

  // Takes constant time. Before the first and after the last sample: the value of that sample.
  double at(double x) const;

 private:
  struct Curve;
  explicit BSpline(std::shared_ptr<const Curve> curve) : curve_(std::move(curve)) {}

  std::shared_ptr<const Curve> curve_;
};

}  // namespace gpusnap
