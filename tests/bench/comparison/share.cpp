// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/comparison/share.h"

namespace gpusnap::comparison {

double water_level(std::span<const Demand> demands, double total) {
  double level = 0;
  double fixed = -1;  // transfers that get their cap
  for (;;) {
    double left = total, open = 0, below = 0;
    for (const Demand& demand : demands) {
      if (demand.cap <= level) {
        left -= demand.count * demand.cap;
        below += demand.count;
      } else {
        open += demand.count;
      }
    }
    if (open == 0) return std::numeric_limits<double>::infinity();
    if (below == fixed) return level;
    fixed = below;
    level = left / open;
  }
}

}  // namespace gpusnap::comparison
