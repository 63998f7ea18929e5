// SPDX-License-Identifier: Apache-2.0
//
// The input of load balancing over devices (SC'22 deep tiers talk, slides 49 and 61). Each device
// of a node sets memory aside for its checkpoint. A checkpoint that is larger has a remainder; a
// device whose checkpoint is smaller has spare memory. Remainders go to spare memory of peers and
// to the host at the same time. Each link has a copy engine of its own: a copy on one link does not
// slow one on another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tiers/status.h"

namespace gpusnap::balance {

// Limits of check(). With these, no sum of bytes or of bandwidths overflows 64 bits.
inline constexpr size_t kMaxDevices = 64;  // a set of devices is the bits of a word
inline constexpr uint64_t kMaxBytes = uint64_t{1} << 48;
inline constexpr uint64_t kMaxBandwidth = uint64_t{1} << 48;

struct Problem {
  explicit Problem(size_t devices)
      : remainders(devices),
        spare(devices),
        host_bandwidth(devices),
        peer_bandwidth(devices * devices) {}

  size_t devices() const { return remainders.size(); }
  uint64_t peer(size_t from, size_t to) const { return peer_bandwidth[from * devices() + to]; }
  void set_peer(size_t from, size_t to, uint64_t bandwidth) {
    peer_bandwidth[from * devices() + to] = bandwidth;
  }

  std::vector<uint64_t> remainders;      // bytes of device i that do not fit on it
  std::vector<uint64_t> spare;           // bytes that device j has room for
  std::vector<uint64_t> host_bandwidth;  // bytes per second from device i; 0: no link
  std::vector<uint64_t> peer_bandwidth;  // bytes per second from i to j, by rows; 0: no link
};

// kInvalid: vectors of different lengths, a value above its limit, a device that has both a
// remainder and spare memory, or a link from a device to itself. The functions that make plans
// check their input.
Status check(const Problem& problem);

// kNoSpace: what these devices (bits) have to send fits on no peer that they reach, and they have
// no link to the host. `left` is the number of bytes for which there is no room.
Status no_room(uint64_t devices, uint64_t left);

}  // namespace gpusnap::balance
