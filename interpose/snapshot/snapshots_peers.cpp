// SPDX-License-Identifier: Apache-2.0
//
// Load balancing over the devices of a process, as snapshots do it (balancer.h).
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "interpose/services/log.h"
#include "interpose/snapshot/snapshots.h"

namespace gpusnap {

// Room in blocks of one context's peer.
class Snapshots::PeerBlocks : public SnapshotZones::Room {
 public:
  PeerBlocks(uint64_t context, uint64_t blocks, uint64_t zone_bytes)
      : context_(context), left_(blocks * zone_bytes), zone_bytes_(zone_bytes) {}
  uint64_t take(uint64_t context, uint64_t bytes, uint64_t* place) override {
    if (context != context_) return 0;
    const uint64_t size = std::min(bytes, left_);
    *place = used_;
    const uint64_t whole = (size + zone_bytes_ - 1) / zone_bytes_ * zone_bytes_;
    used_ += whole;
    left_ -= whole;
    return size;
  }
  Transfer::Kind kind() const override { return Transfer::Kind::kDirect; }

 private:
  const uint64_t context_;
  uint64_t used_ = 0, left_;
  const uint64_t zone_bytes_;
};

// Made when contexts are, in recordings and replays alike, as all that lanes have. Lanes come and
// go by this thread alone.
void Snapshots::connect(DeviceLane& lane) {
  if (!settings_.balance) return;
  for (const auto& [context, other] : lanes_) {
    lane.peer_links().connect(lane.device(), other->device());
    const CurrentContext current(driver_, context);
    other->peer_links().connect(other->device(), lane.device());
  }
}

std::unique_ptr<Balancer> Snapshots::make_balancer() const {
  if (!settings_.balance || !settings_.organisation.device || settings_.device_cache == 0)
    return {};
  std::vector<std::pair<uint64_t, DeviceLane*>> lanes;
  for (const auto& [context, lane] : lanes_) lanes.emplace_back(lane->number(), lane.get());
  const auto links = [lanes] {
    balance::Problem problem(lanes.size());
    for (size_t i = 0; i < lanes.size(); ++i) {
      DeviceLane& lane = *lanes[i].second;
      const auto sharing = std::ranges::count_if(
          lanes, [&](const auto& other) { return other.second->device() == lane.device(); });
      problem.host_bandwidth[i] =
          std::max<uint64_t>(lane.host_clock().rate() / static_cast<uint64_t>(sharing), 1);
      for (size_t j = 0; j < lanes.size(); ++j) {
        const PeerLink* const link = lane.peer_links().to(lanes[j].second->device());
        if (link != nullptr) problem.set_peer(i, j, link->clock.rate());
      }
    }
    return problem;
  };
  const balance::Problem now = links();
  if (std::ranges::all_of(now.peer_bandwidth, [](uint64_t rate) { return rate == 0; })) return {};
  const auto look = [this, lanes] {
    std::vector<LaneState> states;
    states.reserve(lanes.size());
    for (const auto& [context, lane] : lanes) {
      states.push_back({zones_.pending_bytes(context), lane->room_bytes(settings_.device_cache),
                        lane->free_bytes()});
    }
    return states;
  };
  return std::make_unique<Balancer>(Balancer::Source{look, links}, now, zone_bytes_,
                                    [](const Status& why) {
                                      log(LogLevel::kDebug,
                                          "devices do without each other's "
                                          "buffers: ",
                                          why.message());
                                    });
}

void Snapshots::make_offloaders() {
  offloaders_.clear();
  balancer_ = make_balancer();
  for (const auto& [context, lane] : lanes_) {
    offloaders_[context] = std::make_unique<Offloader>(*this, *lane);
  }
  if (balancer_ == nullptr) return;
  size_t number = 0;
  for (const auto& [context, lane] : lanes_) offloaders_.at(context)->balance(*balancer_, number++);
  for (const auto& [context, offloader] : offloaders_) {
    number = 0;
    for (const auto& [other, lane] : lanes_) {
      if (other != context) offloader->add_peer(number, *lane, *offloaders_.at(other));
      ++number;
    }
  }
}

// As much as the plan gives to links: the rest goes to the host at the same time.
bool Snapshots::copy_to_peers(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits) {
  if (balancer_ == nullptr) return false;
  for (const auto& [context, offloader] : offloaders_) {
    PeerSender& sender = *offloader->sender();
    while (const auto reservation = sender.reserve()) {
      PeerBlocks room(sender.lane().number(), reservation->blocks.count, zone_bytes_);
      const auto claim = zones_.claim(set, room, freed);
      add_once(waits, claim.in_flight);
      if (claim.claimed.empty()) {
        sender.cancel(*reservation);
        if (!claim.left) return true;
        break;
      }
      const TransferPtr& transfer = claim.claimed.front();
      const CurrentContext current(driver_, context);
      sender.start(*reservation, transfer);
      waits.push_back(transfer);
      if (!claim.left) return true;
    }
  }
  return false;
}

}  // namespace gpusnap
