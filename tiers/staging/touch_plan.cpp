// SPDX-License-Identifier: Apache-2.0
#include "tiers/staging/touch_plan.h"

#include <algorithm>

namespace gpusnap {

TouchPlan::TouchPlan(const Options& options, uint32_t backed)
    : options_(options),
      next_(backed),
      limit_(options.slots),
      backed_(backed),
      touched_(options.slots, false) {}

void TouchPlan::observe(const Demand& demand) {
  demand_ = demand;
  most_used_ = std::max(most_used_, demand.used);
}

uint32_t TouchPlan::target() const {
  if (demand_.clients == 0) return 0;
  // What a writer is about to wait for comes first, whatever it competes with.
  const uint64_t needed = demand_.used + uint64_t{options_.few_slots} * demand_.clients;
  const uint64_t reserve =
      std::max<uint64_t>(uint64_t{options_.ahead_slots} * demand_.clients, most_used_);
  const uint64_t wanted = std::max(needed, most_used_ + reserve);
  const bool is_paused = demand_.transferring && options_.pauses;
  return static_cast<uint32_t>(std::min<uint64_t>(is_paused ? needed : wanted, limit_));
}

std::optional<TouchPlan::Part> TouchPlan::take() {
  const uint32_t end = target();
  if (next_ >= end) return std::nullopt;
  // What a writer waits for is not left to one thread.
  const uint32_t share = (end - next_ + options_.threads - 1) / options_.threads;
  const Part part{next_, std::min(share, options_.part_slots)};
  next_ += part.count;
  return part;
}

void TouchPlan::touched(uint32_t slot) {
  touched_[slot] = true;
  while (backed_ < limit_ && touched_[backed_]) ++backed_;
}

void TouchPlan::refused(uint32_t slot) {
  limit_ = std::min(limit_, slot);
}

}  // namespace gpusnap
