// SPDX-License-Identifier: Apache-2.0
// The clock of the tiers. Tests can replace it.
#pragma once

#include <cstdint>

namespace gpusnap {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() = 0;  // since an arbitrary moment; never decreases
};

// The machine's monotonic clock. Never destroyed.
Clock& monotonic_clock();

}  // namespace gpusnap
