// SPDX-License-Identifier: Apache-2.0
#include "tiers/balance/plan.h"

#include <algorithm>

namespace gpusnap::balance {

double seconds(const Problem& problem, const Plan& plan) {
  double slowest = 0;
  for (const Flow& flow : plan.flows) {
    const uint64_t bandwidth =
        flow.to == kHost ? problem.host_bandwidth[flow.from] : problem.peer(flow.from, flow.to);
    slowest = std::max(slowest, static_cast<double>(flow.bytes) / static_cast<double>(bandwidth));
  }
  return slowest;
}

Plan LinkBytes::plan() const {
  Plan plan;
  for (size_t from = 0; from < devices_; ++from) {
    for (size_t to = 0; to < devices_; ++to) {
      if (peer(from, to) > 0) plan.flows.push_back({from, to, peer(from, to)});
    }
    if (host(from) > 0) plan.flows.push_back({from, kHost, host(from)});
  }
  return plan;
}

}  // namespace gpusnap::balance
