// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/read_slack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace gpusnap::history {
namespace {

ReadSlack::ReadTime times(const std::vector<int64_t>& of) {
  return [of](Version version) { return of.at(version); };
}

TEST(ReadSlack, AReadIsHiddenByTheComputationBeforeIt) {
  RestoreQueue queue;
  for (const Version version : {0, 1, 2}) queue.hint(version);
  const ReadSlack slack(queue, 10, times({0, 0, 0}));
  EXPECT_FALSE(slack.hides(0, 1));
  EXPECT_TRUE(slack.hides(1, 10));
  EXPECT_FALSE(slack.hides(1, 11));
  EXPECT_TRUE(slack.hides(2, 20));
  EXPECT_FALSE(slack.hides(3, 0)) << "it is not hinted";
}

TEST(ReadSlack, AReadDelaysThoseBehindIt) {
  RestoreQueue queue;
  for (const Version version : {0, 1, 2, 3}) queue.hint(version);
  const ReadSlack slack(queue, 10, times({0, 0, 0, 25}));
  EXPECT_TRUE(slack.hides(1, 5));
  EXPECT_FALSE(slack.hides(1, 6));
}

TEST(ReadSlack, LooksAtSoManyHints) {
  RestoreQueue queue;
  const auto far = static_cast<Version>(ReadSlack::kMostHints);
  for (Version version = 0; version <= far; ++version) queue.hint(version);
  const ReadSlack slack(queue, 10, [](Version) { return int64_t{1}; });
  EXPECT_TRUE(slack.hides(far - 1, 1));
  EXPECT_FALSE(slack.hides(far, 1));
}

// For how long the application waits for each checkpoint, in the order of the queue.
std::vector<int64_t> waits(const std::vector<int64_t>& read_ns, int64_t pace_ns) {
  std::vector<int64_t> waited;
  int64_t now = 0, read = 0;
  for (size_t at = 0; at < read_ns.size(); ++at) {
    if (at != 0) now += pace_ns;
    read += read_ns[at];
    waited.push_back(read_ns[at] == 0 ? 0 : std::max<int64_t>(read - now, 0));
    now += waited.back();
  }
  return waited;
}

int64_t sum(const std::vector<int64_t>& of) {
  int64_t all = 0;
  for (const int64_t each : of) all += each;
  return all;
}

TEST(ReadSlack, WhatIsHiddenLengthensNoWait) {
  std::mt19937_64 random(7);
  int hidden = 0, shown = 0;
  for (int round = 0; round < 20000; ++round) {
    RestoreQueue queue;
    std::vector<int64_t> read_ns;
    for (Version version = 0; version < 2 + random() % 8; ++version) {
      queue.hint(version);
      read_ns.push_back(random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % 12));
    }
    const auto pace_ns = static_cast<int64_t>(random() % 12);
    const ReadSlack slack(queue, pace_ns, times(read_ns));
    const size_t chosen = random() % read_ns.size();
    if (read_ns[chosen] != 0) continue;
    std::vector<int64_t> more = read_ns;
    more[chosen] = 1 + static_cast<int64_t>(random() % 12);
    const int64_t before = sum(waits(read_ns, pace_ns)), after = sum(waits(more, pace_ns));
    if (slack.hides(chosen, more[chosen])) {
      ++hidden;
      EXPECT_EQ(before, after) << "seed 7, round " << round;
    } else if (before == 0) {
      ++shown;
      EXPECT_LT(0, after) << "seed 7, round " << round;
    }
  }
  EXPECT_GT(hidden, 1000);
  EXPECT_GT(shown, 1000);
}

}  // namespace
}  // namespace gpusnap::history
