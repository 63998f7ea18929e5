// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/node.h"

#include <utility>

namespace gpusnap::shots {

Node::Node(Clock& clock, const Machine& machine) : machine_(machine), network_(clock) {
  drives_ = network_.add_resource(machine.drives);
  for (unsigned gpu = 0; gpu < machine.gpus_per_node; ++gpu) {
    devices_.push_back(network_.add_resource(machine.device));
    if (gpu % machine.gpus_per_link != 0) continue;
    to_host_.push_back(network_.add_resource(machine.link));
    from_host_.push_back(network_.add_resource(machine.link));
    if (machine.host_memory != 0) {
      host_memories_.push_back(network_.add_resource(machine.host_memory));
    }
  }
}

void Node::move(unsigned gpu, Medium from, Medium to, uint64_t bytes, Clock::Event done) {
  network_.move(bytes, route(gpu, from, to), std::move(done));
}

void Node::migrate(unsigned gpu, Medium from, Medium to, Migration how, uint64_t bytes,
                   Clock::Event done) {
  Network::Route along = route(gpu, from, to);
  const Driver& limits = driver(gpu);
  along.push_back(to == Medium::kHost ? limits.to_host : limits.from_host);
  if (how == Migration::kFaults) along.push_back(limits.faults);
  network_.move(bytes, std::move(along), std::move(done));
}

// Resources that nobody uses would slow the simulation.
const Node::Driver& Node::driver(unsigned gpu) {
  const auto [found, is_new] = drivers_.try_emplace(gpu);
  if (is_new) {
    found->second = {.to_host = network_.add_resource(machine_.migrations),
                     .from_host = network_.add_resource(machine_.migrations),
                     .faults = network_.add_resource(machine_.faults)};
  }
  return found->second;
}

Network::Route Node::route(unsigned gpu, Medium from, Medium to) const {
  const auto is_on_device = [](Medium medium) {
    return medium == Medium::kApplication || medium == Medium::kDevice;
  };
  if (is_on_device(from) && is_on_device(to)) return {devices_[gpu]};
  const size_t link = gpu / machine_.gpus_per_link;
  Network::Route route;
  if (is_on_device(from)) route.push_back(to_host_[link]);
  if (is_on_device(to)) route.push_back(from_host_[link]);
  if (from == Medium::kDrives || to == Medium::kDrives) route.push_back(drives_);
  if (!host_memories_.empty()) route.push_back(host_memories_[link]);
  return route;
}

}  // namespace gpusnap::shots
