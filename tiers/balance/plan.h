// SPDX-License-Identifier: Apache-2.0
//
// The result of load balancing: how many bytes each link carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tiers/balance/problem.h"

namespace gpusnap::balance {

// In the place of a device.
inline constexpr size_t kHost = SIZE_MAX;
inline constexpr size_t kNoDevice = SIZE_MAX - 1;

struct Flow {
  size_t from = 0;
  size_t to = 0;       // a device, or kHost
  uint64_t bytes = 0;  // at least 1
  bool operator==(const Flow&) const = default;
};

struct Plan {
  std::vector<Flow> flows;  // one for each link in use; by sender, then receiver, the host last
};

// Seconds until the slowest link is done, when all begin together; 0 without flows.
double seconds(const Problem& problem, const Plan& plan);

// Bytes on each link, while a plan is being made.
class LinkBytes {
 public:
  explicit LinkBytes(size_t devices) : devices_(devices), bytes_(devices * (devices + 1)) {}

  uint64_t& peer(size_t from, size_t to) { return bytes_[from * (devices_ + 1) + to]; }
  uint64_t peer(size_t from, size_t to) const { return bytes_[from * (devices_ + 1) + to]; }
  uint64_t& host(size_t from) { return bytes_[from * (devices_ + 1) + devices_]; }
  uint64_t host(size_t from) const { return bytes_[from * (devices_ + 1) + devices_]; }
  Plan plan() const;

 private:
  size_t devices_;
  std::vector<uint64_t> bytes_;
};

}  // namespace gpusnap::balance
