// SPDX-License-Identifier: Apache-2.0
//
// Random problems: schedules compared with each other and with the optimum by other means.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "cases.h"
#include "optimum.h"
#include "tiers/balance/greedy.h"
#include "tiers/balance/min_time.h"
#include "tiers/balance/optimal.h"

namespace gpusnap::balance {
namespace {

using test::fault;
using test::random_problem;

constexpr int kCases = CASES;  // fewer under sanitizers
constexpr double kRounding = 1e-12;

uint64_t bandwidth(const Problem& problem, const Flow& flow) {
  return flow.to == kHost ? problem.host_bandwidth[flow.from] : problem.peer(flow.from, flow.to);
}

const Flow& slowest(const Problem& problem, const Plan& plan) {
  return *std::max_element(plan.flows.begin(), plan.flows.end(), [&](const Flow& a, const Flow& b) {
    return static_cast<double>(a.bytes) / static_cast<double>(bandwidth(problem, a)) <
           static_cast<double>(b.bytes) / static_cast<double>(bandwidth(problem, b));
  });
}

// The time by which whole bytes may exceed fractions of bytes: less than a byte on the slowest
// link.
double byte_seconds(const Problem& problem, const Plan& plan) {
  double most = 0;
  for (const Flow& flow : plan.flows) {
    most = std::max(most, 1 / static_cast<double>(bandwidth(problem, flow)));
  }
  return most;
}

TEST(Random, OptimalPlansAreValidAndTheShortest) {
  std::mt19937_64 random(1);
  int with_flows = 0;
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE(i);
    const Problem problem = random_problem(random);
    const Result<Plan> plan = optimal(problem);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ASSERT_EQ(fault(problem, plan.value()), "");
    const double ours = seconds(problem, plan.value());
    ASSERT_LE(ours, seconds(problem, baseline(problem).value()));
    ASSERT_LE(ours, seconds(problem, greedy(problem).value()));
    if (plan->flows.empty()) continue;
    ++with_flows;
    const Flow& last = slowest(problem, plan.value());
    ASSERT_TRUE(test::is_least(problem, last.bytes, bandwidth(problem, last)));
    const double least = test::least_seconds(problem).value();
    ASSERT_GE(ours, least * (1 - kRounding));
    ASSERT_LE(ours, least * (1 + kRounding) + byte_seconds(problem, plan.value()));
  }
  EXPECT_GT(with_flows, kCases / 2);
}

// Two units on the slowest link of all.
double two_units(const Problem& problem, uint64_t unit) {
  uint64_t slowest = kMaxBandwidth;
  for (const auto* links : {&problem.host_bandwidth, &problem.peer_bandwidth}) {
    for (const uint64_t link : *links) slowest = link == 0 ? slowest : std::min(slowest, link);
  }
  return 2 * static_cast<double>(unit) / static_cast<double>(slowest);
}

void expect_two_units_more_at_most(const Problem& problem, uint64_t unit) {
  const Result<Plan> plan = min_time(problem, unit);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(fault(problem, plan.value()), "");
  ASSERT_LE(seconds(problem, plan.value()),
            test::least_seconds(problem).value() + two_units(problem, unit));
}

// Units of a hundredth of the bytes, so that there are a hundred of them whatever the problem.
TEST(Random, MinTimePlansAreValidAndAtMostTwoUnitsLonger) {
  std::mt19937_64 random(2);
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE(i);
    const Problem problem = random_problem(random);
    const uint64_t total =
        std::accumulate(problem.remainders.begin(), problem.remainders.end(), uint64_t{0});
    ASSERT_NO_FATAL_FAILURE(
        expect_two_units_more_at_most(problem, std::max<uint64_t>(1, total / 100)));
  }
}

// As above, with the unit of the paper. Fewer cases: each has hundreds of units.
TEST(Random, MinTimePlansOfMegabytesAreValidAndAtMostTwoUnitsLonger) {
  std::mt19937_64 random(3);
  for (int i = 0; i < kCases / 100; ++i) {
    SCOPED_TRACE(i);
    ASSERT_NO_FATAL_FAILURE(expect_two_units_more_at_most(random_problem(random), kUnit));
  }
}

// A byte is the unit here.
TEST(Random, MinTimePlansOfWholeUnitsAreTheShortest) {
  std::mt19937_64 random(6);
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE(i);
    Problem problem = random_problem(random);
    for (uint64_t& remainder : problem.remainders) remainder %= 40;
    for (uint64_t& spare : problem.spare) spare %= 40;
    const Result<Plan> plan = min_time(problem, 1);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    ASSERT_EQ(fault(problem, plan.value()), "");
    ASSERT_EQ(seconds(problem, plan.value()), seconds(problem, optimal(problem).value()));
  }
}

TEST(Random, WithoutLinksToTheHostAPlanIsFoundWheneverThereIsOne) {
  std::mt19937_64 random(4);
  int refused = 0;
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE(i);
    const Problem problem = random_problem(random, false);
    const bool is_possible = test::least_seconds(problem).has_value();
    const Result<Plan> exact = optimal(problem);
    ASSERT_EQ(exact.ok(), is_possible);
    if (exact.ok()) {
      ASSERT_EQ(fault(problem, exact.value()), "");
    }
    if (i % 10 == 0) {
      const Result<Plan> by_units = min_time(problem, 10 * kUnit);
      ASSERT_EQ(by_units.ok(), is_possible);
      if (by_units.ok()) {
        ASSERT_EQ(fault(problem, by_units.value()), "");
      }
    }
    refused += is_possible ? 0 : 1;
  }
  EXPECT_GT(refused, kCases / 10);
  EXPECT_LT(refused, kCases * 9 / 10);
}

// Few bytes and slow links: every plan is tried.
TEST(Random, SmallProblemsByBruteForce) {
  std::mt19937_64 random(5);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  for (int i = 0; i < kCases / 5; ++i) {
    SCOPED_TRACE(i);
    Problem problem(4);
    for (size_t device = 0; device < 4; ++device) {
      (device < 2 ? problem.remainders : problem.spare)[device] = below(6);
      problem.host_bandwidth[device] = below(3);
      for (size_t peer = 2; device < 2 && peer < 4; ++peer)
        problem.set_peer(device, peer, below(4));
    }
    const std::optional<double> tried = test::tried_seconds(problem);
    const Result<Plan> plan = optimal(problem);
    ASSERT_EQ(plan.ok(), tried.has_value());
    if (!plan.ok()) continue;
    ASSERT_EQ(fault(problem, plan.value()), "");
    ASSERT_EQ(seconds(problem, plan.value()), *tried);
    const Result<Plan> by_bytes = min_time(problem, 1);
    ASSERT_TRUE(by_bytes.ok());
    ASSERT_EQ(seconds(problem, by_bytes.value()), *tried);
  }
}

}  // namespace
}  // namespace gpusnap::balance
