// SPDX-License-Identifier: Apache-2.0
#include "interpose/device/topology.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

namespace gpusnap {

namespace {

constexpr uint64_t kShortCopy = 2 << 20;
constexpr int kRounds = 3;

std::string name_of(size_t from, size_t to) {
  return "the link from device " + std::to_string(from) + " to " +
         (to == balance::kHost ? std::string("the host") : "device " + std::to_string(to));
}

Result<double> least_time(DeviceLinks& links, size_t from, size_t to, uint64_t bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const Result<double> time = links.time_copy(from, to, bytes);
    if (!time.ok()) return time.status();
    least = std::min(least, time.value());
  }
  return least;
}

// Bytes a second.
Result<uint64_t> measure(DeviceLinks& links, size_t from, size_t to) {
  const Result<double> at_first = least_time(links, from, to, kShortCopy);
  if (!at_first.ok()) return at_first.status();
  const Result<double> all = least_time(links, from, to, kLongestCopy);
  if (!all.ok()) return all.status();
  const double bandwidth =
      static_cast<double>(kLongestCopy - kShortCopy) / (all.value() - at_first.value());
  // Not a number is refused as well.
  if (!(bandwidth >= 1 && bandwidth <= static_cast<double>(balance::kMaxBandwidth))) {
    return Status(Code::kUnsupported,
                  name_of(from, to) + ": a copy of " + std::to_string(kLongestCopy) +
                      " bytes takes no longer than one of " + std::to_string(kShortCopy));
  }
  return static_cast<uint64_t>(bandwidth);
}

class Reader {
 public:
  Reader(DeviceLinks& links, MeasuredLinks measured, size_t devices)
      : links_(links), measured_(measured), topology_{balance::Problem(devices), {}} {}

  Result<Topology> run() {
    const size_t devices = topology_.bandwidths.devices();
    for (size_t from = 0; from < devices; ++from) {
      topology_.bandwidths.host_bandwidth[from] = bandwidth_of(from, balance::kHost);
      for (size_t to = 0; to < devices; ++to) {
        if (from == to) continue;
        const Result<PeerFacts> facts = links_.facts(from, to);
        if (!facts.ok()) return facts.status();
        if (!facts->is_reachable) continue;
        topology_.bandwidths.set_peer(from, to, peer_bandwidth(from, to, facts->rank));
      }
    }
    return std::move(topology_);
  }

 private:
  // 0: it could not be measured.
  uint64_t bandwidth_of(size_t from, size_t to) {
    const Result<uint64_t> bandwidth = measure(links_, from, to);
    if (bandwidth.ok()) return bandwidth.value();
    topology_.left_out.push_back(bandwidth.status());
    return 0;
  }

  uint64_t peer_bandwidth(size_t from, size_t to, int rank) {
    if (measured_ == MeasuredLinks::kEach) return bandwidth_of(from, to);
    uint64_t& known = of_rank_[rank];
    if (known == 0) known = bandwidth_of(from, to);
    return known;
  }

  DeviceLinks& links_;
  const MeasuredLinks measured_;
  Topology topology_;
  std::map<int, uint64_t> of_rank_;  // bandwidths; 0: none could be measured yet
};

}  // namespace

Result<Topology> read_topology(DeviceLinks& links, MeasuredLinks measured) {
  const Result<size_t> devices = links.count_devices();
  if (!devices.ok()) return devices.status();
  if (devices.value() > balance::kMaxDevices) {
    return Status(Code::kUnsupported, std::to_string(devices.value()) +
                                          " devices: load balancing supports at most " +
                                          std::to_string(balance::kMaxDevices));
  }
  return Reader(links, measured, devices.value()).run();
}

}  // namespace gpusnap
