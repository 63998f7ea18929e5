// SPDX-License-Identifier: Apache-2.0
// The recent throughput of flushes: AvgFlushBW in the VeloC paper (algorithm 3, line 4).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace gpusnap {

// A moving average: the bytes of the last `window` flushes divided by the sum of their times. It is
// the throughput of one flush beside the others. Flushes count by their bytes, so short ones, which
// are mostly latency, count little.
//
// Unfinished flushes count as if they ended now, if that makes the average lower: they are no
// faster than that. A store that stops is therefore noticed before a flush has ended. Not
// thread-safe.
class FlushAverage {
 public:
  // `first`: the value before the first flush, in bytes per second.
  FlushAverage(double first, size_t window) : first_(first), window_(window) {}

  void add(uint64_t bytes, double seconds) {
    if (!std::isfinite(seconds) || seconds <= 0) return;
    flushes_.push_back({static_cast<double>(bytes), seconds});
    if (flushes_.size() > window_) flushes_.pop_front();
  }

  // Sets the bytes of all unfinished flushes and the sum of their times so far.
  void so_far(uint64_t bytes, double seconds) {
    so_far_ = std::isfinite(seconds) && seconds > 0 ? Flush{static_cast<double>(bytes), seconds}
                                                    : Flush();
  }

  // Returns the average of flushes that have ended. Empty before the first.
  std::optional<double> of_ended() const {
    const Flush sum = sum_of_ended();
    return sum.seconds > 0 ? std::optional(sum.bytes / sum.seconds) : std::nullopt;
  }
  // Returns whether any flush has been measured.
  bool is_measured() const { return !flushes_.empty() || so_far_.seconds > 0; }
  double bytes_per_second() const {
    const Flush sum = sum_of_ended();
    const double ended = flushes_.empty() ? first_ : sum.bytes / sum.seconds;
    if (so_far_.seconds <= 0) return ended;
    return std::min(ended, (sum.bytes + so_far_.bytes) / (sum.seconds + so_far_.seconds));
  }

 private:
  struct Flush {
    double bytes = 0;
    double seconds = 0;
  };
  // Computed anew each time: there are few flushes, and no rounding errors add up.
  Flush sum_of_ended() const {
    Flush sum;
    for (const Flush& flush : flushes_) {
      sum.bytes += flush.bytes;
      sum.seconds += flush.seconds;
    }
    return sum;
  }

  double first_;
  size_t window_;
  std::deque<Flush> flushes_;
  Flush so_far_;
};

}  // namespace gpusnap
