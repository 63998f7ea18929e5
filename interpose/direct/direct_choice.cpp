// SPDX-License-Identifier: Apache-2.0
#include "interpose/direct/direct_choice.h"

#include <utility>

namespace gpusnap {

namespace {
constexpr double kWeightOfPast = 0.75;
}  // namespace

void DirectChoice::ended(SaveWay way, uint64_t bytes, uint64_t ns) {
  if (bytes == 0 || ns == 0) return;
  Average& taken = average(way);
  taken.bytes = taken.bytes * kWeightOfPast + static_cast<double>(bytes);
  taken.ns = taken.ns * kWeightOfPast + static_cast<double>(ns);
  ++taken.runs;
  // A run that was on its way by the other one when that changed says nothing about when to
  // change.
  if (way == next()) decide();
}

void DirectChoice::decide() {
  ++runs_;
  if (in_trial_) {
    if (runs_ < kTrial) return;
    in_trial_ = false;
    runs_ = 0;
    const double faster = average(current_).bytes_per_ns() * kFaster;
    if (average(other_).bytes_per_ns() > faster) std::swap(current_, other_);
    return;
  }
  const uint64_t most = average(other_).runs == 0 ? kTrial : kBetweenTrials;
  if (runs_ < most) return;
  in_trial_ = true;
  runs_ = 0;
}

}  // namespace gpusnap
