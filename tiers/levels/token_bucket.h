// SPDX-License-Identifier: Apache-2.0
// Bounds the bytes that pass in any period: to the rate times its length, plus a burst.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpusnap::levels {

// No clock: the caller passes the time and waits. Not thread-safe.
class TokenBucket {
 public:
  // `rate`: bytes per second; 0: without a bound. `burst`: bytes.
  TokenBucket(uint64_t rate, uint64_t burst)
      : rate_(rate), burst_ns_(rate == 0 ? 0 : cost_ns(burst)) {}

  // Takes that many bytes. Returns the nanoseconds to wait before they may pass.
  int64_t take(uint64_t bytes, int64_t now_ns) {
    if (rate_ == 0) return 0;
    paid_until_ns_ = std::max(paid_until_ns_, now_ns - burst_ns_) + cost_ns(bytes);
    return std::max<int64_t>(paid_until_ns_ - now_ns, 0);
  }

 private:
  int64_t cost_ns(uint64_t bytes) const {
    return static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate_));
  }

  uint64_t rate_;
  int64_t burst_ns_;
  int64_t paid_until_ns_ = INT64_MIN / 2;  // time at which all bytes would have passed at the rate
};

}  // namespace gpusnap::levels
