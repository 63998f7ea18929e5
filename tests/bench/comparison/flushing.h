// SPDX-License-Identifier: Apache-2.0
//
// How many chunks are flushed at the same time, in which order, and what Placement learns of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "tiers/backend/flush_order.h"
#include "tiers/placement/flush_control.h"

namespace gpusnap::comparison {

struct Flushing {
  // kProduct: as gpusnapd (tiers/backend/flush_order.h).
  enum class Order : uint8_t { kWritten, kCacheFirst, kProduct };
  uint32_t threads = 4;      // 0: as many as there are chunks, as in the paper (algorithm 3)
  bool is_adaptive = false;  // begins with `threads`
  bool is_product =
      false;  // gpusnapd's own FlushControl says how many, as with GPUSNAP_FLUSHES=auto
  Order order = Order::kWritten;
  // AvgFlushBW: the time of a flush begins when its chunk is written; else when the flush begins,
  // as in the paper, where that is the same.
  bool counts_waits = true;
};

// How many flushes there may be. If adaptive, 1 to 64: one more while the throughput of
// all flushes rises by more than 5 % by it, else one fewer while it rises by that, in turn. So one
// that was in vain is taken back. A throughput is that of a window, in which as many flushes end as
// run at the same time, and at least kWindow. A window counts only if there was always a chunk to
// flush.
class FlushLimit {
 public:
  explicit FlushLimit(const Flushing& flushing);
  uint32_t now() const { return control_ ? control_->flushes() : now_; }
  // `moved`: bytes of all flushes since the beginning. `is_busy`: a chunk waits for its flush.
  void ended(double now_s, double moved, bool is_busy);

 private:
  static constexpr uint32_t kWindow = 8;
  static constexpr uint32_t kMost = 64;
  static constexpr double kBetter = 1.05;

  void judge(double bytes_per_second);
  void step();

  struct Window {
    double begun_s = 0;
    double moved = 0;
    uint32_t ended = 0;
  };
  const bool is_adaptive_;
  std::optional<FlushControl> control_;
  uint32_t now_;
  std::optional<Window> window_;
  std::optional<uint32_t> before_;  // while another number is tried
  double rate_before_ = 0;          // bytes per second, with that
  bool tries_more_ = false;
};

struct WrittenChunk {
  size_t tier = 0;
  double written_s = 0;
};

// Chunks that are written and not being flushed.
class FlushQueue {
 public:
  explicit FlushQueue(Flushing::Order order) : order_(order) {}
  void add(const WrittenChunk& chunk) {
    tiers_[chunk.tier].push_back(chunk);
    product_.add(chunk.tier, chunk.tier == 0);
  }
  // Not of an empty queue. `limit` flushes may run, `of_ssd` of those that do read the SSD.
  WrittenChunk take(size_t of_ssd, uint32_t limit);
  size_t size() const { return tiers_[0].size() + tiers_[1].size(); }
  size_t of_tier(size_t tier) const { return tiers_[tier].size(); }

 private:
  // With kCacheFirst a part of the flushes, and one at least, is for the SSD: its chunks do not
  // wait for ever. Not more, while chunks of the cache wait: they may be slow.
  static constexpr uint32_t kPartOfSsd = 4;

  size_t choose(size_t of_ssd, uint32_t limit);

  const Flushing::Order order_;
  std::array<std::deque<WrittenChunk>, 2> tiers_;
  FlushOrder product_;  // the same chunks: of what tier the next one is
};

}  // namespace gpusnap::comparison
