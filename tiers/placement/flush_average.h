// The throughput of flushes as lately seen: AvgFlushBW in the VeloC paper (algorithm 3, line 4).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace gpusnap {

// A moving average: the bytes of the last `window` flushes over the time that they took one by one.
// So it is what one flush reaches beside the others, and short flushes, which are mostly latency,
// count as little as they carry. Not thread-safe.
class FlushAverage {
 public:
  // `first` is the answer before the first flush; bytes per second.
  FlushAverage(double first, size_t window) : first_(first), window_(window) {}

  void add(uint64_t bytes, double seconds) {
    if (!std::isfinite(seconds) || seconds <= 0) return;
    flushes_.push_back({static_cast<double>(bytes), seconds});
    if (flushes_.size() > window_) flushes_.pop_front();
  }

  double bytes_per_second() const {
    if (flushes_.empty()) return first_;
    Flush sum;  // afresh each time: there are few, and nothing is left behind by rounding
    for (const Flush& flush : flushes_) {
      sum.bytes += flush.bytes;
      sum.seconds += flush.seconds;
    }
    return sum.bytes / sum.seconds;
  }

 private:
  struct Flush {
    double bytes = 0;
    double seconds = 0;
  };
  double first_;
  size_t window_;
  std::deque<Flush> flushes_;
};

}  // namespace gpusnap
