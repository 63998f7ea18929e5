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

// To devices whose memory another process may lend, besides those of this process's contexts.
void Snapshots::connect_to_all(DeviceLane& lane) const {
  int devices = 0;
  if (snapshot_.driver.cuDeviceGetCount(&devices) != CUDA_SUCCESS) return;
  for (int device = 0; device < devices; ++device) {
    lane.peer_links().connect(lane.device(), device);
  }
}

// Memory that others have borrowed is on its way back: nobody waits for it longer than calls wait
// for buffers.
void Snapshots::wait_for_loans(std::optional<int> device) {
  std::vector<DeviceLane*> lanes;
  {
    std::lock_guard lock(lanes_mutex_);
    for (const auto& [context, lane] : lanes_) {
      if (!device || lane->device() == *device) lanes.push_back(lane.get());
    }
  }
  for (DeviceLane* const lane : lanes) {
    if (lane->stop_lending(snapshot_.settings.max_stall)) continue;
    log(LogLevel::kWarn, "memory of device ", lane->device(),
        " is lent to another process, which has not returned it: the program cannot have it "
        "(GPUSNAP_BALANCE=on lends nothing)");
  }
}

// Made when contexts are, in recordings and replays alike, as all that lanes have. Lanes come and
// go by this thread alone.
void Snapshots::connect(DeviceLane& lane) {
  if (snapshot_.settings.balance == Balance::kOff) return;
  if (snapshot_.settings.balance == Balance::kNode) connect_to_all(lane);
  for (const auto& [context, other] : lanes_) {
    lane.peer_links().connect(lane.device(), other->device());
    const CurrentContext current(snapshot_.driver, context);
    other->peer_links().connect(other->device(), lane.device());
  }
}

// Processes of the node are for those with one device: others have their own devices' buffers.
std::shared_ptr<Borrower> Snapshots::make_borrower() const {
  if (snapshot_.settings.balance != Balance::kNode || lanes_.size() != 1) return {};
  return std::make_shared<Borrower>(snapshot_.driver, *lanes_.begin()->second,
                                    snapshot_.zone_bytes);
}

// Behind the lanes there are those of buffers that other processes may lend, which have nothing of
// their own to save.
std::unique_ptr<Balancer> Snapshots::make_balancer() const {
  if (snapshot_.settings.balance == Balance::kOff || !snapshot_.settings.organisation.device ||
      snapshot_.settings.device_cache == 0) {
    return {};
  }
  std::vector<std::pair<uint64_t, DeviceLane*>> lanes;
  for (const auto& [context, lane] : lanes_) lanes.emplace_back(lane->number(), lane.get());
  std::vector<LentBuffer*> lent;
  if (borrower_ != nullptr) {
    for (const auto& buffer : borrower_->buffers()) lent.push_back(buffer.get());
  }
  const auto links = [lanes, lent] {
    balance::Problem problem(lanes.size() + lent.size());
    std::ranges::fill(problem.host_bandwidth, 1);
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
      for (size_t j = 0; j < lent.size(); ++j) {
        const PeerLink* const link = lane.peer_links().to(lent[j]->device());
        if (link != nullptr) problem.set_peer(i, lanes.size() + j, link->clock.rate());
      }
    }
    return problem;
  };
  const balance::Problem now = links();
  if (std::ranges::all_of(now.peer_bandwidth, [](uint64_t rate) { return rate == 0; })) return {};
  const auto look = [this, lanes, lent] {
    std::vector<LaneState> states;
    states.reserve(lanes.size() + lent.size());
    for (const auto& [context, lane] : lanes) {
      states.push_back({snapshot_.zones.pending_bytes(context),
                        lane->room_bytes(snapshot_.settings.device_cache), lane->free_bytes()});
    }
    for (LentBuffer* const buffer : lent) {
      const uint64_t free = buffer->free_bytes();
      states.push_back({0, free, free});
    }
    return states;
  };
  return std::make_unique<Balancer>(Balancer::Source{look, links}, now, snapshot_.zone_bytes,
                                    [](const Status& why) {
                                      log(LogLevel::kDebug,
                                          "devices do without each other's "
                                          "buffers: ",
                                          why.message());
                                    });
}

void Snapshots::make_offloaders() {
  offloaders_.clear();
  balancer_.reset();
  borrower_ = make_borrower();
  balancer_ = make_balancer();
  for (const auto& [context, lane] : lanes_) {
    lane->keep_bytes(snapshot_.zones.pending_bytes(lane->number()));
    offloaders_[context] = std::make_unique<Offloader>(snapshot_, own_copies_, *lane);
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
    if (borrower_ == nullptr) continue;
    offloader->borrow(*borrower_);
    number = lanes_.size();
    for (const auto& buffer : borrower_->buffers()) offloader->add_lent(number++, *buffer);
  }
}

LoanReply Snapshots::lend(const LoanRequest& request, uint64_t number,
                          std::vector<int>& descriptors) {
  LoanReply reply{.error = "it has no buffer on another device"};
  std::lock_guard lock(lanes_mutex_);
  for (const auto& [context, lane] : lanes_) {
    if (lane->id() == request.device) continue;
    reply = lane->lend(number, request.bytes, descriptors);
    if (reply.error.empty()) break;
  }
  return reply;
}

void Snapshots::end_loan(uint64_t number) {
  std::lock_guard lock(lanes_mutex_);
  for (const auto& [context, lane] : lanes_) {
    if (lane->end_loan(number)) return;
  }
}

// As much as the plan gives to links: the rest goes to the host at the same time.
bool Snapshots::copy_to_peers(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits) {
  if (balancer_ == nullptr) return false;
  for (const auto& [context, offloader] : offloaders_) {
    PeerSender& sender = *offloader->sender();
    while (const auto reservation = sender.reserve()) {
      PeerBlocks room(sender.lane().number(), reservation->blocks.count, snapshot_.zone_bytes);
      const auto claim = snapshot_.zones.claim(set, room, freed);
      add_once(waits, claim.in_flight);
      if (claim.claimed.empty()) {
        sender.cancel(*reservation);
        if (!claim.left) return true;
        break;
      }
      const TransferPtr& transfer = claim.claimed.front();
      const CurrentContext current(snapshot_.driver, context);
      sender.start(*reservation, transfer);
      waits.push_back(transfer);
      if (!claim.left) return true;
    }
  }
  return false;
}

}  // namespace gpusnap
