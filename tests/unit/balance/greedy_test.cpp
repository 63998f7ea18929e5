// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/greedy.h"

#include <gtest/gtest.h>

#include "cases.h"

namespace gpusnap::balance {
namespace {

using test::golden_problem;
using test::kGbPerSecond;
using test::kMb;

TEST(Baseline, AllGoesToTheHost) {
  const Result<Plan> plan = baseline(golden_problem());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->flows, (std::vector<Flow>{{0, kHost, 480 * kMb}, {6, kHost, 240 * kMb}}));
  EXPECT_DOUBLE_EQ(seconds(golden_problem(), plan.value()), 0.040);
}

TEST(Greedy, TheGreatestRemainderGetsTheFastestPeer) {
  const Result<Plan> plan = greedy(golden_problem());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->flows, (std::vector<Flow>{{0, 4, 480 * kMb}, {6, kHost, 240 * kMb}}));
  EXPECT_DOUBLE_EQ(seconds(golden_problem(), plan.value()), 0.020);
}

TEST(Greedy, APeerIsGivenNoMoreThanItHasRoomFor) {
  Problem problem(3);
  problem.remainders = {100, 0, 0};
  problem.spare = {0, 30, 50};
  problem.host_bandwidth = {1, 1, 1};
  problem.set_peer(0, 1, 2);
  problem.set_peer(0, 2, 2);
  const Result<Plan> plan = greedy(problem);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->flows, (std::vector<Flow>{{0, 1, 30}, {0, 2, 50}, {0, kHost, 20}}));
}

TEST(Greedy, ItMayFindNoPlanWhereThereIsOne) {
  Problem problem(4);
  problem.remainders = {20, 10, 0, 0};
  problem.spare = {0, 0, 10, 20};
  problem.set_peer(0, 2, 2 * kGbPerSecond);
  problem.set_peer(0, 3, kGbPerSecond);
  problem.set_peer(1, 2, kGbPerSecond);
  const Result<Plan> plan = greedy(problem);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::kNoSpace);
  EXPECT_NE(plan.status().message().find("device 1: no room for 10 bytes"), std::string::npos)
      << plan.status().message();
}

TEST(Baseline, ADeviceWithoutALinkToTheHostIsNamed) {
  Problem problem = golden_problem();
  problem.host_bandwidth[6] = 0;
  const Result<Plan> plan = baseline(problem);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::kNoSpace);
  EXPECT_NE(plan.status().message().find("device 6:"), std::string::npos);
}

}  // namespace
}  // namespace gpusnap::balance
