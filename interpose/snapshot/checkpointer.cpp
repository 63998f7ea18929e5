#include "interpose/snapshot/checkpointer.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "interpose/mpi/cut_barriers.h"
#include "interpose/mpi/outcomes.h"
#include "interpose/mpi/state.h"
#include "interpose/process/saved_readings.h"
#include "interpose/replay/replay_output.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/snapshot/cut_observer.h"
#include "tiers/backend/remote_writer.h"

namespace gpusnap {

namespace {
constexpr uint64_t kSegmentBytes = 4ULL << 30;
// After so many abandoned or torn ones in a row the next takes the stall that it needs.
constexpr int kMostGivenUp = 2;

int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::string host_name() {
  char name[256] = "";
  (void)gethostname(name, sizeof name - 1);
  return name;
}

class CutBarriersEnd {
 public:
  explicit CutBarriersEnd(mpi::CutBarriers* cut_barriers) : cut_barriers_(cut_barriers) {}
  ~CutBarriersEnd() {
    if (cut_barriers_ != nullptr) cut_barriers_->finish();
  }
  CutBarriersEnd(const CutBarriersEnd&) = delete;
  CutBarriersEnd& operator=(const CutBarriersEnd&) = delete;

 private:
  mpi::CutBarriers* const cut_barriers_;
};

}  // namespace

Checkpointer::Checkpointer(const Neighbours& neighbours)
    : with_(neighbours),
      model_(neighbours.model),
      run_(neighbours.run),
      snapshots_(model_.driver, run_.settings, run_.callers, run_.backend->pool(), with_.direct),
      device_(model_, run_.settings.drain),
      loader_(model_, run_, with_.restored, device_),
      levels_(run_.settings.store_every) {}

void Checkpointer::add_context(CUcontext context) {
  progress_.has_context();
  snapshots_.add_context(context);
}

std::unique_ptr<DeviceLane> Checkpointer::forget_context(CUcontext context) {
  device_.forget_context(context);
  return snapshots_.forget_context(context);
}

bool Checkpointer::busy() const {
  return under_way_.load(std::memory_order_acquire);
}

void Checkpointer::skip_to(uint64_t epoch) {
  tried_ = std::max(tried_.load(), epoch);
}

void Checkpointer::miss(uint64_t epoch) {
  skip_to(epoch);
  failed_epoch_ = epoch;
}

void Checkpointer::given_up_elsewhere(uint64_t epoch) {
  elsewhere_ = epoch;
  if (busy() && writer_ != nullptr && tried_ == epoch) writer_->abandon();
}

uint64_t Checkpointer::newest_complete() const {
  const std::lock_guard lock(mutex_);
  return levels_.newest();
}

bool Checkpointer::wants_store() {
  const Settings& settings = run_.settings;
  if (!settings.has_memory_level()) return true;
  {
    const std::lock_guard lock(mutex_);
    if (settings.store_every == kStoreEveryAuto) {
      levels_.set_store_every(with_.triggers->store_every());
    }
    if (levels_.wants_store()) return true;
  }
  if (!run_.backend->outlives_process()) return stores_all("there is no gpusnapd");
  StagingMemory& memory = run_.backend->memory();
  const uint64_t image = image_bytes_.load(std::memory_order_relaxed);
  const bool fits =
      fits_twice(image, ranks_on_node(environ), memory.slots().size(), memory.bytes(0).size());
  return !fits && stores_all("GPUSNAP_HOST_CACHE does not hold two of " + std::to_string(image) +
                             " bytes for each rank of the node");
}

void Checkpointer::choose_level(CutPlace& place, CutReason reason) {
  if (place.collective != nullptr) return;
  place.in_memory = !is_asked_for(reason) && !wants_store();
  place.complete = newest_complete();
}

bool Checkpointer::stores_all(const std::string& why) {
  if (!std::exchange(said_too_small_, true)) {
    log(LogLevel::kWarn, "no checkpoint stays in memory, all go to the store: ", why);
    with_.triggers->stores_all();
  }
  return true;
}

bool Checkpointer::take(const CutPlace& place) {
  std::string id;
  Status status;
  bool cut = false;
  skip_to(place.epoch);
  complete_ = std::max(complete_, place.complete);
  // The program must not go on before all ranks have read what is shared.
  const CutBarriersEnd end(place.cut_barriers);
  // Nothing of ours may end the program: not even having no memory left.
  try {
    finish();
    status = attempt(place, id, cut);
  } catch (const std::bad_alloc&) {
    status = {Code::kNoSpace, "no host memory is left"};
  }
  attempted_ = status;
  if (status.ok()) return cut;
  if (writer_ != nullptr) {
    writer_->abandon();
    writer_.reset();
  }
  progress_.ends();
  failed_epoch_ = tried_.load();
  under_way_.store(false, std::memory_order_release);
  failed(id, tried_, place.in_memory, status);
  if (run_.settings.strict) {
    fatal(kExitStore, "stopped, as GPUSNAP_STRICT asks");
  }
  return cut;
}

// Says so once for each reason, and to who asks for all that is said each time.
void Checkpointer::failed(const std::string& id, uint64_t epoch, bool in_memory,
                          const Status& status) {
  snapshots_.drop(status);
  with_.triggers->report({false, id, 0, 0, status.message()});
  std::lock_guard lock(mutex_);
  levels_.failed(in_memory);
  // Torn once for all: which kernel it is may take another torn one or two to find. The rank that
  // gave it up has said why.
  const bool elsewhere = elsewhere_ != 0 && elsewhere_ == epoch;
  const bool again = elsewhere || status.message() == last_error_ ||
                     (status.code() == Code::kTorn && std::exchange(torn_said_, true));
  if (!again) last_error_ = status.message();
  log(again ? LogLevel::kDebug : LogLevel::kWarn,
      "no checkpoint was taken, the program goes on: ", status.message());
}

// Some reasons would come back with the next: the program is faster than its buffers are emptied,
// or writes behind our back.
void Checkpointer::give_up(const std::string& id, const Saved& given_up, const Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (status.code() == Code::kBusy || status.code() == Code::kTorn) ++given_up_;
  }
  progress_.ends();
  // First: the ballot of a rank that is not busy tells what it has given up.
  failed_epoch_ = given_up.epoch;
  under_way_.store(false, std::memory_order_release);
  failed(id, given_up.epoch, given_up.in_memory, status);
}

void Checkpointer::succeeded(const std::string& id, const Saved& saved) {
  snapshots_.complete(!saved.in_memory);
  {
    std::lock_guard lock(mutex_);
    given_up_ = 0;
    last_error_.clear();
    levels_.succeeded(saved.epoch, saved.in_memory, saved.chain);
  }
  progress_.is_complete({saved.epoch, saved.cut_unix_ns, saved.stall_ns, saved.in_memory});
  // A client that is told of it may ask for the next one at once.
  under_way_.store(false, std::memory_order_release);
  const CallCounts& calls = saved.meanwhile;
  log(LogLevel::kInfo, "checkpoint ", id, ": ", saved.bytes,
      saved.in_memory ? " bytes kept in memory, stall " : " bytes saved, stall ",
      saved.stall_ns / 1000, " us; meanwhile ", calls.launches_free, " launches went ahead and ",
      calls.launches_waited, " waited, ", calls.launches_guessed, " of them on a guess, ",
      calls.launches_opaque, " opaque; other calls: ", calls.others_free, " and ",
      calls.others_waited);
  with_.triggers->report({true, id, saved.bytes, saved.stall_ns, ""},
                         saved.in_memory ? plan::Destination::kMemory : plan::Destination::kStore);
}

Status Checkpointer::attempt(const CutPlace& place, std::string& id, bool& cut) {
  const int64_t started = clock_ns(CLOCK_MONOTONIC);
  // First: host functions that are on their way take the session's lock, which is not held here,
  // and look at the memory that becomes known next.
  Status status = device_.drain();
  if (status.ok()) status = model_.modules.find_globals(model_.contexts.by_number(), model_.memory);
  if (status.ok()) status = model_.give_physical_contexts();
  const bool all = place.cut_barriers == nullptr || place.cut_barriers->next(status.ok());
  if (!status.ok()) return status;
  if (!all) {
    elsewhere_ = place.epoch;  // which has said why
    return {Code::kBusy, "another rank, with which memory is shared, could not take part"};
  }
  status = device_.copy_arrays(Arrays::Direction::kToCopies);
  if (!status.ok()) return status;

  journal_cut(place);
  cut = true;
  // A host function that the cut had waited for may have been the end of it.
  if (const char* const what = with_.doubt.load(std::memory_order_relaxed)) {
    return {Code::kUnsupported, std::string(what) + " cannot be restored by this version"};
  }

  // Never one that was tried before: the backend may still be taking away what came of it. Nobody
  // else takes numbers of the job, whose lock we have, so the store, which may hang, is not asked.
  const uint64_t epoch = place.epoch != 0 ? place.epoch : tried_ + 1;
  tried_ = epoch;
  observe_cut({model_.driver, model_.memory, epoch});
  id = run_.job + "@" + std::to_string(epoch);
  auto writer = start_remote_writer(
      posix_file_system(), run_.backend->pool(), describe_stream(place, epoch),
      run_.ranks.ranks == 1 ? FolderMaker::kBackend : FolderMaker::kWriter,
      [this](std::function<void()> body) { return run_.workers.spawn(std::move(body)); });
  if (!writer.ok()) return writer.status();
  writer_ = std::move(writer.value());
  status = start_snapshot(id, place, epoch, started);
  if (status.ok()) snapshots_.read_shared();
  return status;
}

void Checkpointer::journal_cut(const CutPlace& place) {
  // The device has run empty: this is the cut. Bytes that it brought the host are journaled here.
  uint8_t flags = place.flags;
  Deliveries& deliveries = with_.deliveries;
  const auto taken = deliveries.collect(Deliveries::Moment::kIdle, !deliveries.function_runs());
  flags |= taken.flags;
  if (taken.doubt != nullptr) with_.doubt.store(taken.doubt, std::memory_order_relaxed);
  if (place.collective != nullptr) {
    const int32_t values[] = {mpi::kIsCut, 1};
    const size_t count = place.cut_barriers != nullptr && place.cut_barriers->any() ? 2 : 1;
    with_.recorder->append_outcome(place.collective, place.number, {values, count});
  }
  CallKey key;
  key.add(held_output());
  if (const uint64_t managed = model_.managed_places(); managed != 0) key.add(managed);
  with_.recorder->append(kCutEntry, key, 0, flags, nullptr, deliveries.deliveries());
}

CheckpointText Checkpointer::describe_stream(const CutPlace& place, uint64_t epoch) const {
  CheckpointText text;
  text.store = run_.store->folder();
  text.job = run_.job;
  text.run = run_.name;
  text.epoch = epoch;
  text.rank = run_.ranks.rank;
  text.segment_bytes = kSegmentBytes;
  text.compression = run_.settings.compress;
  text.in_memory = place.in_memory;
  if (run_.settings.has_memory_level()) text.complete = complete_;
  if (place.in_memory) {
    // Where it goes to the store after all: increments may build on one that pruning would remove
    // for it.
    text.keep = text.chain = 0;
    return text;
  }
  text.keep = static_cast<uint32_t>(run_.settings.keep);
  text.chain = static_cast<uint32_t>(run_.settings.chain);
  return text;
}

// A checkpoint builds on the last complete one in the store, up to GPUSNAP_CHAIN of them in a row.
bool Checkpointer::wants_full(bool in_memory, CheckpointLevels::Base& last, bool& hold) {
  std::lock_guard lock(mutex_);
  last = levels_.base(in_memory);
  hold = given_up_ >= kMostGivenUp;
  return !run_.settings.organisation.incremental || last.epoch == 0 ||
         last.chain >= run_.settings.chain;
}

Status Checkpointer::start_snapshot(const std::string& id, const CutPlace& place, uint64_t epoch,
                                    int64_t started) {
  CheckpointLevels::Base last;
  bool hold = false;
  const bool full = wants_full(place.in_memory, last, hold);
  auto cut = snapshots_.cut(model_.memory, full);
  if (!cut.ok()) return cut.status();
  if (hold) {
    log(LogLevel::kWarn, "after ", kMostGivenUp, " checkpoints that were given up, this one holds ",
        "the program as long as it takes");
  }
  auto manifest = std::make_shared<Manifest>(describe_cut(epoch));
  if (!cut.value().full) {
    manifest->parent = last.epoch;
    manifest->chain = last.chain + 1;
  }
  describe_ranges(*manifest);
  note_image(*manifest, place.in_memory);
  manifest->journal = with_.recorder->seal();

  Saved saved;
  saved.epoch = epoch;
  saved.chain = manifest->chain;
  saved.in_memory = place.in_memory;
  saved.bytes = cut.value().bytes;
  saved.cut_unix_ns = manifest->cut_unix_ns;
  const auto stall = [started] {
    return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC) - started);
  };
  manifest->stall_ns = stall();
  const bool held = hold || run_.settings.organisation.blocking;
  progress_.begins(epoch, saved.bytes);
  under_way_.store(true, std::memory_order_release);
  snapshots_.start(
      *writer_, hold, [=, this](const Status& status, const WriteCounts& counts) mutable {
        if (!status.ok()) {
          writer_->abandon();
          give_up(id, saved, status);
          return;
        }
        // A program that is held to the end waits for nothing besides.
        if (!held) manifest->waits = counts.waits;
        manifest->stall_ns = held ? stall() : manifest->stall_ns + manifest->waits.all_ns();
        saved.stall_ns = manifest->stall_ns;
        manifest->peer_bytes = counts.peer_bytes;
        saved.meanwhile = manifest->meanwhile = counts.calls;
        manifest->direct_bytes = counts.direct_bytes;
        writer_->finish(std::move(*manifest), &with_.recorder->writer(),
                        [this, id, saved](const Status& done) {
                          if (done.ok()) {
                            succeeded(id, saved);
                          } else {
                            give_up(id, saved, done);
                          }
                        });
      });
  return {};
}

void Checkpointer::note_image(Manifest& manifest, bool in_memory) {
  image_bytes_ = manifest.bytes();
  const std::lock_guard lock(mutex_);
  manifest.since_stored = levels_.next_since_stored(in_memory);
}

Status Checkpointer::wait_saved() {
  snapshots_.wait_end();
  if (writer_ == nullptr) return {};
  Status status = writer_->wait();
  // It ends when those who wait for the checkpoint have been told.
  writer_.reset();
  return status;
}

Status Checkpointer::outcome() {
  Status saved = wait_saved();
  return attempted_.ok() ? saved : attempted_;
}

void Checkpointer::finish() {
  const Status status = wait_saved();
  if (!status.ok() && run_.settings.strict) {
    fatal(kExitStore, "stopped, as GPUSNAP_STRICT asks: " + status.message());
  }
}

void Checkpointer::end() {
  progress_.program_ends();
  const Settings& settings = run_.settings;
  if (settings.wait_durable || !run_.backend->outlives_process()) return finish();
  snapshots_.wait_end();
  if (writer_ != nullptr) writer_->wait_handed_over();
}

Manifest Checkpointer::describe_cut(uint64_t epoch) {
  run_.look_around();
  Manifest manifest;
  manifest.job = run_.job;
  manifest.epoch = epoch;
  manifest.rank = run_.ranks.rank;
  manifest.ranks = run_.ranks.ranks;
  manifest.run = run_.name;
  manifest.job_run = mpi::job_run();
  manifest.host = host_name();
  manifest.library_version = GPUSNAP_VERSION;
  manifest.cut_unix_ns = clock_ns(CLOCK_REALTIME);
  manifest.zone_bytes = snapshots_.zone_bytes();
  manifest.calls = with_.recorder->calls();
  manifest.launches = with_.recorder->launches();
  manifest.program = run_.program;
  manifest.readings = nondeterminism::readings();
  // A reader would refuse the manifest for an interval that cannot be.
  plan::ChosenInterval chosen = with_.triggers->chosen();
  if (chosen.is_chosen()) chosen.run_s = with_.triggers->run_s();
  if (chosen.is_sound()) manifest.interval = chosen;
  return manifest;
}

void Checkpointer::describe_ranges(Manifest& manifest) {
  for (const TrackedRange& tracked : snapshots_.ranges()) {
    const MemoryRange& range = *model_.memory.at(tracked.address);
    SavedRange saved{
        static_cast<uint8_t>(range.kind), range.address, range.size, range.identity.call_site,
        range.identity.ordinal,           range.module,  range.name};
    saved.life = tracked.life;
    saved.fresh = manifest.parent != 0 && !tracked.in_saved;
    manifest.ranges.push_back(std::move(saved));
  }
}

Status Checkpointer::load(const CheckpointInfo& checkpoint, const Manifest& manifest) {
  std::vector<uint64_t> addresses;
  Status status = loader_.load(checkpoint, manifest, addresses);
  if (!status.ok()) return status;
  image_bytes_ = manifest.bytes();
  // One that is on its way may still fail to be committed: the next one does not build on it.
  const bool is_base = !with_.restored.is_pending;
  {
    const std::lock_guard lock(mutex_);
    levels_.restored(manifest.epoch, manifest.since_stored, manifest.chain, is_base);
  }
  progress_.is_complete({manifest.epoch, manifest.cut_unix_ns, manifest.stall_ns,
                         !is_base && manifest.since_stored != 0});
  return is_base ? adopt(manifest, addresses) : Status();
}

// Changes from here on are compared with the checkpoint that was loaded.
Status Checkpointer::adopt(const Manifest& manifest, const std::vector<uint64_t>& addresses) {
  std::set<uint64_t> in_place;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const SavedRange& saved = manifest.ranges[i];
    if (saved.life == 0 || addresses[i] != saved.address) continue;
    model_.memory.continue_life(saved.address, saved.life);
    in_place.insert(saved.address);
  }
  return snapshots_.adopt(
      model_.memory, [&](const TrackedRange& range) { return in_place.contains(range.address); });
}

}  // namespace gpusnap
