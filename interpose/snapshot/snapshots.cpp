#include "interpose/snapshot/snapshots.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "interpose/services/log.h"
#include "interpose/services/mutation.h"
#include "interpose/services/text.h"
#include "interpose/snapshot/zone_copies.h"
#include "tiers/daemon/start.h"

namespace gpusnap {

namespace {
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
    const uint64_t zone = snapshots_.snapshot_.zone_bytes;
    // No more than a slot takes: a piece is moved to host memory as a whole.
    const uint64_t most = snapshots_.snapshot_.pool.slot_bytes() / zone;
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
    : snapshot_(driver, settings, pool, direct),
      growth_turns_(node_name(settings.node), "device-memory"),
      workers_(workers),
      wanted_(settings.dirty_from_calls) {}

Snapshots::~Snapshots() = default;

void Snapshots::add_context(CUcontext context) {
  const RelaxedCapture relaxed(snapshot_.driver);
  // As for pinning: other ways are there to compare with those that take no turns.
  const bool in_turn = snapshot_.settings.pin == Pinning::kStepwise;
  auto lane = DeviceLane::make(snapshot_.driver, context, in_turn ? &growth_turns_ : nullptr,
                               snapshot_.settings.balance == Balance::kNode);
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
  for (const GrowingMemory& cache : caches) unmap_memory(snapshot_.driver, cache);
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
    for (TrackedRange& range : snapshot_.zones.ranges()) {
      if (range.context != handle(context)) continue;
      range.at_cut.resize(range.zones.zones());
      ranges.push_back({range.address, range.size, range.at_cut});
    }
    CurrentContext current(snapshot_.driver, context);
    Status status = lane->fingerprint(ranges, snapshot_.zone_bytes);
    if (!status.ok()) return status;
  }
  return {};
}

Result<Snapshots::Cut> Snapshots::cut(const MemoryMap& memory, bool full) {
  snapshot_.zones.update(memory, snapshot_.zone_bytes);
  for (const TrackedRange& range : snapshot_.zones.ranges()) {
    if (lane_of(range.context) == nullptr) {
      return Status(Code::kUnsupported, "device memory " + range_text(range.address, range.size) +
                                            " is of a context in which we have no kernels");
    }
  }
  if (!snapshot_.dirty_from_calls) {
    if (Status status = fingerprint_all(); !status.ok()) return status;
  }
  // Arrays are written by calls that do not say so, and what is shared by others' calls.
  shared_.clear();
  for (const auto& [address, range] : memory.ranges()) {
    if (range.shared) shared_.push_back(address);
    if (!snapshot_.dirty_from_calls || (range.kind != MemoryKind::kArray && !range.shared))
      continue;
    WriteSet copy;
    copy.add_range_of(address);
    snapshot_.zones.mark_dirty(copy);
  }
  const uint64_t bytes =
      snapshot_.zones.begin(full, [this](const TrackedRange& range, uint64_t zone) {
        return snapshot_.dirty_from_calls ? range.zones.is(ZoneBit::kDirty, zone)
                                          : range.at_cut[zone] != range.saved[zone];
      });
  std::lock_guard lock(mutex_);
  suspects_.begin_snapshot();
  snapshot_.begin();
  counts_ = {};
  return Cut{full, bytes};
}

void Snapshots::start(CheckpointWriter& writer, bool hold, OnEnd on_end) {
  snapshot_.start(writer, hold);
  on_end_ = std::move(on_end);
  make_offloaders();
  lanes_running_ = offloaders_.size() + 1;  // one for us, while we start the others
  running_.store(true, std::memory_order_release);
  wanted_.store(true, std::memory_order_release);
  const bool holds = hold || snapshot_.settings.organisation.blocking;
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
    hold_host([&] { return !copy_first(all, false, waits); }, SnapshotRun::kNoRoom);
    hold_call(waits, nullptr, Hold::kHost);
  }
}

void Snapshots::wait_end() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return !running(); });
}

void Snapshots::lane_ended() {
  WriteCounts counts;
  {
    std::lock_guard lock(mutex_);
    if (--lanes_running_ != 0) return;
  }
  const uint64_t streams_ns = waited_by_streams();
  {
    std::lock_guard lock(mutex_);
    counts_.waits.streams_ns = streams_ns;
    counts_.direct_bytes = snapshot_.direct_bytes();
    if (balancer_ != nullptr) counts_.peer_bytes = balancer_->sent();
    counts = counts_;
  }
  const Status status = snapshot_.status();
  snapshot_.zones.publish_all();
  on_end_(status, counts);
  std::lock_guard lock(mutex_);
  running_.store(false, std::memory_order_release);
  wanted_.store(snapshot_.dirty_from_calls || snapshot_.has_stuck_write(),
                std::memory_order_release);
  ended_.notify_all();
}

uint64_t Snapshots::waited_by_streams() {
  uint64_t sum = 0;
  for (const auto& [context, offloader] : offloaders_) {
    const CurrentContext current(snapshot_.driver, context);
    const RelaxedCapture relaxed(snapshot_.driver);
    sum += lane_of(handle(context))->stream_waits().finish();
  }
  return sum;
}

void Snapshots::complete(bool is_base) {
  if (is_base || mutated(Mutation::kBuildOnMemory)) {
    snapshot_.zones.complete();
  } else {
    snapshot_.zones.drop();
  }
  std::lock_guard lock(mutex_);
  suspects_.complete();
}

void Snapshots::drop(const Status& why) {
  snapshot_.zones.drop();
  // It may be the library that has not written what was there: that is not tried twice.
  if (why.code() == Code::kTorn && snapshot_.direct_bytes() > 0) {
    snapshot_.direct->fail(why);
  }
  std::lock_guard lock(mutex_);
  if (why.code() == Code::kTorn) (void)suspects_.torn();
}

Status Snapshots::adopt(const MemoryMap& memory,
                        const std::function<bool(const TrackedRange&)>& in_checkpoint) {
  snapshot_.zones.update(memory, snapshot_.zone_bytes);
  if (!snapshot_.dirty_from_calls) {
    if (Status status = fingerprint_all(); !status.ok()) return status;
  }
  snapshot_.zones.adopt(in_checkpoint);
  return {};
}

Snapshots::Trust Snapshots::trust(const WriteSet& set) {
  if (set.everything() || set.has_other_guesses()) return Trust::kOpaque;
  if (set.proven()) return Trust::kKnown;
  if (!snapshot_.settings.speculate || snapshot_.dirty_from_calls) return Trust::kOpaque;
  if (!snapshot_.zones.active()) return Trust::kGuess;
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
  if (snapshot_.dirty_from_calls) snapshot_.zones.mark_dirty(set);
  // A context that ends takes our buffers with it.
  if (freed && set.everything()) {
    end();
    while (snapshot_.has_stuck_write()) std::this_thread::sleep_for(snapshot_.settings.hints);
    return;
  }
  if (!running()) return;
  if (!snapshot_.zones.active()) return;
  std::vector<TransferPtr> waits;
  if (snapshot_.settings.organisation.hints || freed) {
    hold_host([&] { return !copy_first(set, freed, waits); }, SnapshotRun::kNoRoom);
  } else {
    hold_host(
        [&] {
          const bool needed = snapshot_.zones.touches(set);
          if (needed) snapshot_.let_call_wait();
          return needed;
        },
        SnapshotRun::kNoRoom);
  }
  hold_call(waits, stream, hold);
  count(given, trusted, !waits.empty());
}

void Snapshots::hold_host(const std::function<bool()>& needed, const char* why) {
  const auto start = Clock::now();
  bool held = false;
  while (needed()) {
    held = true;
    if (!snapshot_.failed() && Clock::now() - start > snapshot_.settings.max_stall &&
        !snapshot_.is_forced())
      snapshot_.fail(snapshot_.too_late(why));
    std::this_thread::sleep_for(snapshot_.settings.hints);
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
  const auto claim = snapshot_.zones.claim(set, blocks, freed);
  for (const TransferPtr& transfer : claim.claimed) start_duplicate(transfer);
  add_once(waits, claim.claimed);
  add_once(waits, claim.in_flight);
  return !claim.left;
}

// Ahead of what the offloader would save next (section 4.1.5).
bool Snapshots::copy_ahead(const WriteSet& set, bool freed, std::vector<TransferPtr>& waits) {
  for (;;) {
    auto slot = snapshot_.pool.acquire(std::chrono::nanoseconds(0));
    if (!slot.ok()) return false;
    OneSlot room(*slot.value(), snapshot_.zone_bytes);
    const auto claim = snapshot_.zones.claim(set, room, freed);
    add_once(waits, claim.in_flight);
    if (claim.claimed.empty()) {
      snapshot_.pool.release(slot.value());
      return !claim.left;
    }
    const TransferPtr& transfer = claim.claimed.front();
    DeviceLane& lane = *lane_of(transfer->context);
    CurrentContext current(snapshot_.driver, lane.context());
    const CUresult result = snapshot_.copy_to_slot(*transfer, slot.value(), 0, lane.gate_to_host());
    if (result != CUDA_SUCCESS)
      snapshot_.fail(driver_status(snapshot_.driver, "copying device memory", result));
    snapshot_.zones.started(transfer, lane.record(lane.gate_to_host()));
    offloaders_.at(lane.context())->add_flight(transfer, slot.value());
    waits.push_back(transfer);
    if (!claim.left) return true;
  }
}

void Snapshots::start_duplicate(const TransferPtr& transfer) {
  DeviceLane& lane = *lane_of(transfer->context);
  CurrentContext current(snapshot_.driver, lane.context());
  std::vector<ZoneCopy> copies;
  for (const TransferPiece& piece : transfer->pieces) {
    if (mutated(Mutation::kSkipDuplicate)) break;
    const uint64_t from = snapshot_.zones.ranges()[piece.range].address + piece.offset;
    copies.push_back({lane.block(piece.place), from, piece.size, piece.range});
  }
  const CUresult result =
      copy_zones(snapshot_.driver, CopyTo::kDevice, std::move(copies), lane.gate());
  if (result != CUDA_SUCCESS)
    snapshot_.fail(driver_status(snapshot_.driver, "duplicating device memory", result));
  snapshot_.zones.started(transfer, lane.record(lane.gate()));
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
    snapshot_.zones.wait_started(transfer);
    auto* event = static_cast<CUevent>(transfer->event.get());
    if (event == nullptr || mutated(Mutation::kSkipEventWait)) continue;
    if (snapshot_.driver.cuStreamWaitEvent(stream, event, 0) != CUDA_SUCCESS)
      await_on_host(transfer);
  }
  if (from != nullptr) measured->end(from, stream);
}

void Snapshots::await_on_host(const TransferPtr& transfer) {
  const auto start = Clock::now();
  snapshot_.zones.wait_started(transfer);
  void* const event = transfer->event.get();
  if (event == nullptr || mutated(Mutation::kSkipEventWait)) return;
  while (!snapshot_.arrived(event)) usleep(20);
  std::lock_guard lock(mutex_);
  counts_.waits.frees_ns += static_cast<uint64_t>((Clock::now() - start).count());
}

StreamWaits* Snapshots::stream_waits() const {
  CUcontext context = nullptr;
  if (snapshot_.driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
  DeviceLane* const lane = lane_of(handle(context));
  return lane == nullptr ? nullptr : &lane->stream_waits();
}

}  // namespace gpusnap
