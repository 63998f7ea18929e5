// SPDX-License-Identifier: Apache-2.0
//
// Links read from a stand-in for a driver.
#include "interpose/device/topology.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

namespace gpusnap {
namespace {

using balance::kHost;
using Pair = std::pair<size_t, size_t>;

constexpr double kLatency = 1e-5;
constexpr uint64_t kGb = 1'000'000'000;

// Devices whose links have these bandwidths; a pair without one is not reachable.
class StandIn : public DeviceLinks {
 public:
  explicit StandIn(size_t devices) : devices_(devices) {}

  Result<size_t> count_devices() override { return devices_; }
  Result<PeerFacts> facts(size_t from, size_t to) override {
    if (fails_to_tell) return Status(Code::kIo, "no facts");
    const auto found = peers.find({from, to});
    if (found == peers.end()) return PeerFacts{};
    return PeerFacts{true, ranks[found->second]};
  }
  Result<double> time_copy(size_t from, size_t to, uint64_t bytes) override {
    ++copies[{from, to}];
    if (broken.count({from, to}) > 0) return Status(Code::kIo, "no copy");
    const uint64_t bandwidth = to == kHost ? host : peers.at({from, to});
    // Every second copy finds the link in use.
    const double busy = copies[{from, to}] % 2 == 1 ? 1e-3 : 0;
    return kLatency + busy + static_cast<double>(bytes) / static_cast<double>(bandwidth);
  }

  std::map<Pair, uint64_t> peers;  // bytes per second
  std::map<uint64_t, int> ranks;   // of bandwidths
  uint64_t host = 12 * kGb;
  std::set<Pair> broken;
  bool fails_to_tell = false;
  std::map<Pair, int> copies;

 private:
  size_t devices_;
};

// 0 and 1 with a double link, 1 and 2 with a single one.
StandIn three_devices() {
  StandIn driver(3);
  driver.peers = {{{0, 1}, 48 * kGb}, {{1, 0}, 48 * kGb}, {{1, 2}, 24 * kGb}, {{2, 1}, 24 * kGb}};
  driver.ranks = {{48 * kGb, 0}, {24 * kGb, 1}};
  return driver;
}

void expect_near(uint64_t expected, uint64_t bandwidth) {
  EXPECT_NEAR(static_cast<double>(expected), static_cast<double>(bandwidth),
              1e-6 * static_cast<double>(expected));
}

void expect_three_devices(const balance::Problem& found) {
  ASSERT_EQ(found.devices(), 3);
  for (const uint64_t host : found.host_bandwidth) expect_near(12 * kGb, host);
  expect_near(48 * kGb, found.peer(0, 1));
  expect_near(48 * kGb, found.peer(1, 0));
  expect_near(24 * kGb, found.peer(1, 2));
  expect_near(24 * kGb, found.peer(2, 1));
  for (const Pair& none : {Pair{0, 0}, Pair{1, 1}, Pair{2, 2}, Pair{0, 2}, Pair{2, 0}}) {
    EXPECT_EQ(found.peer(none.first, none.second), 0);
  }
  EXPECT_TRUE(balance::check(found).ok());
}

TEST(Topology, EachLinkIsMeasured) {
  StandIn driver = three_devices();
  const Result<Topology> topology = read_topology(driver, MeasuredLinks::kEach);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  expect_three_devices(topology->bandwidths);
  EXPECT_TRUE(topology->left_out.empty());
  EXPECT_EQ(driver.copies.size(), 3 + 4);
}

TEST(Topology, OneLinkOfEachRankIsMeasured) {
  StandIn driver = three_devices();
  const Result<Topology> topology = read_topology(driver, MeasuredLinks::kOneOfEachRank);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  expect_three_devices(topology->bandwidths);
  EXPECT_EQ(driver.copies.size(), 3 + 2);
}

TEST(Topology, ALinkThatCannotBeMeasuredIsLeftOut) {
  StandIn driver = three_devices();
  driver.broken = {{1, 0}, {2, kHost}};
  const Result<Topology> topology = read_topology(driver, MeasuredLinks::kEach);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(topology->bandwidths.peer(1, 0), 0);
  EXPECT_EQ(topology->bandwidths.host_bandwidth[2], 0);
  expect_near(48 * kGb, topology->bandwidths.peer(0, 1));
  EXPECT_EQ(topology->left_out.size(), 2);
}

TEST(Topology, AnotherLinkOfTheRankIsMeasuredIfTheFirstCannotBe) {
  StandIn driver = three_devices();
  driver.broken = {{0, 1}};
  const Result<Topology> topology = read_topology(driver, MeasuredLinks::kOneOfEachRank);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(topology->bandwidths.peer(0, 1), 0);
  expect_near(48 * kGb, topology->bandwidths.peer(1, 0));
  EXPECT_EQ(topology->left_out.size(), 1);
}

TEST(Topology, TimesThatMakeNoSenseAreRefused) {
  class Timeless : public StandIn {
   public:
    Timeless() : StandIn(1) {}
    Result<double> time_copy(size_t, size_t, uint64_t) override { return kLatency; }
  } driver;
  const Result<Topology> topology = read_topology(driver, MeasuredLinks::kEach);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(topology->bandwidths.host_bandwidth[0], 0);
  ASSERT_EQ(topology->left_out.size(), 1);
  EXPECT_NE(topology->left_out[0].message().find("from device 0 to the host"), std::string::npos);
}

TEST(Topology, ADriverThatTellsNothingIsAnError) {
  StandIn driver = three_devices();
  driver.fails_to_tell = true;
  EXPECT_FALSE(read_topology(driver, MeasuredLinks::kEach).ok());
  StandIn many(balance::kMaxDevices + 1);
  EXPECT_FALSE(read_topology(many, MeasuredLinks::kEach).ok());
}

TEST(Topology, NoDevicesAreNoError) {
  StandIn none(0);
  const Result<Topology> topology = read_topology(none, MeasuredLinks::kEach);
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->bandwidths.devices(), 0);
}

}  // namespace
}  // namespace gpusnap
