// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/balancer.h"

#include <algorithm>
#include <utility>

namespace gpusnap {

Balancer::Balancer(Source source, const balance::Problem& links, uint64_t zone_bytes,
                   std::function<void(const Status&)> on_error)
    : source_(std::move(source)),
      lanes_(links.devices()),
      zone_bytes_(zone_bytes),
      on_error_(std::move(on_error)),
      shares_(lanes_),
      left_(lanes_),
      flying_(lanes_) {
  for (const uint64_t bandwidth : links.peer_bandwidth) reaches_.push_back(bandwidth != 0);
}

// Flights go on. Their bytes are not given out a second time: their zones are no longer pending,
// and their blocks are not free.
void Balancer::plan(Time now) {
  is_planned_ = true;
  planned_ = now;
  const auto began = std::chrono::steady_clock::now();
  Result<PeerShares> planned = plan_shares(source_.links(), source_.look(), zone_bytes_);
  interval_ = std::max(kPlanInterval, 10 * (std::chrono::steady_clock::now() - began));
  if (planned.ok()) {
    shares_ = std::move(planned.value());
    return;
  }
  is_stopped_ = true;
  on_error_(planned.status());
}

uint64_t Balancer::take(size_t from, size_t to, uint64_t most, Time now) {
  std::lock_guard lock(mutex_);
  if (is_stopped_ || left_[from]) return 0;
  if (!is_planned_ || (shares_.sum(from) < zone_bytes_ && now - planned_ >= interval_)) {
    plan(now);
    if (is_stopped_) return 0;
  }
  uint64_t& share = shares_.of(from, to);
  const uint64_t bytes = std::min(share, most) / zone_bytes_ * zone_bytes_;
  share -= bytes;
  flying_[to] += bytes;
  return bytes;
}

void Balancer::land(size_t to, uint64_t taken, uint64_t sent) {
  std::lock_guard lock(mutex_);
  flying_[to] -= taken;
  sent_ += sent;
}

void Balancer::leave(size_t from) {
  std::lock_guard lock(mutex_);
  left_[from] = true;
}

void Balancer::stop() {
  std::lock_guard lock(mutex_);
  is_stopped_ = true;
}

bool Balancer::expects(size_t to) const {
  std::lock_guard lock(mutex_);
  if (flying_[to] != 0) return true;
  if (is_stopped_) return false;
  for (size_t from = 0; from < lanes_; ++from) {
    if (reaches(from, to) && !left_[from]) return true;
  }
  return false;
}

uint64_t Balancer::sent() const {
  std::lock_guard lock(mutex_);
  return sent_;
}

}  // namespace gpusnap
