// A smooth curve through equally spaced samples: a cubic B-spline, as in section IV.C of the VeloC
// paper. Immutable, so thread-safe; copies share their coefficients.
#pragma once

#include <memory>
#include <span>

#include "tiers/status.h"

namespace gpusnap {

class BSpline {
 public:
  // Through values[i] at start + i * step. kInvalid without a value, where `step` is not positive,
  // and where a number is not finite or beyond 1e18 either way.
  static Result<BSpline> through(double start, double step, std::span<const double> values);

  // In constant time. Left and right of the samples: the value of the first and of the last.
  double at(double x) const;

 private:
  struct Curve;
  explicit BSpline(std::shared_ptr<const Curve> curve) : curve_(std::move(curve)) {}

  std::shared_ptr<const Curve> curve_;
};

}  // namespace gpusnap
