// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/comparison/flushing.h"

#include <algorithm>
#include <limits>

namespace gpusnap::comparison {

FlushLimit::FlushLimit(const Flushing& flushing)
    : is_adaptive_(flushing.is_adaptive),
      now_(flushing.threads > 0 ? flushing.threads : std::numeric_limits<uint32_t>::max()) {}

void FlushLimit::restart(double now_s) {
  window_begun_s_ = now_s;
  ended_ = 0;
  bytes_ = 0;
}

void FlushLimit::ended(double now_s, double bytes, bool is_busy) {
  if (!is_adaptive_) return;
  if (!is_busy) {
    window_begun_s_.reset();
    return;
  }
  if (!window_begun_s_) return restart(now_s);
  ++ended_;
  bytes_ += bytes;
  if (ended_ < std::max(now_, kWindow) || now_s <= *window_begun_s_) return;
  judge(bytes_ / (now_s - *window_begun_s_));
  restart(now_s);
}

void FlushLimit::judge(double bytes_per_second) {
  if (bytes_per_second > last_ * kDifference) {
    now_ = std::min(now_ + 1, kMost);
  } else if (bytes_per_second * kDifference < last_) {
    now_ = std::max(now_ - 1, 1U);
  }
  last_ = bytes_per_second;
}

void FlushQueue::add(const WrittenChunk& chunk) {
  tiers_[chunk.tier].push_back(chunk);
}

size_t FlushQueue::choose() const {
  if (tiers_[0].empty() || tiers_[1].empty()) return tiers_[0].empty() ? 1 : 0;
  if (order_ == Flushing::Order::kCacheFirst) return overtaken_ < kMostOvertaken ? 0 : 1;
  return tiers_[0].front().written_s <= tiers_[1].front().written_s ? 0 : 1;
}

WrittenChunk FlushQueue::take() {
  const size_t tier = choose();
  overtaken_ = tier == 0 && !tiers_[1].empty() ? overtaken_ + 1 : 0;
  const WrittenChunk chunk = tiers_[tier].front();
  tiers_[tier].pop_front();
  return chunk;
}

}  // namespace gpusnap::comparison
