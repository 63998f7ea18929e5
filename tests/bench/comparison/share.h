// SPDX-License-Identifier: Apache-2.0
//
// Max-min fair shares of one resource.
#pragma once

#include <limits>
#include <span>

namespace gpusnap::comparison {

// Transfers that are alike.
struct Demand {
  double count = 0;
  double cap = std::numeric_limits<double>::infinity();  // what one can use, in bytes per second
};

// The rate that no transfer exceeds when `total` is shared: each gets its cap or this, whichever is
// less, and what small caps leave goes to the others. Infinity where `total` is enough for all.
double water_level(std::span<const Demand> demands, double total);

}  // namespace gpusnap::comparison
