// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/bspline.h"

#include <algorithm>
#include <array>
#include <boost/math/interpolators/cardinal_cubic_b_spline.hpp>
#include <cmath>
#include <vector>

#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

using Cardinal = boost::math::interpolators::cardinal_cubic_b_spline<double>;

constexpr double kMostMagnitude = 1e18;
constexpr size_t kFewestForCubic = 3;

bool usable(double value) {
  return std::abs(value) <= kMostMagnitude;  // not for NaN
}

// The slope, per step, at the first of the values, of the polynomial through up to five of them, by
// Newton's forward differences. Boost estimates slopes in the same way where it is given none, but
// as of 1.74 its right one is the slope four samples before the end.
template <class Iterator>
double slope_at_first(Iterator values, size_t count) {
  constexpr size_t kMostPoints = 5;
  std::array<double, kMostPoints> differences{};
  const size_t points = std::min(count, kMostPoints);
  std::copy_n(values, points, differences.begin());
  double slope = 0;
  double sign = 1;
  for (size_t order = 1; order < points; ++order) {
    for (size_t i = 0; i + order < points; ++i)
      differences[i] = differences[i + 1] - differences[i];
    slope += sign * differences[0] / static_cast<double>(order);
    sign = -sign;
  }
  return slope;
}

Cardinal curve_through(double start, double step, std::vector<double> values) {
  if (values.size() < kFewestForCubic) {
    // One or two samples are a straight line; Boost wants a third that lies on it.
    values = {values.front(), (values.front() + values.back()) / 2, values.back()};
    step /= 2;
  }
  const double left = slope_at_first(values.begin(), values.size()) / step;
  const double right = -slope_at_first(values.rbegin(), values.size()) / step;
  return {values.data(), values.size(), start, step, left, right};
}

}  // namespace

struct BSpline::Curve {
  double first;
  double last;
  Cardinal spline;
};

Result<BSpline> BSpline::through(double start, double step, std::span<const double> values) {
  if (values.empty() || !usable(start) || !usable(step) || step <= 0 ||
      !std::all_of(values.begin(), values.end(), usable)) {
    return Status(Code::kInvalid, "cannot draw a curve: its samples are none, or not numbers");
  }
  return no_throw("draw a curve", [&]() -> Result<BSpline> {
    const double last = start + step * static_cast<double>(values.size() - 1);
    return BSpline(std::make_shared<const Curve>(
        Curve{start, last, curve_through(start, step, {values.begin(), values.end()})}));
  });
}

double BSpline::at(double x) const {
  return curve_->spline(std::clamp(x, curve_->first, curve_->last));
}

}  // namespace gpusnap
