#include "interpose/offloader.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "interpose/mutation.h"
#include "interpose/snapshots.h"
#include "interpose/text.h"
#include "interpose/zone_copies.h"

namespace gpusnap {

namespace {
// From here on a copy of its own runs at full bandwidth (section 4.3.1, figure 9).
constexpr uint64_t kLargeRun = 512 << 10;
// Enough for full bandwidth; what the program copies itself need not wait for more.
constexpr uint64_t kMostOfCopy = 1 << 20;
// One is being copied while the next waits for the engine: more would only be in the way of calls.
constexpr size_t kMostFlights = 2;
}  // namespace

Offloader::Offloader(Snapshots& snapshots, DeviceLane& lane) : snapshots_(snapshots), lane_(lane) {}

void Offloader::run() {
  const CurrentContext current(snapshots_.driver_, lane_.context());
  const RelaxedCapture relaxed(snapshots_.driver_);
  if (snapshots_.settings_.organisation.device) {
    lane_.set_up_cache(snapshots_.settings_.device_cache, snapshots_.zone_bytes_,
                       snapshots_.pool_.slot_bytes());
  }
  last_slot_ = std::chrono::steady_clock::now();
  while (!done()) {
    const bool collected = collect();
    const bool started = start_more();
    if (!collected && !started) std::this_thread::sleep_for(snapshots_.settings_.hints);
  }
}

bool Offloader::done() {
  // In this order: what a call has claimed is handed over before it is finished.
  if (snapshots_.zones_.busy(reinterpret_cast<uint64_t>(lane_.context()))) return false;
  std::lock_guard lock(mutex_);
  return copies_.empty() && added_.empty() && flights_.empty() && duplicates_.empty();
}

void Offloader::add_duplicates(const TransferPtr& transfer) {
  std::lock_guard lock(mutex_);
  copies_.push_back(transfer);
}

void Offloader::add_flight(const TransferPtr& transfer, Slot* slot) {
  Flight flight;
  flight.slot = slot;
  flight.transfer = transfer;
  std::lock_guard lock(mutex_);
  added_.push_back(std::move(flight));
}

// Zones first: calls may be waiting for them.
bool Offloader::collect() {
  collect_copies();
  std::vector<Flight> landed;
  const bool any = collect_flights(landed);
  for (Flight& flight : landed) hand_over(flight);
  return any;
}

void Offloader::collect_copies() {
  std::vector<TransferPtr> arrived;
  {
    std::lock_guard lock(mutex_);
    const auto flying = std::partition(copies_.begin(), copies_.end(), [&](const auto& transfer) {
      return !snapshots_.arrived(transfer->event.get());
    });
    arrived.assign(flying, copies_.end());
    copies_.erase(flying, copies_.end());
  }
  for (const TransferPtr& transfer : arrived) {
    for (const TransferPiece& piece : transfer->pieces) {
      const uint64_t zone = snapshots_.zone_bytes_;
      const BlockPool::Run blocks{piece.place, (piece.size + zone - 1) / zone};
      duplicates_.push_back({piece, blocks});
    }
    snapshots_.zones_.finished(transfer, snapshots_.settings_.organisation.hints);
  }
}

bool Offloader::collect_flights(std::vector<Flight>& landed) {
  {
    std::lock_guard lock(mutex_);
    for (Flight& flight : added_) flights_.push_back(std::move(flight));
    added_.clear();
  }
  for (auto it = flights_.begin(); it != flights_.end();) {
    void* event = it->transfer != nullptr ? it->transfer->event.get() : it->event.get();
    if (!snapshots_.arrived(event)) {
      ++it;
      continue;
    }
    if (it->transfer != nullptr) {
      snapshots_.zones_.finished(it->transfer, snapshots_.settings_.organisation.hints);
      it->pieces = it->transfer->pieces;
    }
    if (it->buffer != nullptr) it->buffer->busy = false;
    for (BlockPool::Run blocks : it->blocks) lane_.give_back_blocks(blocks);
    landed.push_back(std::move(*it));
    it = flights_.erase(it);
  }
  return !landed.empty();
}

// What was taken over by calls is left out; the rest closes up.
void Offloader::hand_over(Flight& flight) {
  Slot* slot = flight.slot;
  std::vector<Piece> pieces;
  uint64_t used = 0;
  for (const TransferPiece& piece : flight.pieces) {
    if (piece.stolen) continue;
    if (piece.place != used) {
      std::memmove(slot->data + used, slot->data + piece.place, piece.size);
    }
    pieces.push_back({piece.range, piece.offset, piece.size});
    used += piece.size;
  }
  slot->used = used;
  snapshots_.hand_over(pieces, slot);
}

bool Offloader::start_more() {
  if (snapshots_.failed()) {
    for (const Duplicate& duplicate : duplicates_) lane_.give_back_blocks(duplicate.blocks);
    duplicates_.clear();
    return false;
  }
  if (flights_.size() >= kMostFlights) return false;
  // Zones that still have to be saved first, as long as calls find room for duplicates.
  if (lane_.few_blocks_left()) return start_duplicates() || start_zones();
  return start_zones() || start_duplicates();
}

// Where the program is held nothing of its own waits for a copy of ours.
uint64_t Offloader::most_of_copy() const {
  return snapshots_.settings_.organisation.blocking ? UINT64_MAX : kMostOfCopy;
}

Slot* Offloader::take_slot() {
  auto slot = snapshots_.pool_.acquire(std::chrono::nanoseconds(0));
  const auto now = std::chrono::steady_clock::now();
  if (slot.ok()) {
    last_slot_ = now;
    return slot.value();
  }
  if (slot.status().code() != Code::kBusy) {
    snapshots_.fail(slot.status());
  } else if (snapshots_.is_bounded() && now - last_slot_ > snapshots_.settings_.max_stall) {
    snapshots_.fail(snapshots_.too_late(Snapshots::kNoRoom));
  }
  return nullptr;
}

bool Offloader::start_zones() {
  const bool gathers = snapshots_.settings_.organisation.device && lane_.gathers();
  GatherBuffer* buffer = gathers ? lane_.free_gather_buffer() : nullptr;
  using Scattered = SnapshotZones::Scattered;
  const Scattered scattered = !gathers            ? Scattered::kCopy
                              : buffer == nullptr ? Scattered::kLeave
                                                  : Scattered::kGather;
  Slot* slot = take_slot();
  if (slot == nullptr) return false;
  const uint64_t zone = snapshots_.zone_bytes_;
  uint64_t most = slot->capacity / zone * zone;
  if (buffer != nullptr) most = std::min(most, buffer->size);
  Flight flight;
  flight.transfer = snapshots_.zones_.claim_next(reinterpret_cast<uint64_t>(lane_.context()), most,
                                                 kLargeRun, scattered);
  if (flight.transfer == nullptr) {
    snapshots_.pool_.release(slot);
    return false;
  }
  flight.slot = slot;
  if (flight.transfer->kind == Transfer::Kind::kGather) flight.buffer = buffer;
  const CUresult result =
      flight.buffer != nullptr
          ? gather_pieces(flight)
          : snapshots_.copy_to_slot(*flight.transfer, slot, lane_.offload(), most_of_copy());
  launch(std::move(flight), result);
  return true;
}

CUresult Offloader::gather_pieces(Flight& flight) {
  std::vector<DeviceCode::Piece> pieces;
  for (const TransferPiece& piece : flight.transfer->pieces) {
    const uint64_t from = snapshots_.zones_.ranges()[piece.range].address + piece.offset;
    pieces.push_back({from, flight.buffer->data + piece.place, piece.size});
  }
  const CUresult result = lane_.gather(*flight.buffer, pieces);
  if (result != CUDA_SUCCESS) return result;
  flight.buffer->busy = true;
  const ZoneCopy copy{reinterpret_cast<uint64_t>(flight.slot->data), flight.buffer->data,
                      flight.transfer->bytes};
  return copy_zones(snapshots_.driver_, CopyTo::kHost, {copy}, lane_.offload(), most_of_copy());
}

bool Offloader::start_duplicates() {
  if (duplicates_.empty()) return false;
  Slot* slot = take_slot();
  if (slot == nullptr) return false;
  Flight flight;
  flight.slot = slot;
  const uint64_t zone = snapshots_.zone_bytes_;
  // Blocks are given out one after the other: what lies together is copied at once, with the ends
  // of blocks that short zones leave unused.
  std::vector<ZoneCopy> copies;
  uint64_t used = 0;
  size_t taken = 0;
  for (; taken < duplicates_.size(); ++taken) {
    Duplicate& duplicate = duplicates_[taken];
    const uint64_t room = duplicate.blocks.count * zone;
    if (used + room > slot->capacity) break;
    copies.push_back(
        {reinterpret_cast<uint64_t>(slot->data + used), lane_.block(duplicate.blocks.first), room});
    duplicate.piece.place = used;
    flight.pieces.push_back(duplicate.piece);
    flight.blocks.push_back(duplicate.blocks);
    used += room;
  }
  duplicates_.erase(duplicates_.begin(), duplicates_.begin() + static_cast<ptrdiff_t>(taken));
  const CUresult result = copy_zones(snapshots_.driver_, CopyTo::kHost, std::move(copies),
                                     lane_.offload(), kMostOfCopy);
  launch(std::move(flight), result);
  return true;
}

// What was enqueued is followed to its end even where more could not be: it writes to the slot.
void Offloader::launch(Flight flight, CUresult result) {
  std::shared_ptr<void> event = snapshots_.record(lane_, lane_.offload());
  if (event == nullptr && result == CUDA_SUCCESS) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    snapshots_.fail(driver_status(snapshots_.driver_, "copying device memory", result));
  }
  if (flight.transfer != nullptr) {
    snapshots_.zones_.started(flight.transfer, event);
    if (mutated(Mutation::kClearPendingEarly)) snapshots_.zones_.finished(flight.transfer, true);
  } else {
    flight.event = event;
  }
  flights_.push_back(std::move(flight));
}

}  // namespace gpusnap
