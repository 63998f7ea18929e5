// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/balancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace gpusnap {
namespace {

constexpr uint64_t kBalancerZone = 64 << 10;
constexpr uint64_t kAFullDevice = 1000 * kBalancerZone;

class BalancerTest : public ::testing::Test {
 protected:
  // All lanes reach each other.
  void make(size_t lanes) {
    links_ = std::make_unique<balance::Problem>(lanes);
    std::ranges::fill(links_->host_bandwidth, uint64_t{1});
    for (size_t i = 0; i < lanes; ++i) {
      for (size_t j = 0; j < lanes; ++j) {
        if (i != j) links_->set_peer(i, j, 1'000'000'000);
      }
    }
    states_.resize(lanes);
    balancer_ = std::make_unique<Balancer>(Balancer::Source{[this] {
                                                              ++plans_;
                                                              return states_;
                                                            },
                                                            [this] { return *links_; }},
                                           *links_, kBalancerZone,
                                           [this](const Status& why) { error_ += why.message(); });
  }
  uint64_t take(size_t from, size_t to, uint64_t most = kAFullDevice) {
    return balancer_->take(from, to, most, now_);
  }

  std::unique_ptr<balance::Problem> links_;
  std::vector<LaneState> states_;
  std::unique_ptr<Balancer> balancer_;
  Balancer::Time now_{};
  int plans_ = 0;
  std::string error_;
};

TEST_F(BalancerTest, SharesAreGivenOutPieceByPiece) {
  make(2);
  states_ = {{kAFullDevice, 0, 0}, {0, 10 * kBalancerZone, 10 * kBalancerZone}};
  EXPECT_EQ(take(0, 1, 4 * kBalancerZone + 1), 4 * kBalancerZone) << "whole zones";
  EXPECT_EQ(take(0, 1), 6 * kBalancerZone);
  EXPECT_EQ(take(0, 1), 0U);
  EXPECT_EQ(take(1, 0), 0U);
  EXPECT_EQ(plans_, 1) << "not again so soon";
}

TEST_F(BalancerTest, IsPlannedAnewWhenSharesAreUsedUp) {
  make(2);
  states_ = {{kAFullDevice, 0, 0}, {0, 10 * kBalancerZone, 10 * kBalancerZone}};
  EXPECT_EQ(take(0, 1), 10 * kBalancerZone);
  states_[1].free = states_[1].room = 3 * kBalancerZone;  // the host has the others by now
  now_ += Balancer::kPlanInterval - std::chrono::nanoseconds(1);
  EXPECT_EQ(take(0, 1), 0U);
  now_ += std::chrono::seconds(10);  // however long the first plan took
  EXPECT_EQ(take(0, 1), 3 * kBalancerZone);
  EXPECT_EQ(plans_, 2);
}

TEST_F(BalancerTest, ALaneExpectsWhatIsOnItsWayAndWhatMayCome) {
  make(3);
  states_ = {{kAFullDevice, 0, 0}, {0, 10 * kBalancerZone, 10 * kBalancerZone}, {}};
  const uint64_t taken = take(0, 1);
  for (const size_t lane : {0, 2}) balancer_->leave(lane);
  EXPECT_TRUE(balancer_->expects(1));
  EXPECT_TRUE(balancer_->expects(0)) << "lane 1 may still send";
  balancer_->leave(1);
  EXPECT_FALSE(balancer_->expects(0));
  EXPECT_FALSE(balancer_->expects(2));
  EXPECT_TRUE(balancer_->expects(1)) << "it is on its way";
  balancer_->land(1, taken, taken - kBalancerZone);
  EXPECT_FALSE(balancer_->expects(1));
  EXPECT_EQ(balancer_->sent(), taken - kBalancerZone);
  EXPECT_EQ(take(0, 1), 0U) << "who has left sends nothing";
}

TEST_F(BalancerTest, ALaneOutOfReachIsNotExpected) {
  make(2);
  links_->set_peer(1, 0, 0);
  balancer_ = std::make_unique<Balancer>(
      Balancer::Source{[this] { return states_; }, [this] { return *links_; }}, *links_,
      kBalancerZone, [](const Status&) {});
  EXPECT_TRUE(balancer_->reaches(0, 1));
  EXPECT_FALSE(balancer_->reaches(1, 0));
  EXPECT_FALSE(balancer_->expects(0));
  EXPECT_TRUE(balancer_->expects(1));
}

TEST_F(BalancerTest, NothingBeginsOnceItIsStopped) {
  make(2);
  states_ = {{kAFullDevice, 0, 0}, {0, 10 * kBalancerZone, 10 * kBalancerZone}};
  const uint64_t taken = take(0, 1, kBalancerZone);
  balancer_->stop();
  EXPECT_EQ(take(0, 1), 0U);
  EXPECT_FALSE(balancer_->expects(0));
  EXPECT_TRUE(balancer_->expects(1));
  balancer_->land(1, taken, taken);
  EXPECT_FALSE(balancer_->expects(1));
}

TEST_F(BalancerTest, APlanThatFailsIsToldOnceAndNothingIsSent) {
  make(2);
  links_->host_bandwidth[0] = balance::kMaxBandwidth + 1;
  states_ = {{kAFullDevice, 0, 0}, {0, 10 * kBalancerZone, 10 * kBalancerZone}};
  EXPECT_EQ(take(0, 1), 0U);
  const std::string once = error_;
  EXPECT_FALSE(once.empty());
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(take(0, 1), 0U);
  EXPECT_EQ(error_, once);
  EXPECT_FALSE(balancer_->expects(1));
}

// Lanes act at random: no buffer is sent more than it has room for beside its own zones, everybody
// comes to an end, and the amounts that were sent add up.
TEST_F(BalancerTest, RandomSnapshotsKeepRoomForEachDevicesOwnZones) {
  std::mt19937_64 random(61);
  const auto below = [&](uint64_t bound) { return random() % bound; };
  for (int round = 0; round < 200; ++round) {
    struct Flight {
      size_t from, to;
      uint64_t taken, used;
    };
    const size_t count = 2 + below(4);
    make(count);
    std::vector<bool> left(count);
    std::vector<Flight> flights;
    uint64_t sent = 0;
    for (LaneState& lane : states_) {
      lane.room = lane.free = below(40) * kBalancerZone;
      lane.pending = below(80) * kBalancerZone;
    }
    while (!flights.empty() || std::ranges::count(left, false) != 0) {
      now_ += std::chrono::microseconds(below(400));
      const size_t from = below(count), to = below(count);
      LaneState& sender = states_[from];
      if (!flights.empty() && below(2) == 0) {
        const auto chosen = flights.begin() + static_cast<ptrdiff_t>(below(flights.size()));
        const Flight landed = *chosen;
        flights.erase(chosen);
        balancer_->land(landed.to, landed.taken, landed.used);
        sent += landed.used;
        // The host gets it.
        states_[landed.to].free += landed.used;
        states_[landed.to].room += landed.used;
      } else if (from != to) {
        const uint64_t taken = take(from, to, (1 + below(8)) * kBalancerZone);
        EXPECT_TRUE(taken == 0 || !left[from]);
        if (taken == 0) {
          // The host link gets on.
          sender.pending -= std::min(sender.pending, below(5) * kBalancerZone);
        } else {
          LaneState& receiver = states_[to];
          const uint64_t used = std::min(taken, sender.pending);
          ASSERT_GE(receiver.free, used);
          ASSERT_GE(receiver.room, receiver.pending + used);
          receiver.free -= used;
          receiver.room -= used;
          sender.pending -= used;
          flights.push_back({from, to, taken, used});
        }
      }
      const bool flies =
          std::ranges::any_of(flights, [&](const Flight& f) { return f.from == from; });
      if (sender.pending == 0 && !flies && !left[from]) {
        left[from] = true;
        balancer_->leave(from);
      }
    }
    for (size_t lane = 0; lane < count; ++lane) EXPECT_FALSE(balancer_->expects(lane));
    EXPECT_EQ(balancer_->sent(), sent);
  }
}

}  // namespace
}  // namespace gpusnap
