// SPDX-License-Identifier: Apache-2.0
//
// Problems for tests of load balancing, and what every plan has to hold.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "tiers/balance/plan.h"
#include "tiers/balance/problem.h"

namespace gpusnap::test {

inline constexpr uint64_t kMb = 1'000'000;
inline constexpr uint64_t kGbPerSecond = 1'000'000'000;

// The example of slide 46: links of a DGX-1V, in part.
balance::Problem golden_problem();

// A problem of 2 to 8 devices with links of several speeds, some missing. Each device has a link to
// the host unless `hosts` is false; then most have none.
balance::Problem random_problem(std::mt19937_64& random, bool hosts = true);

// The plan's fault; empty if there is none: every remainder is sent, no spare memory is
// exceeded, and flows are ordered and use links that exist.
std::string fault(const balance::Problem& problem, const balance::Plan& plan);

}  // namespace gpusnap::test
