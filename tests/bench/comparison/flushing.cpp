// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/comparison/flushing.h"

#include <algorithm>
#include <limits>

#include "tests/bench/comparison/machine.h"

namespace gpusnap::comparison {

FlushLimit::FlushLimit(const Flushing& flushing)
    : is_adaptive_(flushing.is_adaptive),
      now_(flushing.threads > 0 ? flushing.threads : std::numeric_limits<uint32_t>::max()) {
  if (flushing.is_product) control_.emplace(1, kMostFlushes);
}

void FlushLimit::ended(double now_s, double moved, bool is_busy) {
  if (control_) {
    return control_->ended(static_cast<int64_t>(now_s * 1e9), static_cast<uint64_t>(kChunkBytes),
                           is_busy);
  }
  if (!is_adaptive_) return;
  if (!is_busy) return window_.reset();
  if (window_) {
    const double seconds = now_s - window_->begun_s;
    if (++window_->ended < std::max(now_, kWindow) || seconds <= 0) return;
    judge((moved - window_->moved) / seconds);
  }
  window_ = {now_s, moved, 0};
}

void FlushLimit::judge(double bytes_per_second) {
  if (before_ && bytes_per_second <= rate_before_ * kBetter) {
    now_ = *before_;
    before_.reset();
    return;
  }
  if (!before_) tries_more_ = !tries_more_;
  rate_before_ = bytes_per_second;
  step();
}

void FlushLimit::step() {
  before_ = now_;
  now_ = tries_more_ ? std::min(now_ + 1, kMost) : std::max(now_ - 1, 1U);
}

size_t FlushQueue::choose(size_t of_ssd, uint32_t limit) {
  if (order_ == Flushing::Order::kProduct) return *product_.next();
  if (tiers_[0].empty() || tiers_[1].empty()) return tiers_[0].empty() ? 1 : 0;
  if (order_ == Flushing::Order::kCacheFirst) {
    return of_ssd < std::max(limit / kPartOfSsd, 1U) ? 1 : 0;
  }
  return tiers_[0].front().written_s <= tiers_[1].front().written_s ? 0 : 1;
}

WrittenChunk FlushQueue::take(size_t of_ssd, uint32_t limit) {
  std::deque<WrittenChunk>& tier = tiers_[choose(of_ssd, limit)];
  const WrittenChunk chunk = tier.front();
  tier.pop_front();
  return chunk;
}

}  // namespace gpusnap::comparison
