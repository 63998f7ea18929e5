// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/balance.h"

#include <gtest/gtest.h>

#include <functional>

#include "cases.h"
#include "tiers/balance/min_time.h"
#include "tiers/balance/optimal.h"

namespace gpusnap::balance {
namespace {

using test::fault;
using test::golden_problem;
using test::kGbPerSecond;
using test::kMb;

uint64_t bytes(const Plan& plan, size_t from, size_t to) {
  for (const Flow& flow : plan.flows) {
    if (flow.from == from && flow.to == to) return flow.bytes;
  }
  return 0;
}

// Bytes in whole megabytes, as slide 46 has them.
uint64_t megabytes(const Plan& plan, size_t from, size_t to) {
  return bytes(plan, from, to) / kMb;
}

TEST(MinTime, TheExampleOfTheSlides) {
  const Problem problem = golden_problem();
  const Result<Plan> plan = min_time(problem);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->flows, (std::vector<Flow>{{0, 1, 137 * kMb},
                                            {0, 4, 275 * kMb},
                                            {0, kHost, 68 * kMb},
                                            {6, 4, 160 * kMb},
                                            {6, kHost, 80 * kMb}}));
  EXPECT_NEAR(seconds(problem, plan.value()) * 1e3, 6.667, 0.001);
}

TEST(Optimal, TheExampleOfTheSlides) {
  const Problem problem = golden_problem();
  const Result<Plan> plan = optimal(problem);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(fault(problem, plan.value()), "");
  EXPECT_DOUBLE_EQ(seconds(problem, plan.value()), 0.02 / 3);
  EXPECT_EQ(bytes(plan.value(), 6, 4), 160 * kMb);
  EXPECT_EQ(bytes(plan.value(), 6, kHost), 80 * kMb);
  // Device 0 does not decide about the time, and is done sooner: after 480 MB / 84 GB/s.
  EXPECT_EQ(megabytes(plan.value(), 0, 1), 137);
  EXPECT_EQ(megabytes(plan.value(), 0, 4), 274);
  EXPECT_EQ(megabytes(plan.value(), 0, kHost), 68);
}

TEST(MinTime, BytesAreTakenBackFromAPeerThatAnotherDeviceNeeds) {
  // Device 0 fills device 2 first, because that is its faster link. Device 1 has no other peer.
  Problem problem(4);
  problem.remainders = {60 * kMb, 60 * kMb, 0, 0};
  problem.spare = {0, 0, 60 * kMb, 60 * kMb};
  problem.host_bandwidth = {kGbPerSecond, kGbPerSecond, 0, 0};
  problem.set_peer(0, 2, 100 * kGbPerSecond);
  problem.set_peer(0, 3, 50 * kGbPerSecond);
  problem.set_peer(1, 2, 40 * kGbPerSecond);
  for (const Result<Plan>& plan : {min_time(problem), optimal(problem)}) {
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(fault(problem, plan.value()), "");
    EXPECT_NEAR(seconds(problem, plan.value()), 60.0 / 41e3, 2e-5);
    EXPECT_GE(megabytes(plan.value(), 1, 2), 58);
  }
}

// ---- Degenerate inputs: both algorithms agree about each.

using Solver = std::function<Result<Plan>(const Problem&)>;

class Degenerate : public testing::TestWithParam<bool> {
 protected:
  static Result<Plan> solve(const Problem& problem) {
    return GetParam() ? optimal(problem) : min_time(problem);
  }
  static std::vector<Flow> flows(const Problem& problem) {
    const Result<Plan> plan = solve(problem);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? plan->flows : std::vector<Flow>();
  }
  static std::string refusal(const Problem& problem) {
    const Result<Plan> plan = solve(problem);
    EXPECT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), Code::kNoSpace);
    return plan.status().message();
  }
};

INSTANTIATE_TEST_SUITE_P(Solvers, Degenerate, testing::Values(true, false),
                         [](const auto& tested) { return tested.param ? "Optimal" : "MinTime"; });

TEST_P(Degenerate, NoDevices) {
  EXPECT_TRUE(flows(Problem(0)).empty());
}

TEST_P(Degenerate, NoRemainders) {
  Problem problem = golden_problem();
  problem.remainders.assign(8, 0);
  EXPECT_TRUE(flows(problem).empty());
}

TEST_P(Degenerate, OneDeviceAlone) {
  Problem problem(1);
  problem.remainders = {5 * kMb + 1};
  problem.host_bandwidth = {kGbPerSecond};
  EXPECT_EQ(flows(problem), (std::vector<Flow>{{0, kHost, 5 * kMb + 1}}));
}

TEST_P(Degenerate, NoPeerHasRoom) {
  Problem problem = golden_problem();
  problem.spare.assign(8, 0);
  EXPECT_EQ(flows(problem), (std::vector<Flow>{{0, kHost, 480 * kMb}, {6, kHost, 240 * kMb}}));
}

TEST_P(Degenerate, NoLinksBetweenPeers) {
  Problem problem = golden_problem();
  problem.peer_bandwidth.assign(64, 0);
  EXPECT_EQ(flows(problem), (std::vector<Flow>{{0, kHost, 480 * kMb}, {6, kHost, 240 * kMb}}));
}

TEST_P(Degenerate, NoLinkToTheHostAndJustEnoughRoom) {
  // By whole units there would be too little room.
  Problem problem(3);
  problem.remainders = {3 * kMb / 2 + 1, 0, 0};
  problem.spare = {0, kMb / 2, kMb + 1};
  problem.set_peer(0, 1, kGbPerSecond);
  problem.set_peer(0, 2, kGbPerSecond);
  EXPECT_EQ(flows(problem), (std::vector<Flow>{{0, 1, kMb / 2}, {0, 2, kMb + 1}}));
}

TEST_P(Degenerate, NoLinkAtAllIsRefusedByName) {
  Problem problem = golden_problem();
  problem.host_bandwidth.assign(8, 0);
  problem.set_peer(6, 4, 0);
  problem.remainders[0] = 0;
  EXPECT_EQ(
      refusal(problem),
      "device 6: no room for 240000000 bytes on the peers within reach, and no link to the host");
}

TEST_P(Degenerate, NoLinkToTheHostAndTooLittleRoomIsRefusedByName) {
  // Both share device 4, and what device 1 has is too little.
  Problem problem = golden_problem();
  problem.host_bandwidth.assign(8, 0);
  EXPECT_EQ(refusal(problem),
            "devices 0, 6: no room for 100000000 bytes on the peers within reach, "
            "and no link to the host");
}

}  // namespace
}  // namespace gpusnap::balance
