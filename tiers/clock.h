// SPDX-License-Identifier: Apache-2.0
// Time as the tiers measure it, so that tests can bring their own.
#pragma once

#include <cstdint>

namespace gpusnap {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() = 0;  // from any beginning; never goes back
};

// The machine's. Lives for ever.
Clock& monotonic_clock();

}  // namespace gpusnap
