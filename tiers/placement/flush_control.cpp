// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/flush_control.h"

#include <algorithm>

namespace gpusnap {

namespace {

constexpr double kRise = 1.05;  // what counts as a difference
constexpr uint32_t kLeastCounted = 8;
constexpr uint32_t kLeastLooks = 8;  // for waits to be known
constexpr double kWaitsMore = 0.25;  // what counts as a difference: threads, and as a part
constexpr uint32_t kMostInVain = 3;  // busy times in which a candidate could not be measured
constexpr uint32_t kPartLater = 4;
constexpr uint32_t kShortHold = 16, kLongHold = 256;  // windows

// More than chance, and enough to matter.
bool waits_more(double one, double other) {
  return one > other + kWaitsMore && one > other * (1 + kWaitsMore);
}

}  // namespace

FlushControl::FlushControl(uint32_t least, uint32_t most, uint32_t known)
    : least_(least),
      most_(most),
      now_(std::clamp(known > 0 ? known : kFirstFlushes, least, most)),
      phase_(known > 0 ? Phase::kHold : Phase::kBase),
      kept_(now_),
      knows_(known > 0 && adapts()),
      windows_(kShortHold),
      to_pass_(now_) {}

// A group that is not whole is forgotten, whole ones count on. A candidate that could not be
// measured several times in a row needs more chunks than there are, and would otherwise stay for
// ever.
void FlushControl::pause() {
  to_pass_ = now_;
  group_ = {};
  if (!busy_) return;
  busy_ = false;
  times_in_vain_ = vain_ ? times_in_vain_ + 1 : 0;
  vain_ = true;
  if (phase_ != Phase::kCandidate || times_in_vain_ < kMostInVain) return;
  refused();
  try_next();
}

void FlushControl::clear_measurement() {
  counted_ = {};
  group_ = {};
  looks_ = waits_seen_ = 0;
}

// With flushes that began with another number, it says nothing of this one.
void FlushControl::waited(uint32_t threads) {
  if (to_pass_ > 0) return;
  ++looks_;
  waits_seen_ += threads;
}

// From the end of a flush on, when all have ended that began with another number or were not as
// many.
void FlushControl::ended(int64_t now_ns, uint64_t bytes, bool more) {
  if (!adapts()) return;
  if (!more) return pause();
  busy_ = true;
  if (to_pass_ > 0) {
    --to_pass_;
    since_ns_ = now_ns;
    return;
  }
  group_.bytes += bytes;
  if (++group_.flushes < now_) return;
  counted_.flushes += group_.flushes;
  counted_.bytes += group_.bytes;
  counted_.ns += now_ns - since_ns_;
  group_ = {};
  since_ns_ = now_ns;
  vain_ = false;
  if (counted_.flushes < kLeastCounted) return;
  const bool is_measured = counted_.ns > 0;
  Measured now{static_cast<double>(counted_.bytes) / static_cast<double>(counted_.ns), {}};
  if (looks_ >= kLeastLooks) now.waits = static_cast<double>(waits_seen_) / looks_;
  clear_measurement();
  if (is_measured) measured(now);
}

void FlushControl::measured(const Measured& now) {
  switch (phase_) {
    case Phase::kBase:
      at_kept_ = now;
      return look_around();
    case Phase::kCandidate:
      return judge(now);
    case Phase::kAgain:
      return confirm(now);
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

void FlushControl::judge(const Measured& now) {
  if (is_better(now)) {
    better_ = now_;
    at_better_ = now;
    phase_ = Phase::kAgain;
    return go_to(kept_);
  }
  // No difference: twice as far there may be one, where the store gains little by little.
  if (now.rate * kRise >= at_kept_.rate && reach_ == step_) {
    const uint32_t before = candidate();
    reach_ = 3 * step_;
    if (candidate() != before) return go_to(candidate());
  }
  refused();
  try_next();
}

// The lower of two equally good numbers is better: each flush is faster then, and placement
// compares that with a local device. The rate to compare with stays: many small losses would be a
// large one.
bool FlushControl::is_better(const Measured& now) const {
  const bool is_fewer = (phase_ == Phase::kAgain ? better_ : now_) < kept_;
  const bool knows_waits = now.waits && at_kept_.waits;
  if (knows_waits && waits_more(*now.waits, *at_kept_.waits)) return false;
  if (knows_waits && is_fewer && waits_more(*at_kept_.waits, *now.waits)) return true;
  return now.rate > kRise * at_kept_.rate || (is_fewer && now.rate * kRise >= at_kept_.rate);
}

// Others use the store, too: what looked better may have been measured while they did not.
void FlushControl::confirm(const Measured& now) {
  at_kept_ = now;
  if (!is_better(at_better_)) {
    refused();
    return try_next();
  }
  kept_ = better_;
  at_better_.rate = std::max(at_kept_.rate, at_better_.rate);
  at_kept_ = at_better_;
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

// No less than half: writers wait while it is measured.
uint32_t FlushControl::candidate() const {
  if (up_) return std::min(most_, kept_ + std::min(reach_, most_ - kept_));
  return kept_ - std::min({reach_, kept_ - least_, kept_ / 2});
}

void FlushControl::try_next() {
  while (step_ > 0) {
    const bool is_too_far = !up_ && step_ > kept_ / 2;  // a shorter step will reach as far
    if (!is_too_far && candidate() != kept_) {
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
  clear_measurement();
  times_in_vain_ = 0;
  vain_ = true;
  now_ = flushes;
}

}  // namespace gpusnap
