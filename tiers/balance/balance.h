// SPDX-License-Identifier: Apache-2.0
//
// Load balancing over the devices of a node, as the product does it: where checkpoints go that are
// larger than the memory set aside for them. See problem.h and plan.h. Pure logic; any thread may
// call it.
#pragma once

#include "tiers/balance/plan.h"
#include "tiers/balance/problem.h"
#include "tiers/status.h"

namespace gpusnap::balance {

// The plan of optimal(). It is exact, and its time does not depend on how many bytes there are;
// min_time() takes one search for each megabyte. `scripts/bench balance` compares them.
//
// kNoSpace: no plan exists; the message names the devices. kInvalid: see check().
Result<Plan> balance(const Problem& problem);

}  // namespace gpusnap::balance
