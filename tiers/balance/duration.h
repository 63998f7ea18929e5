// SPDX-License-Identifier: Apache-2.0
//
// A duration as the fraction of bytes and bandwidth, so that what a link carries in it is computed
// without rounding errors.
#pragma once

#include <cstdint>

namespace gpusnap::balance {

__extension__ using Wide = unsigned __int128;

// Seconds: bytes / bandwidth. The bandwidth is at least 1.
struct Duration {
  uint64_t bytes = 0;
  uint64_t bandwidth = 1;

  bool operator<(const Duration& other) const {
    return Wide{bytes} * other.bandwidth < Wide{other.bytes} * bandwidth;
  }
};

// Whole bytes that a link has carried after this duration.
inline uint64_t carried(uint64_t bandwidth, const Duration& duration) {
  return static_cast<uint64_t>(Wide{bandwidth} * duration.bytes / duration.bandwidth);
}

}  // namespace gpusnap::balance
