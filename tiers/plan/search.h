// SPDX-License-Identifier: Apache-2.0
//
// One-dimensional minimisation.
#pragma once

#include <cmath>

namespace gpusnap::plan {

// Golden-section search: where `cost` is least between two positive numbers, to a relative accuracy
// of about 1e-6. `cost` has one minimum there.
template <class Cost>
double minimum_between(double low, double high, const Cost& cost) {
  constexpr double kGolden = 0.6180339887498949;
  constexpr double kAccuracy = 1e-6;
  double from = std::log(low), to = std::log(high);
  double left = to - kGolden * (to - from), right = from + kGolden * (to - from);
  double cost_left = cost(std::exp(left)), cost_right = cost(std::exp(right));
  while (to - from > kAccuracy) {
    if (cost_left <= cost_right) {
      to = right;
      right = left;
      cost_right = cost_left;
      left = to - kGolden * (to - from);
      cost_left = cost(std::exp(left));
    } else {
      from = left;
      left = right;
      cost_left = cost_right;
      right = from + kGolden * (to - from);
      cost_right = cost(std::exp(right));
    }
  }
  return std::exp((from + to) / 2);
}

}  // namespace gpusnap::plan
