#include "interpose/snapshot/offloader.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "interpose/services/mutation.h"
#include "interpose/services/text.h"
#include "interpose/snapshot/snapshot_run.h"
#include "interpose/snapshot/zone_copies.h"

namespace gpusnap {

namespace {
// Where the program is held: one is being copied while the next waits for the engine.
constexpr size_t kFlightsOfHeld = 2;
// One gathering uses one in so many blocks: calls that take it over need room for its zones again.
constexpr uint64_t kPartOfGathering = 16;
// Written to a file at once: enough for full bandwidth.
constexpr uint64_t kDirectBuffer = 4 << 20;
constexpr std::chrono::nanoseconds kShortPause = std::chrono::microseconds(20);
}  // namespace

Offloader::Offloader(SnapshotRun& snapshot, ProgramCopies& copies, DeviceLane& lane)
    : snapshot_(snapshot), lane_(lane), copy_throttle_(copies, lane.watch()) {}

void Offloader::run() {
  const CurrentContext current(snapshot_.driver, lane_.context());
  const RelaxedCapture relaxed(snapshot_.driver);
  const StagingPool::Standing standing(snapshot_.pool);
  last_slot_ = std::chrono::steady_clock::now();
  if (borrower_ != nullptr) ask_for_loans();
  while (!done()) {
    if (snapshot_.settings.organisation.device) {
      lane_.grow_cache(snapshot_.settings.device_cache, snapshot_.zone_bytes);
    }
    if (balancer_ != nullptr) lane_.let_devices_in();
    if (borrower_ != nullptr) borrower_->collect();
    const bool collected = collect();
    const bool started = start_more();
    if (!collected && !started) std::this_thread::sleep_for(pause());
  }
  direct_.reset();
}

// For what does not fit into the device's own buffer.
void Offloader::ask_for_loans() {
  const uint64_t pending =
      snapshot_.zones.pending_bytes(reinterpret_cast<uint64_t>(lane_.context()));
  const uint64_t room = lane_.room_bytes(snapshot_.settings.device_cache);
  if (pending <= room) return;
  const std::vector<pid_t> processes = snapshot_.pool.client().others();
  borrower_->ask(processes, pending - room);
}

// With one copy at a time the engine would be idle from its end to the next look.
std::chrono::nanoseconds Offloader::pause() const {
  const bool soon =
      (!flights_.empty() && most_flights() == 1) || (direct_ && direct_->is_calling());
  return std::min(snapshot_.settings.hints, soon ? kShortPause : std::chrono::nanoseconds::max());
}

bool Offloader::done() {
  // In this order: what a call has claimed is handed over before it is finished, and what peers
  // send before they leave.
  const bool busy = snapshot_.zones.busy(reinterpret_cast<uint64_t>(lane_.context()));
  has_own_ = busy;
  if (sender_ != nullptr && !sender_->done(!busy)) return false;
  if (busy || (balancer_ != nullptr && balancer_->expects(number_))) return false;
  std::lock_guard lock(mutex_);
  return copies_.empty() && added_.empty() && added_guests_.empty() && flights_.empty() &&
         gatherings_.empty() && duplicates_.empty() && guests_.empty() && fill_ == nullptr &&
         (!direct_ || direct_->idle());
}

void Offloader::balance(Balancer& balancer, size_t number) {
  balancer_ = &balancer;
  number_ = number;
  PeerSender::Snapshot snapshot;
  snapshot.driver = &snapshot_.driver;
  snapshot.zones = &snapshot_.zones;
  snapshot.zone_bytes = snapshot_.zone_bytes;
  snapshot.arrived = [this](void* event) { return snapshot_.arrived(event); };
  snapshot.fail = [this](const Status& why) { snapshot_.fail(why); };
  snapshot.publishes = snapshot_.settings.organisation.hints;
  sender_ = std::make_unique<PeerSender>(std::move(snapshot), lane_, number, balancer);
}

void Offloader::add_peer(size_t number, DeviceLane& lane, Offloader& offloader) {
  sender_->add({number, &lane, [&lane, &offloader](const BlocksOfZones& zones) {
                  offloader.add_guest(lane, zones);
                }});
}

void Offloader::add_lent(size_t number, LentBuffer& buffer) {
  sender_->add(
      {number, &buffer, [this, &buffer](const BlocksOfZones& zones) { add_guest(buffer, zones); }});
}

void Offloader::add_guest(PeerBuffer& buffer, const BlocksOfZones& zones) {
  std::lock_guard lock(mutex_);
  added_guests_.emplace_back(&buffer, zones);
}

void Offloader::add_duplicates(const TransferPtr& transfer) {
  std::lock_guard lock(mutex_);
  copies_.push_back(transfer);
}

void Offloader::add_flight(const TransferPtr& transfer, Slot* slot) {
  Flight flight;
  flight.fill = std::make_shared<Fill>(Fill{.slot = slot, .flights = 1});
  flight.transfer = transfer;
  std::lock_guard lock(mutex_);
  added_.push_back(std::move(flight));
}

// Zones first: calls may be waiting for them.
bool Offloader::collect() {
  lane_.stream_waits().collect();
  collect_copies();
  collect_gatherings();
  const bool sent = sender_ != nullptr && sender_->collect();
  if (balancer_ != nullptr) lane_.host_clock().look();
  const bool landed = collect_flights();
  return collect_direct() || landed || sent;
}

void Offloader::collect_copies() {
  std::vector<TransferPtr> arrived;
  {
    std::lock_guard lock(mutex_);
    const auto flying = std::partition(copies_.begin(), copies_.end(), [&](const auto& transfer) {
      return !snapshot_.arrived(transfer->event.get());
    });
    arrived.assign(flying, copies_.end());
    copies_.erase(flying, copies_.end());
  }
  for (const TransferPtr& transfer : arrived) {
    for (const TransferPiece& piece : transfer->pieces) add_duplicate(piece, piece.place);
    snapshot_.zones.finished(transfer, snapshot_.settings.organisation.hints);
  }
}

// Gathered zones are saved as soon as they are in the buffer; only what calls have taken over is
// there for nothing.
void Offloader::collect_gatherings() {
  std::erase_if(gatherings_, [&](Gathering& gathering) {
    Transfer& transfer = *gathering.transfer;
    if (!snapshot_.arrived(transfer.event.get())) return false;
    snapshot_.zones.finished(gathering.transfer, snapshot_.settings.organisation.hints);
    gathering.table->busy = false;
    const uint64_t zone = snapshot_.zone_bytes;
    for (const TransferPiece& piece : transfer.pieces) {
      const uint64_t first = gathering.first + piece.place / zone;
      if (piece.stolen) {
        lane_.give_back_blocks({first, (piece.size + zone - 1) / zone});
      } else {
        add_duplicate(piece, first);
      }
    }
    return true;
  });
}

void Offloader::add_duplicate(const TransferPiece& piece, uint64_t first) {
  const uint64_t zone = snapshot_.zone_bytes;
  duplicates_.push_back({piece, {first, (piece.size + zone - 1) / zone}});
}

bool Offloader::collect_flights() {
  {
    std::lock_guard lock(mutex_);
    for (Flight& flight : added_) flights_.push_back(std::move(flight));
    added_.clear();
    for (const auto& [buffer, zones] : added_guests_) guests_[buffer].push_back(zones);
    added_guests_.clear();
  }
  const size_t before = flights_.size();
  std::vector<std::shared_ptr<Fill>> landed;
  std::erase_if(flights_, [&](Flight& flight) {
    void* event = flight.transfer != nullptr ? flight.transfer->event.get() : flight.event.get();
    if (!snapshot_.arrived(event)) return false;
    Fill& fill = *flight.fill;
    if (flight.transfer != nullptr) {
      snapshot_.zones.finished(flight.transfer, snapshot_.settings.organisation.hints);
      flight.pieces = flight.transfer->pieces;
      for (TransferPiece& piece : flight.pieces) piece.place += flight.place;
    }
    fill.pieces.insert(fill.pieces.end(), flight.pieces.begin(), flight.pieces.end());
    for (BlockPool::Run blocks : flight.blocks) give_back(blocks, flight.guests_of);
    if (flight.from_direct) {
      left_flies_ = false;
      direct_->left_has_gone();
    }
    if (--fill.flights == 0 && flight.fill != fill_) landed.push_back(flight.fill);
    return true;
  });
  for (const auto& fill : landed) hand_over(*fill);
  return flights_.size() != before;
}

// Leaves out the pieces that calls have taken over; the rest closes up.
void Offloader::hand_over(Fill& fill) {
  Slot* slot = fill.slot;
  std::ranges::sort(fill.pieces, {}, &TransferPiece::place);
  std::vector<Piece> pieces;
  uint64_t used = 0;
  for (const TransferPiece& piece : fill.pieces) {
    if (piece.stolen) continue;
    if (piece.place != used) {
      std::memmove(slot->data + used, slot->data + piece.place, piece.size);
    }
    pieces.push_back({piece.range, piece.offset, piece.size});
    used += piece.size;
  }
  slot->used = used;
  learn(fill);
  if (pieces.empty() || snapshot_.failed()) return snapshot_.pool.release(slot);
  snapshot_.note_saved(used);
  snapshot_.writer().write(pieces, slot, snapshot_.check_of(pieces));
}

// How fast staging memory takes what is saved. Slots that are half empty say nothing of it.
void Offloader::learn(const Fill& fill) {
  const auto now = std::chrono::steady_clock::now();
  const bool tells =
      direct_ && fill.since.time_since_epoch().count() != 0 && fill.used * 2 >= fill.slot->capacity;
  if (tells) {
    const std::chrono::nanoseconds took = now - std::max(fill.since, last_fill_);
    snapshot_.direct->ended(SaveWay::kStaged, fill.used, static_cast<uint64_t>(took.count()));
  }
  last_fill_ = now;
}

bool Offloader::start_more() {
  if (snapshot_.failed()) {
    give_up();
    return false;
  }
  const bool sends = send_to_peers();
  const bool copies = start_to_host();
  const bool gathers = start_gathering();
  const bool direct = start_direct();
  return sends || copies || gathers || direct;
}

// Where the buffer gets full, what is in it makes room for what calls may have to duplicate.
bool Offloader::send_to_peers() {
  if (sender_ == nullptr) return false;
  const bool zones = sender_->start();
  return (has_own_ && lane_.few_blocks_left() && sender_->forward(duplicates_)) || zones;
}

void Offloader::give_up() {
  for (const BlocksOfZones& zones : duplicates_) give_back(zones.blocks, nullptr);
  for (const auto& [buffer, guests] : guests_) {
    for (const BlocksOfZones& zones : guests) give_back(zones.blocks, buffer);
  }
  duplicates_.clear();
  guests_.clear();
  if (direct_) direct_->give_up();
  close_fill();
}

void Offloader::give_back(BlockPool::Run blocks, PeerBuffer* guests_of) {
  if (guests_of != nullptr) {
    guests_of->give_back_guests(blocks);
  } else {
    lane_.give_back_blocks(blocks);
  }
}

bool Offloader::start_to_host() {
  if (flights_.size() >= most_flights()) return false;
  const bool has_left = direct_ && !direct_->left().empty();
  if (!has_own_ && !has_left && duplicates_.empty() && guests_.empty()) {
    // It waits for what peers may send, and needs no slot meanwhile.
    if (flights_.empty()) close_fill();
    last_slot_ = std::chrono::steady_clock::now();
    return false;
  }
  if (!snapshot_.holds_program() && copy_throttle_.stands_back(lane_.offload())) return false;
  // Zones that still have to be saved first, as long as calls find room for duplicates.
  DirectOffload* const direct = this->direct();
  const bool takes_zones = direct == nullptr || !direct->takes_runs();
  const auto start_pending = [&] { return takes_zones && start_zones(); };
  const auto start_own = [&] {
    return lane_.few_blocks_left() ? start_duplicates() || start_pending()
                                   : start_pending() || start_duplicates();
  };
  const bool started = start_left() || start_own() || start_guests();
  if (started) {
    copy_throttle_.started();
  } else if (fill_ != nullptr && (fill_->used == 0 || (flights_.empty() && gatherings_.empty()))) {
    close_fill();
  }
  return started;
}

uint64_t Offloader::most_bytes() const {
  return snapshot_.holds_program() ? snapshot_.pool.slot_bytes()
                                   : std::max(copy_throttle_.bytes(), snapshot_.zone_bytes);
}

size_t Offloader::most_flights() const {
  return snapshot_.holds_program() ? kFlightsOfHeld : copy_throttle_.flights();
}

Offloader::Fill* Offloader::open_fill() {
  if (fill_ != nullptr && fill_->slot->capacity - fill_->used < snapshot_.zone_bytes) {
    close_fill();
  }
  if (fill_ == nullptr) {
    Slot* slot = take_slot();
    if (!wanted_) wanted_ = std::chrono::steady_clock::now();
    if (slot != nullptr) fill_ = std::make_shared<Fill>(Fill{.slot = slot, .since = *wanted_});
    if (slot != nullptr) wanted_.reset();
  }
  return fill_.get();
}

void Offloader::close_fill() {
  const std::shared_ptr<Fill> fill = std::exchange(fill_, nullptr);
  if (fill != nullptr && fill->flights == 0) hand_over(*fill);
}

Slot* Offloader::take_slot() {
  auto slot = snapshot_.pool.acquire(std::chrono::nanoseconds(0));
  const auto now = std::chrono::steady_clock::now();
  if (slot.ok()) {
    last_slot_ = now;
    return slot.value();
  }
  if (slot.status().code() != Code::kBusy) {
    snapshot_.fail(slot.status());
  } else if (snapshot_.is_bounded() && now - last_slot_ > snapshot_.settings.max_stall) {
    snapshot_.fail(snapshot_.too_late(SnapshotRun::kNoRoom));
  }
  return nullptr;
}

bool Offloader::start_zones() {
  Fill* fill = open_fill();
  if (fill == nullptr) return false;
  const uint64_t zone = snapshot_.zone_bytes;
  const uint64_t most = std::min(most_bytes(), fill->slot->capacity - fill->used) / zone * zone;
  const auto scattered =
      lane_.blocks() == 0 ? SnapshotZones::Scattered::kCopy : SnapshotZones::Scattered::kLeave;
  Flight flight;
  flight.transfer = snapshot_.zones.claim_next(reinterpret_cast<uint64_t>(lane_.context()), most,
                                               kLargeRun, scattered);
  if (flight.transfer == nullptr) return false;
  flight.place = fill->used;
  fill->used += flight.transfer->bytes;
  if (balancer_ != nullptr) lane_.host_clock().start(lane_.offload(), flight.transfer->bytes);
  const CUresult result =
      snapshot_.copy_to_slot(*flight.transfer, fill->slot, flight.place, lane_.offload());
  if (balancer_ != nullptr) lane_.host_clock().stop(lane_.offload());
  launch(std::move(flight), result);
  return true;
}

DirectOffload* Offloader::direct() {
  if (direct_) return &*direct_;
  DirectStorage* const storage = snapshot_.direct;
  if (storage == nullptr || !storage->chosen()) return nullptr;
  DirectSink* const sink = snapshot_.writer().direct();
  const uint64_t zone = snapshot_.zone_bytes;
  const uint64_t slot = snapshot_.pool.slot_bytes();
  const uint64_t bytes = std::min(kDirectBuffer, slot) / zone * zone;
  const CUdeviceptr address = sink == nullptr ? 0 : lane_.direct_buffer(bytes);
  if (address == 0) return nullptr;
  return &direct_.emplace(*storage, *sink,
                          DirectOffload::Buffer{address, bytes, zone, slot, lane_.context()});
}

// The zones of a run are saved when it is in our buffer.
bool Offloader::start_direct() {
  DirectOffload* const direct = this->direct();
  if (direct == nullptr) return false;
  const auto context = reinterpret_cast<uint64_t>(lane_.context());
  const uint64_t room = direct->room();
  if (room == 0) {
    const bool is_busy = direct->run() != nullptr || direct->is_calling();
    if (!is_busy && !snapshot_.zones.busy(context)) direct->close_file();
    return false;
  }
  if (!snapshot_.holds_program() && copy_throttle_.stands_back(lane_.offload())) return false;
  const uint64_t large = snapshot_.direct->always() ? snapshot_.zone_bytes : kLargeRun;
  const TransferPtr run =
      snapshot_.zones.claim_next(context, room, large, SnapshotZones::Scattered::kLeave);
  if (run == nullptr) {
    direct->no_more_runs();
    direct->close_file();
    return false;
  }
  std::vector<ZoneCopy> copies;
  for (const TransferPiece& piece : run->pieces) {
    const uint64_t from = snapshot_.zones.ranges()[piece.range].address + piece.offset;
    copies.push_back({direct->address() + piece.place, from, piece.size, piece.range});
  }
  const CUresult result =
      copy_zones(snapshot_.driver, CopyTo::kDevice, std::move(copies), lane_.gathering());
  if (result != CUDA_SUCCESS) {
    snapshot_.fail(driver_status(snapshot_.driver, "copying device memory", result));
  }
  snapshot_.zones.started(run, lane_.record(lane_.gathering()));
  direct->begin(run);
  return true;
}

bool Offloader::collect_direct() {
  if (!direct_) return false;
  if (direct_->is_calling()) return collect_call();
  if (direct_->run() == nullptr) return false;
  const TransferPtr run = direct_->run();
  if (!snapshot_.arrived(run->event.get())) return false;
  snapshot_.zones.finished(run, snapshot_.settings.organisation.hints);
  if (snapshot_.failed()) {
    direct_->drop_run();
  } else {
    direct_->write();
  }
  return true;
}

bool Offloader::collect_call() {
  const auto written =
      direct_->collect(DirectOffload::Clock::now(), [this](uint32_t range, uint64_t offset) {
        return snapshot_.fingerprint_at_cut(range, offset);
      });
  if (!written) return false;
  snapshot_.note_direct(*written);
  return true;
}

// By staging memory, in one slot.
bool Offloader::start_left() {
  if (!direct_ || direct_->left().empty() || left_flies_) return false;
  uint64_t bytes = 0;
  for (const TransferPiece& piece : direct_->left()) bytes += piece.size;
  if (fill_ != nullptr && fill_->slot->capacity - fill_->used < bytes) close_fill();
  Fill* const fill = open_fill();
  if (fill == nullptr || fill->slot->capacity - fill->used < bytes) return false;
  Flight flight;
  flight.from_direct = true;
  std::vector<ZoneCopy> copies;
  for (TransferPiece piece : direct_->left()) {
    const uint64_t to = reinterpret_cast<uint64_t>(fill->slot->data + fill->used);
    copies.push_back({to, direct_->address() + piece.place, piece.size});
    piece.place = fill->used;
    fill->used += piece.size;
    flight.pieces.push_back(piece);
  }
  left_flies_ = true;
  const CUresult result =
      copy_zones(snapshot_.driver, CopyTo::kHost, std::move(copies), lane_.offload());
  launch(std::move(flight), result);
  return true;
}

// As long as calls find room for duplicates, too. Needs nothing of the link.
bool Offloader::start_gathering() {
  GatherTable* table = lane_.free_gather_table();
  if (table == nullptr || lane_.blocks() == 0 || lane_.few_blocks_left()) return false;
  const uint64_t zone = snapshot_.zone_bytes;
  const uint64_t part = std::max<uint64_t>(lane_.blocks() / kPartOfGathering, 1);
  const BlockPool::Run run = lane_.take_blocks(std::min(part, snapshot_.pool.slot_bytes() / zone));
  if (run.count == 0) return false;
  Gathering gathering{nullptr, table, run.first};
  gathering.transfer =
      snapshot_.zones.claim_next(reinterpret_cast<uint64_t>(lane_.context()), run.count * zone,
                                 kLargeRun, SnapshotZones::Scattered::kGather);
  uint64_t used = 0;
  std::vector<DeviceCode::Piece> pieces;
  if (gathering.transfer != nullptr) {
    for (const TransferPiece& piece : gathering.transfer->pieces) {
      const uint64_t from = snapshot_.zones.ranges()[piece.range].address + piece.offset;
      pieces.push_back({from, lane_.block(run.first) + piece.place, piece.size});
      used = (piece.place + piece.size + zone - 1) / zone;
    }
  }
  lane_.give_back_blocks({run.first + used, run.count - used});
  if (gathering.transfer == nullptr) return false;
  const CUresult result = lane_.gather(*table, pieces);
  if (result != CUDA_SUCCESS) {
    snapshot_.fail(driver_status(snapshot_.driver, "gathering device memory", result));
  }
  table->busy = true;
  snapshot_.zones.started(gathering.transfer, lane_.record(lane_.gathering()));
  gatherings_.push_back(std::move(gathering));
  return true;
}

bool Offloader::start_duplicates() {
  return start_from_blocks(duplicates_, nullptr);
}

bool Offloader::start_guests() {
  if (guests_.empty()) return false;
  const auto first = guests_.begin();
  const bool started = start_from_blocks(first->second, first->first);
  if (first->second.empty()) guests_.erase(first);
  return started;
}

bool Offloader::start_from_blocks(std::deque<BlocksOfZones>& zones, PeerBuffer* guests_of) {
  if (zones.empty()) return false;
  Flight flight;
  flight.guests_of = guests_of;
  std::vector<ZoneCopy> copies;
  if (!take_from_blocks(zones, flight, copies)) return false;
  const CUresult result =
      copy_zones(snapshot_.driver, CopyTo::kHost, std::move(copies), lane_.offload());
  launch(std::move(flight), result);
  return true;
}

// Blocks are given out one after the other: what lies together is copied at once, with the ends of
// blocks that short zones leave unused.
bool Offloader::take_from_blocks(std::deque<BlocksOfZones>& zones, Flight& flight,
                                 std::vector<ZoneCopy>& copies) {
  Fill* fill = open_fill();
  if (fill == nullptr) return false;
  const uint64_t zone = snapshot_.zone_bytes;
  uint64_t left = std::min(most_bytes(), fill->slot->capacity - fill->used) / zone;
  while (left != 0 && !zones.empty()) {
    BlocksOfZones part = take_front(zones, left, zone);
    part.piece.place = fill->used;
    const uint64_t bytes = part.blocks.count * zone;
    PeerBuffer& buffer = flight.guests_of == nullptr ? lane_ : *flight.guests_of;
    copies.push_back({reinterpret_cast<uint64_t>(fill->slot->data + fill->used),
                      buffer.block(part.blocks.first), bytes});
    flight.pieces.push_back(part.piece);
    flight.blocks.push_back(part.blocks);
    fill->used += bytes;
    left -= part.blocks.count;
  }
  return true;
}

// Enqueued work is followed to its end even if more could not be enqueued: it writes to the slot.
void Offloader::launch(Flight flight, CUresult result) {
  flight.fill = fill_;
  ++fill_->flights;
  std::shared_ptr<void> event = lane_.record(lane_.offload());
  if (event == nullptr && result == CUDA_SUCCESS) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    snapshot_.fail(driver_status(snapshot_.driver, "copying device memory", result));
  }
  if (flight.transfer != nullptr) {
    snapshot_.zones.started(flight.transfer, event);
    if (mutated(Mutation::kClearPendingEarly)) snapshot_.zones.finished(flight.transfer, true);
  } else {
    flight.event = event;
  }
  flights_.push_back(std::move(flight));
}

}  // namespace gpusnap
