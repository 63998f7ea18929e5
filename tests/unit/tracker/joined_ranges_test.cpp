// SPDX-License-Identifier: Apache-2.0
#include "tracker/joined_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace gpusnap {
namespace {

constexpr uint64_t kGap = JoinedRanges::kGap;
using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

Ranges joined(const Ranges& added) {
  JoinedRanges ranges;
  for (const auto& [address, size] : added) ranges.add(address, size);
  return {ranges.begin(), ranges.end()};
}

TEST(JoinedRanges, WhatNearlyTouchesIsOne) {
  EXPECT_EQ(joined({{1000, 4}, {1004, 4}}), (Ranges{{1000, 8}}));
  EXPECT_EQ(joined({{1000, 4}, {1004 + kGap, 4}}), (Ranges{{1000, 8 + kGap}}));
  EXPECT_EQ(joined({{1000, 4}, {1005 + kGap, 4}}), (Ranges{{1000, 4}, {1005 + kGap, 4}}));
  EXPECT_EQ(joined({{1000, 100}, {1010, 4}}), (Ranges{{1000, 100}}));
  EXPECT_EQ(joined({{1000, 4}, {2000, 4}, {900, 1200}}), (Ranges{{900, 1200}}));
}

// Against a map of bytes, in any order.
TEST(JoinedRanges, RandomRangesAreAllThereAndNothingElse) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    constexpr uint64_t kSpace = 20'000;
    std::vector<bool> wanted(kSpace + kGap + 200);
    JoinedRanges ranges;
    for (int i = 0; i < 30; ++i) {
      const uint64_t address = random() % kSpace, size = 1 + random() % 100;
      ranges.add(address, size);
      for (uint64_t at = address; at < address + size; ++at) wanted[at] = true;
    }
    // Gaps that are short are closed.
    for (uint64_t at = 0, last = 0; at < wanted.size(); ++at) {
      if (!wanted[at]) continue;
      for (uint64_t gap = last; last != 0 && at - last <= kGap && gap < at; ++gap) {
        wanted[gap] = true;
      }
      last = at + 1;
    }
    std::vector<bool> found(wanted.size());
    for (const auto& [address, size] : ranges) {
      for (uint64_t at = address; at < address + size; ++at) found[at] = true;
    }
    EXPECT_EQ(found, wanted);
  }
}

}  // namespace
}  // namespace gpusnap
