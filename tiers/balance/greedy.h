// SPDX-License-Identifier: Apache-2.0
//
// Two schedules that are simple and not optimal; others are compared with them. Pure logic.
#pragma once

#include "tiers/balance/plan.h"
#include "tiers/balance/problem.h"
#include "tiers/status.h"

namespace gpusnap::balance {

// Each remainder goes to the host (slide 15). kNoSpace: a device that has one has no link to the
// host. kInvalid: see check().
Result<Plan> baseline(const Problem& problem);

// The greatest remainder first, the fastest peer first, and what is left to the host (slide 16). A
// peer is given as much as it has room for, and no more than is left: step 3 of the slide says
// max(ckpt, F), and can only mean the lesser of the two. kNoSpace: a device has no link to the host
// and something left; another plan may exist. kInvalid: see check().
Result<Plan> greedy(const Problem& problem);

}  // namespace gpusnap::balance
