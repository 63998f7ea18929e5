// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/peer_sender.h"

#include <algorithm>
#include <utility>

#include "interpose/snapshot/zone_copies.h"

namespace gpusnap {

namespace {
// Enough for nearly full bandwidth of a link of 50 GB/s, where a copy takes 10 us besides.
constexpr uint64_t kMostPeerBytes = 4 << 20;
// On a link at a time: they keep it busy from one look of the offloader's to the next.
constexpr size_t kMostPeerFlights = 4;
}  // namespace

PeerSender::PeerSender(Snapshot snapshot, DeviceLane& lane, size_t number, Balancer& balancer)
    : snapshot_(std::move(snapshot)), lane_(lane), number_(number), balancer_(balancer) {}

void PeerSender::add(Peer peer) {
  PeerLink* const link = lane_.peer_links().to(peer.lane->device());
  if (link != nullptr && balancer_.reaches(number_, peer.number)) {
    links_.push_back({std::move(peer), link, {}});
  }
}

bool PeerSender::collect() {
  bool any = false;
  for (Link& link : links_) {
    link.link->clock.look();
    const size_t before = link.flights.size();
    std::erase_if(link.flights, [&](const Flight& flight) {
      if (!snapshot_.arrived(flight.transfer->event.get())) return false;
      land(link, flight);
      return true;
    });
    any = any || link.flights.size() != before;
  }
  return any;
}

// Zones that calls have taken over meanwhile are there for nothing.
void PeerSender::land(Link& link, const Flight& flight) {
  const uint64_t zone = snapshot_.zone_bytes;
  snapshot_.zones->finished(flight.transfer, snapshot_.publishes);
  uint64_t sent = 0;
  for (const TransferPiece& piece : flight.transfer->pieces) {
    const BlockPool::Run blocks{flight.blocks.first + piece.place / zone,
                                (piece.size + zone - 1) / zone};
    if (piece.stolen) {
      link.peer.lane->give_back_guests(blocks);
    } else {
      link.peer.accept({piece, blocks});
      sent += piece.size;
    }
  }
  balancer_.land(link.peer.number, flight.taken, sent);
}

bool PeerSender::start() {
  bool any = false;
  for (Link& link : links_) {
    while (link.flights.size() < kMostPeerFlights && start_one(link)) any = true;
  }
  return any;
}

bool PeerSender::start_one(Link& link) {
  const uint64_t zone = snapshot_.zone_bytes;
  Flight flight;
  flight.taken = balancer_.take(number_, link.peer.number, std::max(kMostPeerBytes, zone),
                                std::chrono::steady_clock::now());
  if (flight.taken == 0) return false;
  DeviceLane& there = *link.peer.lane;
  flight.blocks = there.take_blocks_for(lane_.device(), flight.taken / zone);
  if (flight.blocks.count != 0) {
    flight.transfer = snapshot_.zones->claim_next(reinterpret_cast<uint64_t>(lane_.context()),
                                                  flight.blocks.count * zone, kLargeRun,
                                                  SnapshotZones::Scattered::kLeave);
  }
  const uint64_t used = flight.transfer == nullptr ? 0 : (flight.transfer->bytes + zone - 1) / zone;
  there.give_back_guests({flight.blocks.first + used, flight.blocks.count - used});
  flight.blocks.count = used;
  if (used != 0) return launch(link, std::move(flight));
  balancer_.land(link.peer.number, flight.taken, 0);
  return false;
}

// What was enqueued is followed to its end even where more could not be: it writes to the blocks.
bool PeerSender::launch(Link& link, Flight flight) {
  const uint64_t to = link.peer.lane->block(flight.blocks.first);
  std::vector<ZoneCopy> copies;
  for (const TransferPiece& piece : flight.transfer->pieces) {
    const uint64_t from = snapshot_.zones->ranges()[piece.range].address + piece.offset;
    copies.push_back({to + piece.place, from, piece.size, piece.range});
  }
  const CUstream stream = link.link->stream;
  link.link->clock.start(stream, flight.transfer->bytes);
  CUresult result = copy_zones(*snapshot_.driver, CopyTo::kDevice, std::move(copies), stream);
  link.link->clock.stop(stream);
  std::shared_ptr<void> event = lane_.record(stream);
  if (event == nullptr && result == CUDA_SUCCESS) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    snapshot_.fail(driver_status(*snapshot_.driver, "copying to the device of a peer", result));
  }
  snapshot_.zones->started(flight.transfer, std::move(event));
  link.flights.push_back(std::move(flight));
  return true;
}

bool PeerSender::done(bool nothing_left) {
  const bool flies = std::ranges::any_of(links_, [](const Link& l) { return !l.flights.empty(); });
  if (flies) return false;
  if (nothing_left && !std::exchange(has_left_, true)) balancer_.leave(number_);
  return true;
}

}  // namespace gpusnap
