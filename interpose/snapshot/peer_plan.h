// SPDX-License-Identifier: Apache-2.0
//
// Decides how many bytes each device of this process sends to the buffers of its peers: the input
// of load balancing (tiers/balance), made from the state of a snapshot. Pure logic; any thread may
// call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tiers/balance/problem.h"
#include "tiers/status.h"

namespace gpusnap {

// The state of one lane (device_lane.h), in bytes.
struct LaneState {
  uint64_t pending = 0;  // in zones that nobody has begun to save
  uint64_t room = 0;     // of its buffer: what is free, and what the buffer may still grow by
  uint64_t free = 0;     // of its buffer: what is free now
};

// Bytes that each lane may send to each other lane.
class PeerShares {
 public:
  explicit PeerShares(size_t lanes = 0) : lanes_(lanes), bytes_(lanes * lanes) {}
  uint64_t& of(size_t from, size_t to) { return bytes_[from * lanes_ + to]; }
  uint64_t of(size_t from, size_t to) const { return bytes_[from * lanes_ + to]; }
  // To all others together.
  uint64_t sum(size_t from) const;

 private:
  size_t lanes_;
  std::vector<uint64_t> bytes_;
};

// A lane whose pending zones fit into its own buffer keeps room for all of them. The rest of its
// buffer, as far as it is there now, is spare memory for the peers. A lane whose pending zones do
// not fit sends the remainder to peers and to the host, so that the slowest link is done as soon as
// possible. Shares are whole zones.
//
// `links` has the bandwidths alone: bytes a second, at least 1 to the host. kInvalid: see
// balance::check(); there are more than balance::kMaxDevices lanes, for example.
Result<PeerShares> plan_shares(balance::Problem links, std::span<const LaneState> lanes,
                               uint64_t zone_bytes);

}  // namespace gpusnap
