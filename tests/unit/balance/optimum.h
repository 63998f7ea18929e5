// SPDX-License-Identifier: Apache-2.0
//
// The optimum of a balancing problem by other means than the algorithms under test: duality over
// all cuts, and brute force.
#pragma once

#include <optional>

#include "tiers/balance/problem.h"

namespace gpusnap::test {

// The least time of any plan, in seconds, if bytes could be divided; none: no plan exists. By
// linear duality it is the greatest, over all sets of devices, of what the senders of the set have
// beyond the memory of its receivers, by the bandwidth that leads out of the set. Takes 2^n steps.
std::optional<double> least_seconds(const balance::Problem& problem);

// No plan of whole bytes takes less than `bytes / bandwidth` seconds: some set of devices cannot
// let its bytes out sooner.
bool is_least(const balance::Problem& problem, uint64_t bytes, uint64_t bandwidth);

// The least time over all plans of whole bytes, each of which is tried; none: no plan exists.
std::optional<double> tried_seconds(const balance::Problem& problem);

}  // namespace gpusnap::test
