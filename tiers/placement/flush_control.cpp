// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/flush_control.h"

#include <algorithm>

namespace gpusnap {

namespace {

constexpr double kRise = 1.05;  // what counts as a difference
constexpr uint32_t kLeastCounted = 8;
constexpr uint32_t kPartLater = 4;
constexpr uint32_t kShortHold = 16, kLongHold = 256;  // windows

}  // namespace

FlushControl::FlushControl(uint32_t least, uint32_t most)
    : least_(least),
      most_(most),
      now_(std::clamp(kFirstFlushes, least, most)),
      kept_(now_),
      windows_(kShortHold),
      to_pass_(now_) {}

void FlushControl::restart() {
  to_pass_ = now_;
  counted_ = 0;
}

// From the end of a flush on, when all have ended that began with another number or were not as
// many. And as many as there may be, or a multiple, so that those that end together are counted
// together.
void FlushControl::ended(int64_t now_ns, uint64_t bytes, bool more) {
  if (least_ == most_) return;
  if (!more) return restart();
  if (to_pass_ > 0) {
    --to_pass_;
    since_ns_ = now_ns;
    bytes_ = 0;
    return;
  }
  bytes_ += bytes;
  const uint32_t wanted = (kLeastCounted + now_ - 1) / now_ * now_;
  if (++counted_ < wanted) return;
  const int64_t ns = now_ns - since_ns_;
  counted_ = 0;
  since_ns_ = now_ns;
  const uint64_t counted_bytes = bytes_;
  bytes_ = 0;
  if (ns > 0) measured(static_cast<double>(counted_bytes) / static_cast<double>(ns));
}

void FlushControl::measured(double rate) {
  switch (phase_) {
    case Phase::kBase:
      kept_rate_ = rate;
      return look_around();
    case Phase::kCandidate:
      return judge(rate);
    case Phase::kAgain:
      return confirm(rate);
    case Phase::kHold:
      break;
  }
  // Measured once more before the search: the store may have changed.
  if (++held_ >= windows_) phase_ = Phase::kBase;
}

void FlushControl::look_around() {
  // At first, anything is possible; later, that the store has changed a little. Where it has
  // changed much, steps double again.
  const uint32_t part = knows_ ? kPartLater : 1;
  knows_ = true;
  found_ = false;
  step_ = std::max(1U, kept_ / part);
  reach_ = step_;
  up_ = true;
  turned_ = false;
  try_next();
}

void FlushControl::judge(double rate) {
  if (is_better(rate)) {
    better_ = now_;
    better_rate_ = rate;
    phase_ = Phase::kAgain;
    return go_to(kept_);
  }
  // No difference: twice as far there may be one, where the store gains little by little.
  if (rate * kRise >= kept_rate_ && reach_ == step_) {
    const uint32_t before = candidate();
    reach_ = 3 * step_;
    if (candidate() != before) return go_to(candidate());
  }
  refused();
  try_next();
}

// Of two that are as good the fewer: each is faster then, and that is what placement compares with
// a local device. What they are measured against stays: many small losses would be a large one.
bool FlushControl::is_better(double rate) const {
  const bool is_fewer = (phase_ == Phase::kAgain ? better_ : now_) < kept_;
  return rate > kRise * kept_rate_ || (is_fewer && rate * kRise >= kept_rate_);
}

// Others use the store, too: what looked better may have been measured while they did not.
void FlushControl::confirm(double rate) {
  kept_rate_ = rate;
  if (!is_better(better_rate_)) {
    refused();
    return try_next();
  }
  kept_ = better_;
  kept_rate_ = std::max(kept_rate_, better_rate_);
  found_ = true;
  step_ *= 2;
  reach_ = step_;
  turned_ = false;
  try_next();
}

void FlushControl::refused() {
  reach_ = step_;
  if (!turned_) {
    turned_ = true;
    up_ = !up_;
    return;
  }
  turned_ = false;
  step_ /= 2;
  reach_ = step_;
}

uint32_t FlushControl::candidate() const {
  if (up_) return std::min(most_, kept_ + std::min(reach_, most_ - kept_));
  return kept_ - std::min(reach_, kept_ - least_);
}

void FlushControl::try_next() {
  while (step_ > 0) {
    if (candidate() != kept_) {
      phase_ = Phase::kCandidate;
      return go_to(candidate());
    }
    refused();
  }
  hold();
}

// The longer, the less there was to find.
void FlushControl::hold() {
  windows_ = found_ ? kShortHold : std::min(2 * windows_, kLongHold);
  held_ = 0;
  phase_ = Phase::kHold;
  go_to(kept_);
}

void FlushControl::go_to(uint32_t flushes) {
  to_pass_ = std::max(now_, flushes);
  counted_ = 0;
  now_ = flushes;
}

}  // namespace gpusnap
