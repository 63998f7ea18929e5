// SPDX-License-Identifier: Apache-2.0
//
// The shortest schedule. Pure logic.
#pragma once

#include "tiers/balance/plan.h"
#include "tiers/balance/problem.h"
#include "tiers/status.h"

namespace gpusnap::balance {

// No plan of whole bytes takes less time. Until a deadline, a link carries what its bandwidth
// allows. A plan for the deadline exists if the maximum flow with these capacities takes all
// remainders. If it does not, its minimum cut says by which deadline the cut lets them pass, and no
// plan is faster than that. The search goes from deadline to deadline in this way, from below, and
// stops at the first one that has a plan.
//
// Devices that the last cut does not contain do not decide about the time. They are scheduled again
// by themselves, with what the others leave, so that they too are done as soon as they can be.
//
// kNoSpace: no plan exists; the message names the devices. kInvalid: see check().
Result<Plan> optimal(const Problem& problem);

}  // namespace gpusnap::balance
