#include "interpose/snapshot/snapshots.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "interpose/services/log.h"
#include "interpose/snapshot/mutation.h"
#include "interpose/snapshot/zone_copies.h"
#include "interpose/text.h"
#include "tiers/daemon/start.h"

namespace gpusnap {

namespace {
constexpr uint64_t kFineZone = 4096;  // of i-fg

uint64_t handle(CUcontext context) {
  return reinterpret_cast<uint64_t>(context);
}
}  // namespace

void Snapshots::add_once(std::vector<TransferPtr>& to, const std::vector<TransferPtr>& from) {
  for (const TransferPtr& transfer : from) {
    if (std::ranges::find(to, transfer) == to.end()) to.push_back(transfer);
  }
}

// Room in the device buffers of all contexts.
class Snapshots::Blocks : public SnapshotZones::Room {
 public:
  explicit Blocks(const Snapshots& snapshots) : snapshots_(snapshots) {}
  uint64_t take(uint64_t context, uint64_t bytes, uint64_t* place) override {
    DeviceLane* lane = snapshots_.lane_of(context);
    if (lane == nullptr) return 0;
    const uint64_t zone = snapshots_.zone_bytes_;
    // No more than a slot takes: a piece is moved to host memory as a whole.
    const uint64_t most = snapshots_.pool_.slot_bytes() / zone;
    const BlockPool::Run run = lane->take_blocks(std::min((bytes + zone - 1) / zone, most));
    *place = run.first;
    return std::min(bytes, run.count * zone);
  }
  Transfer::Kind kind() const override { return Transfer::Kind::kDuplicate; }

 private:
  const Snapshots& snapshots_;
};

// Room in one slot, for zones of the first context that asks.
class Snapshots::OneSlot : public SnapshotZones::Room {
 public:
  OneSlot(const Slot& slot, uint64_t zone_bytes) : left_(slot.capacity), zone_bytes_(zone_bytes) {}
  uint64_t take(uint64_t context, uint64_t bytes, uint64_t* place) override {
    if (context_ == 0) context_ = context;
    const uint64_t size = bytes <= left_ ? bytes : left_ / zone_bytes_ * zone_bytes_;
    if (context != context_ || size == 0) return 0;
    *place = used_;
    used_ += size;
    left_ -= size;
    return size;
  }
  Transfer::Kind kind() const override { return Transfer::Kind::kDirect; }

 private:
  uint64_t context_ = 0;
  uint64_t used_ = 0, left_;
  const uint64_t zone_bytes_;
};

Snapshots::Snapshots(const Driver& driver, const Settings& settings, Workers& workers,
                     StagingPool& pool, DirectStorage* direct)
    : driver_(driver),
      settings_(settings),
      growth_turns_(node_name(settings.node), "device-memory"),
      dirty_from_calls_(settings.dirty_from_calls),
      zone_bytes_(settings.organisation.fine ? kFineZone : settings.zone),
      workers_(workers),
      pool_(pool),
      direct_(direct),
      wanted_(settings.dirty_from_calls) {}

Snapshots::~Snapshots() = default;

void Snapshots::add_context(CUcontext context) {
  const RelaxedCapture relaxed(driver_);
  // As for pinning: other ways are there to compare with those that take no turns.
  const bool in_turn = settings_.pin == Pinning::kStepwise;
  auto lane = DeviceLane::make(driver_, context, in_turn ? &growth_turns_ : nullptr,
                               settings_.balance == Balance::kNode);
  if (!lane.ok()) {
    log(LogLevel::kWarn, "no checkpoints of this context: ", lane.status().message());
    return;
  }
  connect(*lane.value());
  std::lock_guard lock(lanes_mutex_);
  lanes_[context] = std::move(lane.value());
}

std::unique_ptr<DeviceLane> Snapshots::forget_context(CUcontext context) {
  offloaders_.erase(context);
  std::lock_guard lock(lanes_mutex_);
  const auto lane = lanes_.extract(context);
  return lane.empty() ? nullptr : std::move(lane.mapped());
}

uint64_t Snapshots::own_bytes(CUcontext context) {
  DeviceLane* lane = lane_of(handle(context));
  return lane == nullptr ? 0 : lane->own_bytes();
}

CUstream Snapshots::reading_stream(CUcontext context) const {
  const DeviceLane* lane = lane_of(handle(context));
  return lane == nullptr ? CU_STREAM_LEGACY : lane->reading();
}

bool Snapshots::make_room(CUcontext context) {
  const DeviceLane* lane = lane_of(handle(context));
  if (lane == nullptr) return false;
  const int device = lane->device();
  // A snapshot that has just begun may be about to get its buffer.
  const bool was_running = running();
  end();
  return release_caches(device) || was_running;
}

bool Snapshots::release_caches(std::optional<int> device) {
  wait_for_loans(device);
  std::vector<GrowingMemory> caches;
  {
    std::lock_guard lock(lanes_mutex_);
    for (auto& [context, lane] : lanes_) {
      if (device && lane->device() != *device) continue;
      GrowingMemory cache = lane->take_cache();
      if (cache.address != 0) caches.push_back(std::move(cache));
    }
  }
  // The driver waits for all that is queued, and host functions of the program may be.
  for (const GrowingMemory& cache : caches) unmap_memory(driver_, cache);
  return !caches.empty();
}

void Snapshots::end() {
  hold_host([this] { return running(); },
            "the program's next call could not be kept apart from it, and not all was saved");
}

void Snapshots::retire() {
  (void)release_caches({});
}

DeviceLane* Snapshots::lane_of(uint64_t context) const {
  std::lock_guard lock(lanes_mutex_);
  auto it = lanes_.find(reinterpret_cast<CUcontext>(context));
  return it == lanes_.end() ? nullptr : it->second.get();
}

Status Snapshots::fingerprint_all() {
  for (auto& [context, lane] : lanes_) {
    std::vector<DeviceLane::Fingerprinted> ranges;
    for (TrackedRange& range : zones_.ranges()) {
      if (range.context != handle(context)) continue;
      range.at_cut.resize(range.zones.zones());
      ranges.push_back({range.address, range.size, range.at_cut});
    }
    CurrentContext current(driver_, context);
    if (Status status = lane->fingerprint(ranges, zone_bytes_); !status.ok()) return status;
  }
  return {};
}

Result<Snapshots::Cut> Snapshots::cut(const MemoryMap& memory, bool full) {
  zones_.update(memory, zone_bytes_);
  for (const TrackedRange& range : zones_.ranges()) {
    if (lane_of(range.context) == nullptr) {
      return Status(Code::kUnsupported, "device memory " + range_text(range.address, range.size) +
                                            " is of a context in which we have no kernels");
    }
  }
  if (!dirty_from_calls_) {
    if (Status status = fingerprint_all(); !status.ok()) return status;
  }
  // Arrays are written by calls that do not say so, and what is shared by others' calls.
  shared_.clear();
  for (const auto& [address, range] : memory.ranges()) {
    if (range.shared) shared_.push_back(address);
    if (!dirty_from_calls_ || (range.kind != MemoryKind::kArray && !range.shared)) continue;
    WriteSet copy;
    copy.add_range_of(address);
    zones_.mark_dirty(copy);
  }
  const uint64_t bytes = zones_.begin(full, [this](const TrackedRange& range, uint64_t zone) {
    return dirty_from_calls_ ? range.zones.is(ZoneBit::kDirty, zone)
                             : range.at_cut[zone] != range.saved[zone];
  });
  std::lock_guard lock(mutex_);
  suspects_.begin_snapshot();
  status_ = {};
  counts_ = {};
  return Cut{full, bytes};
}

void Snapshots::start(CheckpointWriter& writer, bool hold, OnEnd on_end) {
  writer_ = &writer;
  on_end_ = std::move(on_end);
  forced_ = hold;
  waiting_.store(false, std::memory_order_relaxed);
  make_offloaders();
  saved_bytes_.store(0, std::memory_order_relaxed);
  direct_bytes_.store(0, std::memory_order_relaxed);
  lanes_running_ = offloaders_.size() + 1;  // one for us, while we start the others
  running_.store(true, std::memory_order_release);
  wanted_.store(true, std::memory_order_release);
  const bool holds = hold || settings_.organisation.blocking;
  if (!holds) duplicate_shared();
  for (auto& [context, offloader] : offloaders_) {
    auto body = [this, &o = *offloader, borrower = borrower_] {
      o.run();
      lane_ended();
      // The driver waits for all that is queued: nobody waits for this.
      if (borrower != nullptr) borrower->give_back();
    };
    if (workers_.spawn(body)) continue;
    // It would wait for peers that begin after it.
    if (balancer_ != nullptr) balancer_->stop();
    body();
  }
  lane_ended();
  if (holds) wait_end();
}

// Before the lanes begin: a zone that is on its way to the host is not copied on the device, and
// other ranks would wait for the slower way.
void Snapshots::duplicate_shared() {
  std::vector<TransferPtr> waits;
  for (const uint64_t address : shared_) {
    WriteSet all;
    all.add_range_of(address);
    (void)copy_to_device(all, false, waits);
  }
}

void Snapshots::read_shared() {
  for (const uint64_t address : shared_) {
    WriteSet all;
    all.add_range_of(address);
    std::vector<TransferPtr> waits;
    hold_host([&] { return !copy_first(all, false, waits); }, kNoRoom);
    hold_call(waits, nullptr, Hold::kHost);
  }
}

void Snapshots::wait_end() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return !running(); });
}

void Snapshots::lane_ended() {
  Status status;
  WriteCounts counts;
  {
    std::lock_guard lock(mutex_);
    if (--lanes_running_ != 0) return;
  }
  const uint64_t streams_ns = waited_by_streams();
  {
    std::lock_guard lock(mutex_);
    counts_.waits.streams_ns = streams_ns;
    counts_.direct_bytes = direct_bytes_.load(std::memory_order_relaxed);
    if (balancer_ != nullptr) counts_.peer_bytes = balancer_->sent();
    status = status_;
    counts = counts_;
  }
  zones_.publish_all();
  on_end_(status, counts);
  std::lock_guard lock(mutex_);
  running_.store(false, std::memory_order_release);
  wanted_.store(dirty_from_calls_ || has_stuck_write(), std::memory_order_release);
  ended_.notify_all();
}

uint64_t Snapshots::waited_by_streams() {
  uint64_t sum = 0;
  for (const auto& [context, offloader] : offloaders_) {
    const CurrentContext current(driver_, context);
    const RelaxedCapture relaxed(driver_);
    sum += lane_of(handle(context))->stream_waits().finish();
  }
  return sum;
}

void Snapshots::complete() {
  zones_.complete();
  std::lock_guard lock(mutex_);
  suspects_.complete();
}

void Snapshots::drop(const Status& why) {
  zones_.drop();
  // It may be the library that has not written what was there: that is not tried twice.
  if (why.code() == Code::kTorn && direct_bytes_.load(std::memory_order_relaxed) > 0) {
    direct_->fail(why);
  }
  std::lock_guard lock(mutex_);
  if (why.code() == Code::kTorn) (void)suspects_.torn();
}

Status Snapshots::adopt(const MemoryMap& memory,
                        const std::function<bool(const TrackedRange&)>& in_checkpoint) {
  zones_.update(memory, zone_bytes_);
  if (!dirty_from_calls_) {
    if (Status status = fingerprint_all(); !status.ok()) return status;
  }
  zones_.adopt(in_checkpoint);
  return {};
}

Snapshots::Trust Snapshots::trust(const WriteSet& set) {
  if (set.everything()) return Trust::kOpaque;
  if (set.proven()) return Trust::kKnown;
  if (!settings_.speculate || dirty_from_calls_) return Trust::kOpaque;
  if (!zones_.active()) return Trust::kGuess;
  std::lock_guard lock(mutex_);
  for (uint32_t kernel : set.guesses()) {
    if (suspects_.is_opaque(kernel)) return Trust::kOpaque;
  }
  for (uint32_t kernel : set.guesses()) suspects_.launched(kernel);
  return Trust::kGuess;
}

void Snapshots::count(const WriteSet& set, Trust trust, bool waited) {
  std::lock_guard lock(mutex_);
  CallCounts& calls = counts_.calls;
  if (!set.launch()) {
    ++(waited ? calls.others_waited : calls.others_free);
    return;
  }
  ++(waited ? calls.launches_waited : calls.launches_free);
  if (trust == Trust::kGuess) ++calls.launches_guessed;
  if (trust == Trust::kOpaque) ++calls.launches_opaque;
}

void Snapshots::before_write(const WriteSet& given, CUstream stream, Hold hold, bool freed) {
  WriteSet all;
  const Trust trusted = trust(given);
  if (trusted == Trust::kOpaque) all.add_everything();
  const WriteSet& set = trusted == Trust::kOpaque ? all : given;
  if (dirty_from_calls_) zones_.mark_dirty(set);
  // A context that ends takes our buffers with it.
  if (freed && set.everything()) {
    end();
    while (has_stuck_write()) std::this_thread::sleep_for(settings_.hints);
    return;
  }
  if (!running()) return;
  if (!zones_.active()) return;
  std::vector<TransferPtr> waits;
  if (settings_.organisation.hints || freed) {
    hold_host([&] { return !copy_first(set, freed, waits); }, kNoRoom);
  } else {
    hold_host(
        [&] {
          const bool needed = zones_.touches(set);
          if (needed) waiting_.store(true, std::memory_order_relaxed);
          return needed;
        },
        kNoRoom);
  }
  hold_call(waits, stream, hold);
  count(given, trusted, !waits.empty());
}

void Snapshots::hold_host(const std::function<bool()>& needed, const char* why) {
  const auto start = Clock::now();
  bool held = false;
  while (needed()) {
    held = true;
    if (!failed() && Clock::now() - start > settings_.max_stall && !forced_) fail(too_late(why));
    std::this_thread::sleep_for(settings_.hints);
  }
  if (!held) return;
  std::lock_guard lock(mutex_);
  counts_.waits.calls_ns += static_cast<uint64_t>((Clock::now() - start).count());
}

bool Snapshots::copy_first(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits) {
  return copy_to_device(set, freed, waits) || copy_to_peers(set, freed, waits) ||
         copy_ahead(set, freed, waits);
}

// Duplicate-on-write (section 4.3.2).
bool Snapshots::copy_to_device(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits) {
  Blocks blocks(*this);
  const auto claim = zones_.claim(set, blocks, freed);
  for (const TransferPtr& transfer : claim.claimed) start_duplicate(transfer);
  add_once(waits, claim.claimed);
  add_once(waits, claim.in_flight);
  return !claim.left;
}

// Ahead of what the offloader would save next (section 4.1.5).
bool Snapshots::copy_ahead(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits) {
  for (;;) {
    auto slot = pool_.acquire(std::chrono::nanoseconds(0));
    if (!slot.ok()) return false;
    OneSlot room(*slot.value(), zone_bytes_);
    const auto claim = zones_.claim(set, room, freed);
    add_once(waits, claim.in_flight);
    if (claim.claimed.empty()) {
      pool_.release(slot.value());
      return !claim.left;
    }
    const TransferPtr& transfer = claim.claimed.front();
    DeviceLane& lane = *lane_of(transfer->context);
    CurrentContext current(driver_, lane.context());
    const CUresult result = copy_to_slot(*transfer, slot.value(), 0, lane.gate_to_host());
    if (result != CUDA_SUCCESS) fail(driver_status(driver_, "copying device memory", result));
    zones_.started(transfer, lane.record(lane.gate_to_host()));
    offloaders_.at(lane.context())->add_flight(transfer, slot.value());
    waits.push_back(transfer);
    if (!claim.left) return true;
  }
}

void Snapshots::start_duplicate(const TransferPtr& transfer) {
  DeviceLane& lane = *lane_of(transfer->context);
  CurrentContext current(driver_, lane.context());
  std::vector<ZoneCopy> copies;
  for (const TransferPiece& piece : transfer->pieces) {
    if (mutated(Mutation::kSkipDuplicate)) break;
    const uint64_t from = zones_.ranges()[piece.range].address + piece.offset;
    copies.push_back({lane.block(piece.place), from, piece.size, piece.range});
  }
  const CUresult result = copy_zones(driver_, CopyTo::kDevice, std::move(copies), lane.gate());
  if (result != CUDA_SUCCESS) fail(driver_status(driver_, "duplicating device memory", result));
  zones_.started(transfer, lane.record(lane.gate()));
  offloaders_.at(lane.context())->add_duplicates(transfer);
}

void Snapshots::hold_call(const std::vector<TransferPtr>& waits, CUstream stream, Hold hold) {
  if (waits.empty()) return;
  if (hold == Hold::kStream) return hold_stream(waits, stream);
  for (const TransferPtr& transfer : waits) await_on_host(transfer);
}

void Snapshots::hold_stream(const std::vector<TransferPtr>& waits, CUstream stream) {
  StreamWaits* const measured = stream_waits();
  const CUevent from = measured == nullptr ? nullptr : measured->begin(stream);
  for (const TransferPtr& transfer : waits) {
    zones_.wait_started(transfer);
    auto* event = static_cast<CUevent>(transfer->event.get());
    if (event == nullptr || mutated(Mutation::kSkipEventWait)) continue;
    if (driver_.cuStreamWaitEvent(stream, event, 0) != CUDA_SUCCESS) await_on_host(transfer);
  }
  if (from != nullptr) measured->end(from, stream);
}

void Snapshots::await_on_host(const TransferPtr& transfer) {
  const auto start = Clock::now();
  zones_.wait_started(transfer);
  void* const event = transfer->event.get();
  if (event == nullptr || mutated(Mutation::kSkipEventWait)) return;
  while (!arrived(event)) usleep(20);
  std::lock_guard lock(mutex_);
  counts_.waits.frees_ns += static_cast<uint64_t>((Clock::now() - start).count());
}

StreamWaits* Snapshots::stream_waits() const {
  CUcontext context = nullptr;
  if (driver_.cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
  DeviceLane* const lane = lane_of(handle(context));
  return lane == nullptr ? nullptr : &lane->stream_waits();
}

CUresult Snapshots::copy_to_slot(const Transfer& transfer, Slot* slot, uint64_t place,
                                 CUstream stream) {
  std::vector<ZoneCopy> copies;
  for (const TransferPiece& piece : transfer.pieces) {
    const uint64_t from = zones_.ranges()[piece.range].address + piece.offset;
    copies.push_back({reinterpret_cast<uint64_t>(slot->data + place + piece.place), from,
                      piece.size, piece.range});
  }
  return copy_zones(driver_, CopyTo::kHost, std::move(copies), stream);
}

// A copy that ended by an error has arrived, too; nothing of the snapshot can be used then.
bool Snapshots::arrived(void* event) {
  if (event == nullptr) return true;
  const CUresult result = driver_.cuEventQuery(static_cast<CUevent>(event));
  if (result == CUDA_ERROR_NOT_READY) return false;
  if (result != CUDA_SUCCESS) fail(driver_status(driver_, "copying device memory", result));
  return true;
}

void Snapshots::hand_over(std::span<const Piece> pieces, Slot* slot) {
  if (pieces.empty() || failed()) {
    pool_.release(slot);
    return;
  }
  saved_bytes_.fetch_add(slot->used, std::memory_order_relaxed);
  if (dirty_from_calls_ || mutated(Mutation::kSkipHashCompare)) {
    writer_->write(pieces, slot);
    return;
  }
  // The fingerprints at the cut, in the order in which the zones lie in the slot.
  std::vector<std::pair<uint64_t, uint64_t>> expected;  // bytes, fingerprint
  for (const Piece& piece : pieces) {
    const TrackedRange& range = zones_.ranges()[piece.range];
    for (uint64_t done = 0; done < piece.size;) {
      const uint64_t size = std::min(zone_bytes_, piece.size - done);
      expected.emplace_back(size, range.at_cut[(piece.offset + done) / zone_bytes_]);
      done += size;
    }
  }
  writer_->write(pieces, slot, [expected = std::move(expected)](std::span<const std::byte> bytes) {
    for (const auto& [size, at_cut] : expected) {
      if (fingerprint(bytes.first(size)) != at_cut) {
        return Status(Code::kTorn,
                      "the program wrote to memory that its calls did not tell of "
                      "before it was saved");
      }
      bytes = bytes.subspan(size);
    }
    return Status();
  });
}

// It may read a buffer of ours, though no snapshot waits for it any more.
bool Snapshots::has_stuck_write() const {
  return direct_ != nullptr && direct_->is_stuck();
}

void Snapshots::note_direct(uint64_t bytes) {
  saved_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  direct_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

bool Snapshots::failed() {
  std::lock_guard lock(mutex_);
  return !status_.ok();
}

void Snapshots::fail(const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (!status_.ok()) return;
    status_ = why;
  }
  zones_.drop();
}

Status Snapshots::too_late(const char* why) const {
  return {Code::kBusy, std::string(why) + ", within " +
                           std::to_string(settings_.max_stall / std::chrono::milliseconds(1)) +
                           " ms (GPUSNAP_MAX_STALL; larger GPUSNAP_HOST_CACHE and "
                           "GPUSNAP_DEVICE_CACHE help)"};
}

}  // namespace gpusnap
