// The throughput of flushes as lately seen: AvgFlushBW in the VeloC paper (algorithm 3, line 4).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace gpusnap {

// A moving average: the bytes of the last `window` flushes over the time that they took one by one.
// So it is what one flush reaches beside the others, and short flushes, which are mostly latency,
// count as little as they carry.
//
// Flushes that have not ended count as if they ended now, if that makes the average lower: they are
// no faster than that. So a store that comes to stand still is noticed before a flush has ended,
// and an unknown store is as slow as its first flushes turn out. Not thread-safe.
class FlushAverage {
 public:
  // `first` is the answer before the first flush; bytes per second.
  FlushAverage(double first, size_t window) : first_(first), window_(window) {}

  void add(uint64_t bytes, double seconds) {
    if (!std::isfinite(seconds) || seconds <= 0) return;
    flushes_.push_back({static_cast<double>(bytes), seconds});
    if (flushes_.size() > window_) flushes_.pop_front();
  }

  // All that have not ended: their bytes, and the time that they have taken, one by one.
  void so_far(uint64_t bytes, double seconds) {
    so_far_ = std::isfinite(seconds) && seconds > 0 ? Flush{static_cast<double>(bytes), seconds}
                                                    : Flush();
  }

  // The average of flushes that have ended; nothing before the first.
  std::optional<double> of_ended() const {
    const Flush sum = sum_of_ended();
    return sum.seconds > 0 ? std::optional(sum.bytes / sum.seconds) : std::nullopt;
  }
  // Whether it is more than the first answer.
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
  // Afresh each time: there are few, and nothing is left behind by rounding.
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
