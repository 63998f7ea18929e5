// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/balance.h"

#include "tiers/balance/optimal.h"

namespace gpusnap::balance {

Result<Plan> balance(const Problem& problem) {
  return optimal(problem);
}

}  // namespace gpusnap::balance
