// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/peer_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tiers/balance/problem.h"

namespace gpusnap {
namespace {

constexpr uint64_t kPlanZone = 64 << 10;
constexpr uint64_t kPlanMb = 1'000'000;
constexpr uint64_t kPlanGb = 1'000'000'000;

balance::Problem links_to_host(size_t lanes, uint64_t bandwidth) {
  balance::Problem links(lanes);
  std::ranges::fill(links.host_bandwidth, bandwidth);
  return links;
}

// The case of slide 46: devices 0, 1, 4 and 6 of a DGX-1V.
TEST(PeerPlan, IsTheShortestOne) {
  balance::Problem links = links_to_host(4, 12 * kPlanGb);
  links.set_peer(0, 1, 24 * kPlanGb);
  links.set_peer(0, 2, 48 * kPlanGb);
  links.set_peer(3, 2, 24 * kPlanGb);
  const std::vector<LaneState> lanes = {{1000 * kPlanMb, 520 * kPlanMb, 0},
                                        {60 * kPlanMb, 200 * kPlanMb, 200 * kPlanMb},
                                        {0, 480 * kPlanMb, 480 * kPlanMb},
                                        {740 * kPlanMb, 500 * kPlanMb, 100 * kPlanMb}};
  const Result<PeerShares> shares = plan_shares(links, lanes, kPlanZone);
  ASSERT_TRUE(shares.ok()) << shares.status().message();
  const auto expect_close = [&](size_t from, size_t to, double mb) {
    EXPECT_NEAR(static_cast<double>(shares->of(from, to)) / 1e6, mb, 1) << from << " to " << to;
    EXPECT_EQ(shares->of(from, to) % kPlanZone, 0U);
  };
  expect_close(0, 1, 137.1);
  expect_close(0, 2, 274.3);
  expect_close(3, 2, 160);
  EXPECT_EQ(shares->sum(0), shares->of(0, 1) + shares->of(0, 2));
  EXPECT_EQ(shares->sum(1) + shares->sum(2), 0U);
}

TEST(PeerPlan, ALaneWhoseZonesFitIntoItsBufferSendsNothing) {
  balance::Problem links = links_to_host(2, kPlanGb);
  links.set_peer(0, 1, 100 * kPlanGb);
  const std::vector<LaneState> lanes = {{64 * kPlanZone, 64 * kPlanZone, 0},
                                        {0, 64 * kPlanZone, 64 * kPlanZone}};
  const Result<PeerShares> shares = plan_shares(links, lanes, kPlanZone);
  ASSERT_TRUE(shares.ok());
  EXPECT_EQ(shares->sum(0), 0U);
}

TEST(PeerPlan, BlocksThatAreStillToComeAreRoomForThePeersOwnZonesAlone) {
  balance::Problem links = links_to_host(2, 1);
  links.set_peer(0, 1, 100 * kPlanGb);
  const LaneState full{1000 * kPlanZone, 0, 0};
  const auto sent_to = [&](const LaneState& peer) {
    return plan_shares(links, std::vector<LaneState>{full, peer}, kPlanZone).value().of(0, 1) /
           kPlanZone;
  };
  EXPECT_EQ(sent_to({0, 64 * kPlanZone, 0}), 0U) << "nothing is there yet";
  EXPECT_EQ(sent_to({0, 64 * kPlanZone, 16 * kPlanZone}), 16U);
  EXPECT_EQ(sent_to({56 * kPlanZone, 64 * kPlanZone, 16 * kPlanZone}), 8U)
      << "the peer needs the rest itself";
  EXPECT_EQ(sent_to({64 * kPlanZone, 64 * kPlanZone, 64 * kPlanZone}), 0U);
}

TEST(PeerPlan, WhatCannotBePlannedIsAnError) {
  const size_t lanes = balance::kMaxDevices + 1;
  EXPECT_EQ(plan_shares(links_to_host(lanes, kPlanGb), std::vector<LaneState>(lanes), kPlanZone)
                .status()
                .code(),
            Code::kInvalid);
}

TEST(PeerPlan, NoPeerIsSentMoreThanItHasToSpareAndNoLaneSendsMoreThanItsRemainder) {
  std::mt19937_64 random(46);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  for (int round = 0; round < 500; ++round) {
    const size_t count = 2 + below(7);
    balance::Problem links = links_to_host(count, kPlanGb);
    std::vector<LaneState> lanes;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t room = below(200) * kPlanZone;
      lanes.push_back({below(300) * kPlanZone, room, std::min(room, below(200) * kPlanZone)});
      for (size_t j = 0; j < count; ++j) {
        if (i != j && below(3) != 0) links.set_peer(i, j, (1 + below(50)) * kPlanGb);
      }
    }
    const Result<PeerShares> shares = plan_shares(links, lanes, kPlanZone);
    ASSERT_TRUE(shares.ok()) << shares.status().message();
    for (size_t i = 0; i < count; ++i) {
      uint64_t received = 0;
      for (size_t j = 0; j < count; ++j) {
        received += shares->of(j, i);
        EXPECT_TRUE(links.peer(i, j) != 0 || shares->of(i, j) == 0);
      }
      const LaneState& lane = lanes[i];
      EXPECT_LE(received, lane.free);
      EXPECT_TRUE(received == 0 || received + lane.pending <= lane.room);
      EXPECT_LE(shares->sum(i), lane.pending > lane.room ? lane.pending - lane.room : 0);
    }
  }
}

}  // namespace
}  // namespace gpusnap
