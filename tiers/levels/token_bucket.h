// SPDX-License-Identifier: Apache-2.0
// Bounds how many bytes pass: in any time no more than the rate allows for it, and a burst besides.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gpusnap::levels {

// Pure: the caller brings the time and waits. Not thread-safe.
class TokenBucket {
 public:
  // `rate`: bytes per second; 0: without a bound. `burst`: bytes.
  TokenBucket(uint64_t rate, uint64_t burst)
      : rate_(rate), burst_ns_(rate == 0 ? 0 : cost_ns(burst)) {}

  // So many bytes are to pass; nanoseconds to wait before they may.
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
  int64_t paid_until_ns_ = INT64_MIN / 2;  // when all that has passed would have at the rate
};

}  // namespace gpusnap::levels
