// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/problem.h"

#include <gtest/gtest.h>

#include <functional>

#include "cases.h"
#include "tiers/balance/balance.h"
#include "tiers/balance/greedy.h"
#include "tiers/balance/min_time.h"

namespace gpusnap::balance {
namespace {

// Every function refuses it, with the word in its message.
void expect_invalid(const std::function<void(Problem&)>& change, const std::string& word) {
  Problem problem = test::golden_problem();
  change(problem);
  const Result<Plan> plans[] = {baseline(problem), greedy(problem), min_time(problem),
                                balance(problem)};
  for (const Result<Plan>& plan : plans) {
    ASSERT_FALSE(plan.ok()) << word;
    EXPECT_EQ(plan.status().code(), Code::kInvalid);
    EXPECT_NE(plan.status().message().find(word), std::string::npos) << plan.status().message();
  }
}

TEST(Problem, WhatMakesNoSenseIsRefused) {
  expect_invalid([](Problem& problem) { problem.spare[6] = 1; }, "device 6 has both");
  expect_invalid([](Problem& problem) { problem.set_peer(3, 3, 1); },
                 "device 3 has a link to itself");
  expect_invalid([](Problem& problem) { problem.spare.pop_back(); }, "different numbers");
  expect_invalid([](Problem& problem) { problem.peer_bandwidth.pop_back(); }, "different numbers");
  expect_invalid([](Problem& problem) { problem.remainders[0] = kMaxBytes + 1; }, "256 TiB");
  expect_invalid([](Problem& problem) { problem.set_peer(0, 1, kMaxBandwidth + 1); }, "faster");
  expect_invalid([](Problem& problem) { problem = Problem(kMaxDevices + 1); }, "65 devices");
}

TEST(Problem, TheGreatestValuesAreTaken) {
  Problem problem(kMaxDevices);
  for (size_t i = 0; i < kMaxDevices; ++i) {
    (i % 2 == 0 ? problem.remainders : problem.spare)[i] = kMaxBytes;
    problem.host_bandwidth[i] = kMaxBandwidth;
    for (size_t j = 0; j < kMaxDevices; ++j) {
      if (i != j) problem.set_peer(i, j, kMaxBandwidth);
    }
  }
  const Result<Plan> plan = balance(problem);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(test::fault(problem, plan.value()), "");
  EXPECT_NEAR(seconds(problem, plan.value()), 1.0 / 33, 1e-9);
}

}  // namespace
}  // namespace gpusnap::balance
