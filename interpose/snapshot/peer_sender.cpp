// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/peer_sender.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpusnap {

namespace {
// Enough for nearly full bandwidth of a link of 50 GB/s, where a copy takes 10 us besides.
constexpr uint64_t kMostPeerBytes = 4 << 20;
// On a link at a time: they keep it busy from one look of the offloader's to the next.
constexpr size_t kMostPeerFlights = 4;
// Pieces of one copy, which may lie anywhere.
constexpr size_t kMostForwarded = 256;
}  // namespace

PeerSender::PeerSender(Snapshot snapshot, DeviceLane& lane, size_t number, Balancer& balancer)
    : snapshot_(std::move(snapshot)), lane_(lane), number_(number), balancer_(balancer) {}

void PeerSender::add(Peer peer) {
  PeerLink* const link = lane_.peer_links().to(peer.buffer->device());
  if (link != nullptr && balancer_.reaches(number_, peer.number)) {
    links_.push_back({std::move(peer), link, {}, {}});
  }
}

bool PeerSender::collect() {
  {
    std::lock_guard lock(mutex_);
    for (Link& link : links_) {
      std::ranges::move(link.added, std::back_inserter(link.flights));
      link.added.clear();
    }
  }
  bool any = false;
  for (Link& link : links_) {
    link.link->clock.look();
    const size_t before = link.flights.size();
    std::erase_if(link.flights, [&](const Flight& flight) {
      if (!snapshot_.arrived(flight.event.get())) return false;
      land(link, flight);
      return true;
    });
    any = any || link.flights.size() != before;
  }
  return any;
}

void PeerSender::land(Link& link, const Flight& flight) {
  if (flight.transfer != nullptr) {
    snapshot_.zones->finished(flight.transfer, snapshot_.publishes);
  }
  const uint64_t sent = hand_over(link, flight);
  balancer_.land(link.peer.number, flight.taken, sent);
}

uint64_t PeerSender::hand_over(Link& link, const Flight& flight) {
  uint64_t sent = 0;
  uint64_t first = flight.blocks.first;
  for (const BlocksOfZones& zones : flight.forwarded) {
    link.peer.accept({zones.piece, {first, zones.blocks.count}});
    lane_.give_back_blocks(zones.blocks);
    first += zones.blocks.count;
    sent += zones.piece.size;
  }
  if (flight.transfer == nullptr) return sent;
  const uint64_t zone = snapshot_.zone_bytes;
  for (const TransferPiece& piece : flight.transfer->pieces) {
    const BlockPool::Run blocks{first + piece.place / zone, (piece.size + zone - 1) / zone};
    if (piece.stolen) {  // by a call, which has copied it elsewhere
      link.peer.buffer->give_back_guests(blocks);
    } else {
      link.peer.accept({piece, blocks});
      sent += piece.size;
    }
  }
  return sent;
}

bool PeerSender::start() {
  bool any = false;
  for (Link& link : links_) {
    while (link.flights.size() < kMostPeerFlights && start_one(link)) any = true;
  }
  return any;
}

bool PeerSender::forward(std::deque<BlocksOfZones>& saved) {
  bool any = false;
  for (Link& link : links_) {
    while (link.flights.size() < kMostPeerFlights && forward_one(link, saved)) any = true;
  }
  return any;
}

std::optional<PeerSender::Flight> PeerSender::prepare(const Link& link) {
  const uint64_t zone = snapshot_.zone_bytes;
  Flight flight;
  flight.taken = balancer_.take(number_, link.peer.number, std::max(kMostPeerBytes, zone),
                                std::chrono::steady_clock::now());
  if (flight.taken == 0) return std::nullopt;
  flight.blocks = link.peer.buffer->take_blocks_for(lane_.device(), flight.taken / zone);
  if (flight.blocks.count != 0) return flight;
  give_up(link, flight);
  return std::nullopt;
}

void PeerSender::give_up(const Link& link, const Flight& flight) {
  link.peer.buffer->give_back_guests(flight.blocks);
  balancer_.land(link.peer.number, flight.taken, 0);
}

void PeerSender::keep_blocks(const Link& link, Flight& flight, uint64_t count) {
  link.peer.buffer->give_back_guests({flight.blocks.first + count, flight.blocks.count - count});
  flight.blocks.count = count;
}

std::vector<ZoneCopy> PeerSender::copies_of(const Link& link, const Flight& flight) const {
  const uint64_t to = link.peer.buffer->block(flight.blocks.first);
  std::vector<ZoneCopy> copies;
  for (const TransferPiece& piece : flight.transfer->pieces) {
    const uint64_t from = snapshot_.zones->ranges()[piece.range].address + piece.offset;
    copies.push_back({to + piece.place, from, piece.size, piece.range});
  }
  return copies;
}

bool PeerSender::start_one(Link& link) {
  std::optional<Flight> flight = prepare(link);
  if (!flight) return false;
  const uint64_t zone = snapshot_.zone_bytes;
  flight->transfer = snapshot_.zones->claim_next(reinterpret_cast<uint64_t>(lane_.context()),
                                                 flight->blocks.count * zone, kLargeRun,
                                                 SnapshotZones::Scattered::kLeave);
  if (flight->transfer == nullptr) {
    give_up(link, *flight);
    return false;
  }
  const uint64_t bytes = flight->transfer->bytes;
  keep_blocks(link, *flight, (bytes + zone - 1) / zone);
  std::vector<ZoneCopy> copies = copies_of(link, *flight);
  launch(link, std::move(*flight), std::move(copies), bytes);
  return true;
}

// By whole blocks: those that follow each other on both sides are one copy.
bool PeerSender::forward_one(Link& link, std::deque<BlocksOfZones>& saved) {
  if (saved.empty()) return false;
  std::optional<Flight> flight = prepare(link);
  if (!flight) return false;
  const uint64_t zone = snapshot_.zone_bytes;
  const uint64_t to = link.peer.buffer->block(flight->blocks.first);
  std::vector<ZoneCopy> copies;
  uint64_t used = 0;
  while (!saved.empty() && used < flight->blocks.count && copies.size() < kMostForwarded) {
    const BlocksOfZones zones = take_front(saved, flight->blocks.count - used, zone);
    copies.push_back(
        {to + used * zone, lane_.block(zones.blocks.first), zones.blocks.count * zone});
    used += zones.blocks.count;
    flight->forwarded.push_back(zones);
  }
  keep_blocks(link, *flight, used);
  launch(link, std::move(*flight), std::move(copies), used * zone);
  return true;
}

std::optional<PeerSender::Reservation> PeerSender::reserve() {
  for (size_t i = 0; i < links_.size(); ++i) {
    const std::optional<Flight> flight = prepare(links_[i]);
    if (flight) return Reservation{i, flight->taken, flight->blocks};
  }
  return std::nullopt;
}

void PeerSender::cancel(const Reservation& reservation) {
  Flight flight;
  flight.taken = reservation.taken;
  flight.blocks = reservation.blocks;
  give_up(links_[reservation.link], flight);
}

void PeerSender::start(const Reservation& reservation, const TransferPtr& transfer) {
  Link& link = links_[reservation.link];
  Flight flight;
  flight.taken = reservation.taken;
  flight.blocks = reservation.blocks;
  flight.transfer = transfer;
  const TransferPiece& last = transfer->pieces.back();
  const uint64_t zone = snapshot_.zone_bytes;
  keep_blocks(link, flight, (last.place + last.size + zone - 1) / zone);
  const CUstream stream = link.link->gate;
  follow(flight, copy_zones(*snapshot_.driver, CopyTo::kDevice, copies_of(link, flight), stream),
         stream);
  std::lock_guard lock(mutex_);
  link.added.push_back(std::move(flight));
}

void PeerSender::launch(Link& link, Flight flight, std::vector<ZoneCopy> copies, uint64_t bytes) {
  const CUstream stream = link.link->stream;
  link.link->clock.start(stream, bytes);
  const CUresult result = copy_zones(*snapshot_.driver, CopyTo::kDevice, std::move(copies), stream);
  link.link->clock.stop(stream);
  follow(flight, result, stream);
  link.flights.push_back(std::move(flight));
}

// Copies that were enqueued are followed to their end even if others could not be: they write to
// the blocks.
void PeerSender::follow(Flight& flight, CUresult result, CUstream stream) {
  flight.event = lane_.record(stream);
  if (flight.event == nullptr && result == CUDA_SUCCESS) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    snapshot_.fail(driver_status(*snapshot_.driver, "copying to the device of a peer", result));
  }
  if (flight.transfer != nullptr) snapshot_.zones->started(flight.transfer, flight.event);
}

bool PeerSender::done(bool nothing_left) {
  {
    std::lock_guard lock(mutex_);
    const bool flies = std::ranges::any_of(
        links_, [](const Link& link) { return !link.flights.empty() || !link.added.empty(); });
    if (flies) return false;
  }
  if (nothing_left && !std::exchange(has_left_, true)) balancer_.leave(number_);
  return true;
}

}  // namespace gpusnap
