// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <tuple>
#include <vector>

namespace gpusnap::test {

namespace {

void set_both(balance::Problem& problem, size_t a, size_t b, uint64_t bandwidth) {
  problem.set_peer(a, b, bandwidth);
  problem.set_peer(b, a, bandwidth);
}

}  // namespace

balance::Problem golden_problem() {
  balance::Problem problem(8);
  problem.remainders[0] = 480 * kMb;
  problem.remainders[6] = 240 * kMb;
  problem.spare[1] = 140 * kMb;
  problem.spare[4] = 480 * kMb;
  set_both(problem, 0, 1, 24 * kGbPerSecond);
  set_both(problem, 0, 4, 48 * kGbPerSecond);
  set_both(problem, 6, 4, 24 * kGbPerSecond);
  for (uint64_t& host : problem.host_bandwidth) host = 12 * kGbPerSecond;
  return problem;
}

balance::Problem random_problem(std::mt19937_64& random, bool hosts) {
  const auto below = [&](uint64_t limit) { return random() % limit; };
  const size_t devices = 2 + below(7);
  // Few or many bytes, in round numbers or not.
  const uint64_t unit = below(2) == 0 ? kMb : 1 + below(2 * kMb);
  const uint64_t most = below(4) == 0 ? 10 : 300;
  balance::Problem problem(devices);
  for (size_t i = 0; i < devices; ++i) {
    const uint64_t bytes = below(most) * unit + (below(2) == 0 ? 0 : below(unit));
    (below(2) == 0 ? problem.remainders : problem.spare)[i] = bytes;
    if (hosts || below(4) == 0) problem.host_bandwidth[i] = (1 + below(16)) * kGbPerSecond;
    for (size_t j = 0; j < devices; ++j) {
      if (i == j || below(4) == 0) continue;
      problem.set_peer(
          i, j, below(2) == 0 ? 24 * kGbPerSecond : kGbPerSecond + below(300 * kGbPerSecond));
    }
  }
  return problem;
}

std::string fault(const balance::Problem& problem, const balance::Plan& plan) {
  std::vector<uint64_t> sent(problem.devices());
  std::vector<uint64_t> received(problem.devices());
  const balance::Flow* before = nullptr;
  for (const balance::Flow& flow : plan.flows) {
    if (flow.bytes == 0) return "a flow is empty";
    const uint64_t bandwidth = flow.to == balance::kHost ? problem.host_bandwidth[flow.from]
                                                         : problem.peer(flow.from, flow.to);
    if (bandwidth == 0) return "a flow uses a link that is not there";
    if (before != nullptr && std::tie(before->from, before->to) >= std::tie(flow.from, flow.to)) {
      return "flows are not in order";
    }
    sent[flow.from] += flow.bytes;
    if (flow.to != balance::kHost) received[flow.to] += flow.bytes;
    before = &flow;
  }
  for (size_t i = 0; i < problem.devices(); ++i) {
    if (sent[i] != problem.remainders[i]) return "device " + std::to_string(i) + " sends not all";
    if (received[i] > problem.spare[i]) return "device " + std::to_string(i) + " gets too much";
  }
  return "";
}

}  // namespace gpusnap::test
