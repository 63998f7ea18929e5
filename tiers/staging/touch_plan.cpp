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
  const uint32_t free = backed_ - std::min(demand.used, backed_);
  // Slots that a writer is about to wait for are touched even beside a transfer.
  if (free < uint64_t{options_.few_slots} * demand.clients) is_urgent_ = true;
  end_urgency();
}

void TouchPlan::end_urgency() {
  if (backed_ >= wanted()) is_urgent_ = false;
}

uint64_t TouchPlan::wanted() const {
  if (demand_.clients == 0) return 0;
  const uint64_t ahead = uint64_t{options_.ahead_slots} * demand_.clients;
  return most_used_ + std::max<uint64_t>(ahead, most_used_);
}

uint32_t TouchPlan::target() const {
  if (demand_.transferring && options_.pauses && !is_urgent_) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(wanted(), limit_));
}

std::optional<TouchPlan::Part> TouchPlan::take() {
  const uint32_t end = target();
  if (next_ >= end) return std::nullopt;
  // Slots that a writer waits for are not left to one thread.
  const uint32_t share = (end - next_ + options_.threads - 1) / options_.threads;
  const Part part{next_, std::min(share, options_.part_slots)};
  next_ += part.count;
  return part;
}

void TouchPlan::touched(uint32_t slot) {
  touched_[slot] = true;
  while (backed_ < limit_ && touched_[backed_]) ++backed_;
  end_urgency();
}

void TouchPlan::refused(uint32_t slot) {
  limit_ = std::min(limit_, slot);
}

}  // namespace gpusnap
