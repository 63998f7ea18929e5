// SPDX-License-Identifier: Apache-2.0
#include "tiers/clock.h"

#include <chrono>

namespace gpusnap {

namespace {

class MonotonicClock final : public Clock {
 public:
  int64_t now_ns() override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }
};

}  // namespace

Clock& monotonic_clock() {
  static auto* clock = new MonotonicClock;
  return *clock;
}

}  // namespace gpusnap
