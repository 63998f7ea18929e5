// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/peer_plan.h"

#include <algorithm>
#include <numeric>

#include "tiers/balance/balance.h"

namespace gpusnap {

uint64_t PeerShares::sum(size_t from) const {
  const auto row = bytes_.begin() + static_cast<ptrdiff_t>(from * lanes_);
  return std::accumulate(row, row + static_cast<ptrdiff_t>(lanes_), uint64_t{0});
}

Result<PeerShares> plan_shares(balance::Problem links, std::span<const LaneState> lanes,
                               uint64_t zone_bytes) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    const LaneState& lane = lanes[i];
    if (lane.pending > lane.room) {
      links.remainders[i] = lane.pending - lane.room;
    } else {
      links.spare[i] = std::min(lane.room - lane.pending, lane.free) / zone_bytes * zone_bytes;
    }
  }
  const Result<balance::Plan> plan = balance::balance(links);
  if (!plan.ok()) return plan.status();
  PeerShares shares(lanes.size());
  for (const balance::Flow& flow : plan->flows) {
    if (flow.to == balance::kHost) continue;
    shares.of(flow.from, flow.to) = flow.bytes / zone_bytes * zone_bytes;
  }
  return shares;
}

}  // namespace gpusnap
