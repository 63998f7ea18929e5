// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/comparison/machine.h"

#include <algorithm>
#include <cmath>

namespace gpusnap::comparison {

Curve memory_curve(double total, double of_one) {
  return [total, of_one](double users) {
    return of_one > 0 ? std::min(total, of_one * users) : total;
  };
}

double SsdCurve::operator()(double users) const {
  if (users < best) return peak * std::pow(users / best, rise);
  return peak / (1 + decline * (users - best));
}

double Store::of_files(double files) const {
  return of_node / (1 + decline * std::max(files - best_files, 0.0));
}

}  // namespace gpusnap::comparison
