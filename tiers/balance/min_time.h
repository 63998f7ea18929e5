// SPDX-License-Identifier: Apache-2.0
//
// The min-time max-flow of the SC'22 deep tiers talk (slides 17 and 60). Pure logic.
#pragma once

#include <cstdint>

#include "tiers/balance/plan.h"
#include "tiers/balance/problem.h"
#include "tiers/status.h"

namespace gpusnap::balance {

inline constexpr uint64_t kUnit = 1'000'000;  // bytes

// Sends one unit of `unit` bytes (at least 1) after the other, each along the augmenting path whose
// slowest link would be done first. A link with f bytes and bandwidth b costs (f + unit) / b, so
// the fastest link becomes dearer with each unit, and a slower one is used beside it. A path costs
// as much as its dearest link. A path may take bytes back from a link, for nothing, and send them
// elsewhere.
//
// No plan of whole units is shorter. A plan takes longer than the shortest one of any
// bytes by at most two units on the slowest link of all. The time to make it is proportional to the
// number of units.
//
// kNoSpace: no plan exists; the message names the devices. kInvalid: see check().
Result<Plan> min_time(const Problem& problem, uint64_t unit = kUnit);

}  // namespace gpusnap::balance
