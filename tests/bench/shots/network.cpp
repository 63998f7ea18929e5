// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gpusnap::shots {

size_t Network::add_resource(double bytes_per_second) {
  bandwidths_.push_back(bytes_per_second);
  return bandwidths_.size() - 1;
}

void Network::move(uint64_t bytes, Route route, Clock::Event done) {
  settle();
  flows_.push_back({static_cast<double>(bytes), std::move(route), std::move(done), 0});
  share();
}

void Network::settle() {
  const double seconds = static_cast<double>(clock_.now_ns() - settled_ns_) / 1e9;
  settled_ns_ = clock_.now_ns();
  for (Flow& flow : flows_) flow.bytes_left -= flow.rate * seconds;
}

void Network::share() {
  set_rates();
  const uint64_t generation = ++generation_;
  double soonest_s = std::numeric_limits<double>::infinity();
  for (const Flow& flow : flows_) soonest_s = std::min(soonest_s, flow.bytes_left / flow.rate);
  if (flows_.empty()) return;
  const auto delay_ns = static_cast<int64_t>(std::ceil(std::max(soonest_s, 0.0) * 1e9));
  clock_.after(delay_ns, [this, generation] {
    if (generation == generation_) finish_flows();
  });
}

// The resource that leaves the least to each of its transfers fixes their rates. The rest is shared
// by the others in the same way.
void Network::set_rates() {
  std::vector<double> left = bandwidths_;
  std::vector<size_t> users(bandwidths_.size());
  std::vector<Flow*> open;
  for (Flow& flow : flows_) {
    open.push_back(&flow);
    for (const size_t each : flow.route) ++users[each];
  }
  while (!open.empty()) {
    size_t scarcest = bandwidths_.size();
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < bandwidths_.size(); ++i) {
      if (users[i] == 0 || left[i] / static_cast<double>(users[i]) >= least) continue;
      scarcest = i;
      least = left[i] / static_cast<double>(users[i]);
    }
    std::erase_if(open, [&](Flow* flow) {
      if (std::ranges::find(flow->route, scarcest) == flow->route.end()) return false;
      flow->rate = least;
      for (const size_t each : flow->route) {
        left[each] = std::max(left[each] - least, 0.0);
        --users[each];
      }
      return true;
    });
  }
}

void Network::finish_flows() {
  constexpr double kNothing = 0.5;  // bytes
  settle();
  std::vector<Clock::Event> done;
  std::erase_if(flows_, [&done](Flow& flow) {
    if (flow.bytes_left >= kNothing) return false;
    done.push_back(std::move(flow.done));
    return true;
  });
  share();
  for (const Clock::Event& each : done) each();
}

}  // namespace gpusnap::shots
