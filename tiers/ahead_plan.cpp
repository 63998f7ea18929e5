// SPDX-License-Identifier: Apache-2.0
#include "tiers/ahead_plan.h"

#include <algorithm>

namespace gpusnap {

AheadPlan::AheadPlan(int64_t spare, bool has_device)
    : most_moving_(has_device ? std::clamp<int64_t>(spare / 4, 1, kMostMoving) : 0) {}

AheadPlan::Goal AheadPlan::next(const Unit& unit, int64_t spare, uint64_t room) {
  if (!unit.fits) return Goal::kLeave;
  // The last buffers are the way to the device.
  if (!memory_is_full_ && spare > most_moving_) return Goal::kMemory;
  if (!memory_is_full_ && reading_ > 0) return Goal::kWait;
  memory_is_full_ = true;
  if (most_moving_ == 0) return Goal::kEnd;
  if (unit.is_local) return Goal::kLeave;
  if (unit.bytes > room) return Goal::kEnd;
  return moving_ < most_moving_ && spare > 0 ? Goal::kDevice : Goal::kWait;
}

bool AheadPlan::gives_back(int64_t spare) {
  if (spare >= 0) return false;
  memory_is_full_ = true;
  return true;
}

}  // namespace gpusnap
