// SPDX-License-Identifier: Apache-2.0
//
// Sends pending zones of one context to the device buffers of peers, over all links at once, beside
// the offloader's copies to the host (SC'22 deep tiers talk, slides 14 to 21). Zones that have
// arrived are saved. From then on the peer's offloader has them, and copies them to the host once
// its own zones are saved. Zones that this device's buffer holds already can be sent, too: it then
// has room for others.
//
// One sender for one snapshot; on the offloader's thread but for what says otherwise, its context
// current.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "interpose/snapshot/balancer.h"
#include "interpose/snapshot/blocks_of_zones.h"
#include "interpose/snapshot/device_lane.h"
#include "interpose/snapshot/zone_copies.h"
#include "tracker/snapshot_zones.h"

namespace gpusnap {

class PeerSender {
 public:
  // Services of the snapshot.
  struct Snapshot {
    const Driver* driver = nullptr;
    SnapshotZones* zones = nullptr;
    uint64_t zone_bytes = 0;
    std::function<bool(void* event)> arrived;  // as Snapshots has it
    std::function<void(const Status&)> fail;
    bool publishes = true;  // zones may be written as soon as they are saved
  };
  // `accept` takes over what has arrived; any thread may call it.
  struct Peer {
    size_t number = 0;  // of the balancer's lanes
    PeerBuffer* buffer = nullptr;
    std::function<void(const BlocksOfZones&)> accept;
  };
  // `number`: of this lane. Everything outlives it.
  PeerSender(Snapshot snapshot, DeviceLane& lane, size_t number, Balancer& balancer);

  const DeviceLane& lane() const { return lane_; }
  // A link to this peer, where there is one.
  void add(Peer peer);
  // Hands over what has arrived. True: something has.
  bool collect();
  // Starts copies of pending zones, as far as shares, blocks and zones go. True: at least one.
  bool start();
  // Likewise of zones in this device's own buffer, the first of the queue first.
  bool forward(std::deque<BlocksOfZones>& saved);

  // Any thread: room at a peer for zones that a call is about to overwrite.
  struct Reservation {
    size_t link = 0;
    uint64_t taken = 0;  // of the share
    BlockPool::Run blocks;
  };
  // None: there is no room, or it is not to be used now.
  std::optional<Reservation> reserve();
  void cancel(const Reservation& reservation);
  // The transfer's places are whole zones from the first block on. Our context is current.
  void start(const Reservation& reservation, const TransferPtr& transfer);

  // Nothing is on its way. With `nothing_left` nothing more is sent, either: the peers are told.
  bool done(bool nothing_left);

 private:
  struct Flight {
    uint64_t taken = 0;     // of the share
    BlockPool::Run blocks;  // of the peer
    TransferPtr transfer;   // null: zones that were saved before
    std::shared_ptr<void> event;
    std::vector<BlocksOfZones> forwarded;  // in blocks of this device
  };
  struct Link {
    Peer peer;
    PeerLink* link = nullptr;
    std::vector<Flight> flights;
    std::vector<Flight> added;  // by other threads
  };
  // A flight with a part of the share and with blocks, or nothing.
  std::optional<Flight> prepare(const Link& link);
  void give_up(const Link& link, const Flight& flight);
  // Gives the blocks back that are not needed.
  static void keep_blocks(const Link& link, Flight& flight, uint64_t count);
  std::vector<ZoneCopy> copies_of(const Link& link, const Flight& flight) const;
  bool start_one(Link& link);
  bool forward_one(Link& link, std::deque<BlocksOfZones>& saved);
  void launch(Link& link, Flight flight, std::vector<ZoneCopy> copies, uint64_t bytes);
  // Once the copies have been asked for.
  void follow(Flight& flight, CUresult result, CUstream stream);
  void land(Link& link, const Flight& flight);
  // Returns the bytes that are the peer's from now on.
  uint64_t hand_over(Link& link, const Flight& flight);

  const Snapshot snapshot_;
  DeviceLane& lane_;
  const size_t number_;
  Balancer& balancer_;
  std::mutex mutex_;  // of what other threads add
  std::vector<Link> links_;
  bool has_left_ = false;
};

}  // namespace gpusnap
