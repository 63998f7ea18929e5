// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/problem.h"

#include <algorithm>

namespace gpusnap::balance {

namespace {

Status invalid(const std::string& reason) {
  return {Code::kInvalid, "cannot balance devices: " + reason};
}

bool is_above(const std::vector<uint64_t>& values, uint64_t limit) {
  return std::any_of(values.begin(), values.end(),
                     [limit](uint64_t value) { return value > limit; });
}

}  // namespace

Status check(const Problem& problem) {
  const size_t devices = problem.devices();
  if (devices > kMaxDevices) {
    return invalid(std::to_string(devices) + " devices, and at most " +
                   std::to_string(kMaxDevices) + " are supported");
  }
  if (problem.spare.size() != devices || problem.host_bandwidth.size() != devices ||
      problem.peer_bandwidth.size() != devices * devices) {
    return invalid("remainders, spare memory and bandwidths are of different numbers of devices");
  }
  if (is_above(problem.remainders, kMaxBytes) || is_above(problem.spare, kMaxBytes)) {
    return invalid("a device has more than 256 TiB");
  }
  if (is_above(problem.host_bandwidth, kMaxBandwidth) ||
      is_above(problem.peer_bandwidth, kMaxBandwidth)) {
    return invalid("a link is faster than 256 TiB a second");
  }
  for (size_t i = 0; i < devices; ++i) {
    if (problem.remainders[i] > 0 && problem.spare[i] > 0) {
      return invalid("device " + std::to_string(i) + " has both a remainder and spare memory");
    }
    if (problem.peer(i, i) > 0) {
      return invalid("device " + std::to_string(i) + " has a link to itself");
    }
  }
  return {};
}

Status no_room(uint64_t devices, uint64_t left) {
  std::string names;
  size_t count = 0;
  for (size_t i = 0; i < kMaxDevices; ++i) {
    if ((devices >> i & 1) == 0) continue;
    names += (count++ == 0 ? "" : ", ") + std::to_string(i);
  }
  return {Code::kNoSpace, (count == 1 ? "device " : "devices ") + names + ": no room for " +
                              std::to_string(left) +
                              " bytes on the peers within reach, and no link to the host"};
}

}  // namespace gpusnap::balance
