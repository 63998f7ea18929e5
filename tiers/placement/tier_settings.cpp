// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/tier_settings.h"

#include <array>

namespace gpusnap {

namespace {

constexpr std::array<PlacementPolicy, 4> kPolicies = {
    PlacementPolicy::kCacheOnly, PlacementPolicy::kSsdOnly, PlacementPolicy::kHybridNaive,
    PlacementPolicy::kHybridOpt};

}  // namespace

const char* name_of(PlacementPolicy policy) {
  switch (policy) {
    case PlacementPolicy::kCacheOnly:
      return "cache-only";
    case PlacementPolicy::kSsdOnly:
      return "ssd-only";
    case PlacementPolicy::kHybridNaive:
      return "hybrid-naive";
    case PlacementPolicy::kHybridOpt:
      break;
  }
  return "hybrid-opt";
}

std::optional<PlacementPolicy> parse_policy(std::string_view name) {
  for (const PlacementPolicy policy : kPolicies) {
    if (name == name_of(policy)) return policy;
  }
  return std::nullopt;
}

}  // namespace gpusnap
