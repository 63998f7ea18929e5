// SPDX-License-Identifier: Apache-2.0
//
// How many chunks are flushed at the same time, and in which order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace gpusnap::comparison {

struct Flushing {
  enum class Order : uint8_t { kWritten, kCacheFirst };
  uint32_t threads = 4;      // 0: as many as there are chunks, as in the paper (algorithm 3)
  bool is_adaptive = false;  // begins with `threads`
  Order order = Order::kWritten;
};

// A model of gpusnapd's choice with GPUSNAP_FLUSHES=auto: one flush more while the throughput of
// all rises by more than 5 %, one fewer when it falls by as much; 1 to 64. It compares the
// throughputs of windows, each of as many flushes as run at the same time and at least kWindow. A
// window counts only if there was always a chunk to flush.
class FlushLimit {
 public:
  explicit FlushLimit(const Flushing& flushing);
  uint32_t now() const { return now_; }
  // `is_busy`: as many flushes ran as may, and a chunk waits for the next.
  void ended(double now_s, double bytes, bool is_busy);

 private:
  static constexpr uint32_t kWindow = 8;
  static constexpr uint32_t kMost = 64;
  static constexpr double kDifference = 1.05;

  void restart(double now_s);
  void judge(double bytes_per_second);

  const bool is_adaptive_;
  uint32_t now_;
  std::optional<double> window_begun_s_;
  uint32_t ended_ = 0;  // in this window
  double bytes_ = 0;
  double last_ = 0;  // bytes per second of the window before; 0: none
};

struct WrittenChunk {
  size_t tier = 0;
  double written_s = 0;
};

// Chunks that are written and not being flushed.
class FlushQueue {
 public:
  explicit FlushQueue(Flushing::Order order) : order_(order) {}
  void add(const WrittenChunk& chunk);
  WrittenChunk take();  // not of an empty queue
  size_t size() const { return tiers_[0].size() + tiers_[1].size(); }
  size_t of_tier(size_t tier) const { return tiers_[tier].size(); }

 private:
  // So many of the cache overtake a chunk of the SSD at most: it does not wait for ever.
  static constexpr uint32_t kMostOvertaken = 16;

  size_t choose() const;

  const Flushing::Order order_;
  std::array<std::deque<WrittenChunk>, 2> tiers_;
  uint32_t overtaken_ = 0;  // since the last chunk of the SSD
};

}  // namespace gpusnap::comparison
