// SPDX-License-Identifier: Apache-2.0
//
// Resources that transfers share: links, memories, drives.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/bench/shots/clock.h"

namespace gpusnap::shots {

// Bandwidth is shared max-min fairly: each resource divides its bandwidth equally among the
// transfers in flight, and what a transfer cannot use, because another resource on its route is
// slower, goes to the others. Shares change at the moment when a transfer begins or ends.
class Network {
 public:
  // Indices of the resources that a transfer uses at the same time; at least one.
  using Route = std::vector<size_t>;

  explicit Network(Clock& clock) : clock_(clock) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  size_t add_resource(double bytes_per_second);
  void move(uint64_t bytes, Route route, Clock::Event done);

 private:
  struct Flow {
    double bytes_left = 0;
    Route route;
    Clock::Event done;
    double rate = 0;  // bytes per second
  };
  // Moves what has been moved since the last call.
  void settle();
  void share();
  void set_rates();
  void finish_flows();

  Clock& clock_;
  std::vector<double> bandwidths_;
  std::vector<Flow> flows_;
  int64_t settled_ns_ = 0;
  uint64_t generation_ = 0;  // of the shares
};

}  // namespace gpusnap::shots
