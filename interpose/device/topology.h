// SPDX-License-Identifier: Apache-2.0
//
// The links between the devices of a node, as load balancing needs them (tiers/balance): which
// devices reach each other, and how many bytes a second each link carries. The driver tells the
// first, short copies the second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tiers/balance/plan.h"
#include "tiers/balance/problem.h"
#include "tiers/status.h"

namespace gpusnap {

// The driver's description of the way from one device to another.
struct PeerFacts {
  bool is_reachable = false;  // without a detour through the host's memory
  int rank = 0;               // of its performance, by the driver's own scale: 0 is the best
};

// The source of read_topology(): a driver (device_links.h), or a stand-in for one.
class DeviceLinks {
 public:
  virtual ~DeviceLinks() = default;
  virtual Result<size_t> count_devices() = 0;
  virtual Result<PeerFacts> facts(size_t from, size_t to) = 0;
  // Seconds that a copy of `bytes` takes while nothing else uses the link. `to`: a device, or
  // balance::kHost.
  virtual Result<double> time_copy(size_t from, size_t to, uint64_t bytes) = 0;
};

// Which links between devices are measured. Links to the host are, each of them.
enum class MeasuredLinks : uint8_t {
  kEach,
  kOneOfEachRank,  // links of one rank are taken to be alike
};

struct Topology {
  balance::Problem bandwidths;   // without remainders and spare memory
  std::vector<Status> left_out;  // why links that the driver tells of have no bandwidth
};

// Copies of two sizes are timed, several times each, and the least times count: a busy link only
// makes them longer. The bandwidth comes from their difference, without what every copy takes. A
// link that cannot be measured is left out. An error: the driver tells nothing about devices, or
// there are more than balance::kMaxDevices.
Result<Topology> read_topology(DeviceLinks& links, MeasuredLinks measured);

// Bytes of the longest copy that read_topology() asks for.
inline constexpr uint64_t kLongestCopy = 18 << 20;

}  // namespace gpusnap
