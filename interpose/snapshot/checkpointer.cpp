#include "interpose/snapshot/checkpointer.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <utility>

#include "interpose/mpi/cut_barriers.h"
#include "interpose/mpi/outcomes.h"
#include "interpose/mpi/state.h"
#include "interpose/nondeterminism/checkpoint.h"
#include "interpose/replay_output.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/services/ranks.h"
#include "interpose/snapshot/cut_observer.h"
#include "interpose/snapshot/slot_buffers.h"
#include "interpose/text.h"
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

CUcontext context_of(const MemoryRange& range) {
  return reinterpret_cast<CUcontext>(range.context);
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

Checkpointer::Checkpointer(Session& session)
    : session_(session),
      snapshots_(session.driver(), session.run_.settings, session.run_.callers,
                 session.run_.backend->pool(), session.direct_.get()) {}

CUstream Checkpointer::stream() {
  const CUcontext context = session_.model_.contexts.current();
  auto [it, added] = streams_.try_emplace(context, nullptr);
  if (added) (void)session_.driver().cuStreamCreate(&it->second, CU_STREAM_NON_BLOCKING);
  return it->second;
}

void Checkpointer::add_context(CUcontext context) {
  progress_.has_context();
  snapshots_.add_context(context);
}

std::unique_ptr<DeviceLane> Checkpointer::forget_context(CUcontext context) {
  streams_.erase(context);
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

bool Checkpointer::take(const CutPlace& place) {
  std::string id;
  Status status;
  bool cut = false;
  skip_to(place.epoch);
  // The program must not go on before all ranks have read what is shared.
  const CutBarriersEnd end(place.cut_barriers);
  // Nothing of ours may end the program: not even having no memory left.
  try {
    finish();
    status = attempt(place, id, cut);
  } catch (const std::bad_alloc&) {
    status = {Code::kNoSpace, "no host memory is left"};
  }
  if (status.ok()) return cut;
  if (writer_ != nullptr) {
    writer_->abandon();
    writer_.reset();
  }
  progress_.ends();
  under_way_.store(false, std::memory_order_release);
  failed(id, tried_, status);
  if (session_.run_.settings.strict) {
    fatal(kExitStore, "stopped, as GPUSNAP_STRICT asks");
  }
  return cut;
}

// Says so once for each reason, and to who asks for all that is said each time.
void Checkpointer::failed(const std::string& id, uint64_t epoch, const Status& status) {
  snapshots_.drop(status);
  failed_epoch_ = epoch;
  session_.triggers_->report({false, id, 0, 0, status.message()});
  std::lock_guard lock(mutex_);
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
void Checkpointer::give_up(const std::string& id, uint64_t epoch, const Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (status.code() == Code::kBusy || status.code() == Code::kTorn) ++given_up_;
  }
  progress_.ends();
  under_way_.store(false, std::memory_order_release);
  failed(id, epoch, status);
}

void Checkpointer::succeeded(const std::string& id, const Saved& saved) {
  snapshots_.complete();
  Session& s = session_;
  {
    std::lock_guard lock(mutex_);
    given_up_ = 0;
    last_error_.clear();
    last_ = saved.place;
  }
  progress_.is_complete({saved.place.epoch, saved.cut_unix_ns, saved.stall_ns});
  // Whoever is told of it may ask for the next one at once.
  under_way_.store(false, std::memory_order_release);
  const CallCounts& calls = saved.meanwhile;
  log(LogLevel::kInfo, "checkpoint ", id, ": ", saved.bytes, " bytes saved, stall ",
      saved.stall_ns / 1000, " us; meanwhile ", calls.launches_free, " launches went ahead and ",
      calls.launches_waited, " waited, ", calls.launches_guessed, " of them on a guess, ",
      calls.launches_opaque, " opaque; other calls: ", calls.others_free, " and ",
      calls.others_waited);
  s.triggers_->report({true, id, saved.bytes, saved.stall_ns, ""});
}

Status Checkpointer::attempt(const CutPlace& place, std::string& id, bool& cut) {
  const int64_t started = clock_ns(CLOCK_MONOTONIC);
  Session& s = session_;
  // First: host functions that are on their way take the session's lock, which is not held here,
  // and look at the memory that becomes known next.
  Status status = drain();
  if (status.ok())
    status = s.model_.modules.find_globals(s.model_.contexts.by_number(), s.model_.memory);
  if (status.ok()) status = s.model_.give_physical_contexts();
  const bool all = place.cut_barriers == nullptr || place.cut_barriers->next(status.ok());
  if (!status.ok()) return status;
  if (!all) {
    elsewhere_ = place.epoch;  // which has said why
    return {Code::kBusy, "another rank, with which memory is shared, could not take part"};
  }
  status = copy_arrays(Arrays::Direction::kToCopies);
  if (!status.ok()) return status;

  // The device has run empty: this is the cut. What it brought the host is journaled here.
  uint8_t flags = place.flags;
  const auto& deliveries = s.collect(true, &flags);
  if (place.collective != nullptr) {
    const int32_t values[] = {mpi::kIsCut, 1};
    const size_t count = place.cut_barriers != nullptr && place.cut_barriers->any() ? 2 : 1;
    s.recorder_->append_outcome(place.collective, place.number, {values, count});
  }
  CallKey key;
  key.add(held_output());
  if (const uint64_t managed = s.model_.managed_places(); managed != 0) key.add(managed);
  s.recorder_->append(kCutEntry, key, 0, flags, nullptr, deliveries);
  cut = true;
  // A host function that the cut had waited for may have been the end of it.
  if (const char* const what = s.foreign_.load(std::memory_order_relaxed)) {
    return {Code::kUnsupported, std::string(what) + " cannot be restored by this version"};
  }

  // Never one that was tried before: the backend may still be taking away what came of it. Nobody
  // else takes numbers of the job, whose lock we have, so the store, which may hang, is not asked.
  const uint64_t epoch = place.epoch != 0 ? place.epoch : tried_ + 1;
  tried_ = epoch;
  observe_cut({s.driver(), s.model_.memory, epoch});
  id = s.run_.job + "@" + std::to_string(epoch);
  auto writer = start_remote_writer(
      posix_file_system(), s.run_.backend->pool(), describe_stream(epoch),
      s.run_.ranks.ranks == 1 ? FolderMaker::kBackend : FolderMaker::kWriter,
      [&s](std::function<void()> body) { return s.run_.workers.spawn(std::move(body)); });
  if (!writer.ok()) return writer.status();
  writer_ = std::move(writer.value());
  status = start_snapshot(id, epoch, started);
  if (status.ok()) snapshots_.read_shared();
  return status;
}

CheckpointText Checkpointer::describe_stream(uint64_t epoch) const {
  const Session& s = session_;
  CheckpointText text;
  text.store = s.run_.store->folder();
  text.job = s.run_.job;
  text.run = s.run_.name;
  text.epoch = epoch;
  text.rank = s.run_.ranks.rank;
  text.segment_bytes = kSegmentBytes;
  text.compression = s.run_.settings.compress;
  text.keep = static_cast<uint32_t>(s.run_.settings.keep);
  text.chain = static_cast<uint32_t>(s.run_.settings.chain);
  return text;
}

// A checkpoint builds on the last complete one, up to GPUSNAP_CHAIN of them in a row.
bool Checkpointer::wants_full(Place& last, bool& hold) {
  std::lock_guard lock(mutex_);
  last = last_;
  hold = given_up_ >= kMostGivenUp;
  return !session_.run_.settings.organisation.incremental || last.epoch == 0 ||
         last.chain >= session_.run_.settings.chain;
}

Status Checkpointer::start_snapshot(const std::string& id, uint64_t epoch, int64_t started) {
  Session& s = session_;
  Place last;
  bool hold = false;
  const bool full = wants_full(last, hold);
  auto cut = snapshots_.cut(s.model_.memory, full);
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
  manifest->journal = s.recorder_->seal();

  Saved saved;
  saved.place = {epoch, manifest->chain};
  saved.bytes = cut.value().bytes;
  saved.cut_unix_ns = manifest->cut_unix_ns;
  const auto stall = [started] {
    return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC) - started);
  };
  manifest->stall_ns = stall();
  const bool held = hold || s.run_.settings.organisation.blocking;
  progress_.begins(epoch, saved.bytes);
  under_way_.store(true, std::memory_order_release);
  snapshots_.start(
      *writer_, hold, [=, this](const Status& status, const WriteCounts& counts) mutable {
        if (!status.ok()) {
          writer_->abandon();
          give_up(id, epoch, status);
          return;
        }
        // A program that is held to the end waits for nothing besides.
        if (!held) manifest->waits = counts.waits;
        manifest->stall_ns = held ? stall() : manifest->stall_ns + manifest->waits.all_ns();
        saved.stall_ns = manifest->stall_ns;
        manifest->peer_bytes = counts.peer_bytes;
        saved.meanwhile = manifest->meanwhile = counts.calls;
        manifest->direct_bytes = counts.direct_bytes;
        writer_->finish(std::move(*manifest), &session_.recorder_->writer(),
                        [this, id, epoch, saved](const Status& done) {
                          if (done.ok()) {
                            succeeded(id, saved);
                          } else {
                            give_up(id, epoch, done);
                          }
                        });
      });
  return {};
}

void Checkpointer::finish() {
  snapshots_.wait_end();
  if (writer_ == nullptr) return;
  const Status status = writer_->wait();
  writer_.reset();
  if (!status.ok() && session_.run_.settings.strict) {
    fatal(kExitStore, "stopped, as GPUSNAP_STRICT asks: " + status.message());
  }
}

void Checkpointer::end() {
  progress_.program_ends();
  const Settings& settings = session_.run_.settings;
  if (settings.wait_durable || !session_.run_.backend->outlives_process()) return finish();
  snapshots_.wait_end();
  if (writer_ != nullptr) writer_->wait_handed_over();
}

// By marks on every stream, never by synchronising the context, which could wait for ever on a
// kernel that waits for the host.
Status Checkpointer::drain() {
  Session& s = session_;
  const Driver& driver = s.driver();
  std::vector<std::pair<CUcontext, CUevent>> marks;
  Status status;
  for (auto& [context, all] : s.model_.contexts.streams()) {
    CurrentContext current(driver, context);
    // Waits for all threads' default streams: they are blocking ones, and cannot be named from
    // here.
    all.push_back(CU_STREAM_LEGACY);
    for (CUstream stream : all) {
      const CUevent mark = s.model_.contexts.take_mark(context);
      if (mark == nullptr) return {Code::kIo, "draining the device: the driver gives no event"};
      marks.emplace_back(context, mark);
      status = driver_status(driver, "draining the device", driver.cuEventRecord(mark, stream));
      if (!status.ok()) break;
    }
  }
  const int64_t limit = s.run_.settings.drain.count();
  const int64_t deadline = clock_ns(CLOCK_MONOTONIC) + limit;
  for (size_t i = 0; i < marks.size() && status.ok();) {
    CurrentContext current(driver, marks[i].first);
    const CUresult result = driver.cuEventQuery(marks[i].second);
    if (result == CUDA_SUCCESS) {
      ++i;
    } else if (result != CUDA_ERROR_NOT_READY) {
      status = driver_status(driver, "draining the device", result);
    } else if (clock_ns(CLOCK_MONOTONIC) > deadline) {
      status = {Code::kBusy, "the device did not run empty within " +
                                 std::to_string(limit / 1'000'000) +
                                 " ms (GPUSNAP_DRAIN); it is tried again later"};
    } else {
      usleep(50);
    }
  }
  for (auto& [context, mark] : marks) s.model_.contexts.give_mark(context, mark);
  return status;
}

// The device is idle.
Status Checkpointer::copy_arrays(Arrays::Direction direction) {
  Arrays& arrays = session_.model_.arrays;
  Status status = arrays.make_copies();
  for (const CUcontext context : arrays.contexts()) {
    const CurrentContext current(session_.driver(), context);
    if (status.ok()) status = arrays.move(direction, context, stream());
  }
  return status;
}

Manifest Checkpointer::describe_cut(uint64_t epoch) {
  Session& s = session_;
  s.run_.look_around();
  Manifest manifest;
  manifest.job = s.run_.job;
  manifest.epoch = epoch;
  manifest.rank = s.run_.ranks.rank;
  manifest.ranks = s.run_.ranks.ranks;
  manifest.run = s.run_.name;
  manifest.job_run = mpi::job_run();
  manifest.host = host_name();
  manifest.library_version = GPUSNAP_VERSION;
  manifest.cut_unix_ns = clock_ns(CLOCK_REALTIME);
  manifest.zone_bytes = snapshots_.zone_bytes();
  manifest.calls = s.recorder_->calls();
  manifest.launches = s.recorder_->launches();
  manifest.program = s.run_.program;
  manifest.readings = nondeterminism::readings();
  // A reader would refuse the manifest for an interval that cannot be.
  if (const auto chosen = s.triggers_->chosen(); chosen.is_sound()) manifest.interval = chosen;
  return manifest;
}

namespace {
std::string mib(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

// How fast: in GiB/s with one decimal.
std::string rate(uint64_t bytes, int64_t ns) {
  const uint64_t tenths = static_cast<uint64_t>(static_cast<double>(bytes) * 1e10 /
                                                static_cast<double>(std::max<int64_t>(ns, 1))) >>
                          30;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB/s";
}

// A line on a terminal that says how far the loading of much memory has come, and in the end how
// long it took; nothing elsewhere.
class LoadProgress {
 public:
  // `reader` outlives it.
  LoadProgress(uint64_t total, const RestoreReader& reader)
      : total_(total),
        reader_(reader),
        shown_(isatty(STDERR_FILENO) == 1),
        began_(clock_ns(CLOCK_MONOTONIC)),
        last_(began_) {}
  ~LoadProgress() {
    const int64_t took = clock_ns(CLOCK_MONOTONIC) - began_;
    const std::string text = mib(done_) + " of device memory loaded in " +
                             std::to_string(took / 1'000'000) + " ms, " + rate(done_, took) +
                             sources();
    if (written_) {
      put("gpusnap: " + text + "\n");
    } else {
      log(LogLevel::kInfo, text);
    }
  }
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

  void add(uint64_t bytes) {
    done_ += bytes;
    const int64_t now = clock_ns(CLOCK_MONOTONIC);
    if (!shown_ || now - last_ < kInterval) return;
    last_ = now;
    written_ = true;
    const int64_t took = now - began_;
    const auto left = static_cast<int64_t>(static_cast<double>(took) / static_cast<double>(done_) *
                                           static_cast<double>(total_ - done_)) /
                      1'000'000'000;
    put("gpusnap: loading device memory: " + mib(done_) + " of " + mib(total_) + ", " +
        rate(done_, took) + ", " + std::to_string(left) + " s left");
  }

 private:
  static constexpr int64_t kInterval = 500'000'000;  // ns
  // In place of the line before.
  static void put(const std::string& text) {
    const std::string line = "\r\033[K" + text;
    (void)!write(STDERR_FILENO, line.data(), line.size());
  }

  std::string sources() const {
    const LocalChunks::Counts& counts = reader_.counts();
    std::string text = "; waited " + std::to_string(reader_.waited_ns() / 1'000'000) +
                       " ms for files, read ahead " + mib(counts.in_memory);
    if (reader_.is_pending()) {
      return text + "; on its way to the store: from memory and SSD " + mib(counts.near) +
             ", from store " + mib(counts.store);
    }
    if (counts.near + counts.passed_over == 0) return text;
    text += "; from SSD " + mib(counts.near) + ", from store " + mib(counts.store);
    if (counts.passed_over != 0) text += ", not right on SSD " + mib(counts.passed_over);
    return text;
  }

  const uint64_t total_;
  const RestoreReader& reader_;
  const bool shown_;
  bool written_ = false;
  const int64_t began_;
  int64_t last_;
  uint64_t done_ = 0;
};
}  // namespace

void Checkpointer::describe_ranges(Manifest& manifest) {
  for (const TrackedRange& tracked : snapshots_.ranges()) {
    const MemoryRange& range = *session_.model_.memory.at(tracked.address);
    SavedRange saved{
        static_cast<uint8_t>(range.kind), range.address, range.size, range.identity.call_site,
        range.identity.ordinal,           range.module,  range.name};
    saved.life = tracked.life;
    saved.fresh = manifest.parent != 0 && !tracked.in_saved;
    manifest.ranges.push_back(std::move(saved));
  }
}

uint64_t Checkpointer::find_variable(const SavedRange& saved) const {
  return session_.model_.modules.find_global(saved.module, saved.name, saved.size,
                                             session_.model_.contexts.with_number(saved.ordinal));
}

namespace {
// Our copies of arrays, and where we have mapped physical memory, are nobody else's business.
bool may_be_pointed_to(const SavedRange& saved) {
  return saved.kind != static_cast<uint8_t>(MemoryKind::kArray) &&
         saved.kind != static_cast<uint8_t>(MemoryKind::kPhysical);
}

std::string text_of(const SavedRange& saved) {
  if (saved.kind == static_cast<uint8_t>(MemoryKind::kArray)) {
    return "array number " + std::to_string(saved.ordinal);
  }
  if (saved.kind == static_cast<uint8_t>(MemoryKind::kPhysical)) {
    return "memory number " + std::to_string(saved.module) + " of cuMemCreate";
  }
  return saved.name.empty() ? "device memory " + range_text(saved.address, saved.size)
                            : "the variable " + saved.name;
}
}  // namespace

// Where each saved range is in this process, and which are at another address.
Status Checkpointer::find_addresses(std::span<const SavedRange> ranges, const Find& find,
                                    LoadedRanges& loaded) {
  for (const SavedRange& saved : ranges) {
    const bool variable = saved.kind == static_cast<uint8_t>(MemoryKind::kGlobal);
    const bool array = saved.kind == static_cast<uint8_t>(MemoryKind::kArray);
    const uint64_t address = variable ? find_variable(saved)
                             : array  ? session_.model_.arrays.copy_of(saved.ordinal, saved.size)
                                      : find(saved);
    if (address == 0) {
      return {Code::kUnsupported,
              text_of(saved) + " of the checkpoint is not there in this process"};
    }
    if (address != saved.address && may_be_pointed_to(saved)) loaded.moved.push_back(&saved);
    loaded.addresses.push_back(address);
  }
  return {};
}

namespace {
// Refuses bytes of device memory of which a word points into one of the ranges.
Status expect_no_pointer(std::span<const std::byte> bytes,
                         const std::vector<const SavedRange*>& ranges) {
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    for (const SavedRange* range : ranges) {
      if (word - range->address >= range->size) continue;
      const std::string what =
          range->name.empty() ? "device memory" : "the variable " + range->name;
      return {Code::kUnsupported, what + " was at " + hex_text(range->address) +
                                      " and is elsewhere in this process, but device memory " +
                                      "holds its old address"};
    }
  }
  return {};
}
}  // namespace

Status Checkpointer::load(const CheckpointInfo& checkpoint, const Manifest& manifest) {
  const auto repeated = [this](const SavedRange& saved) {
    if (saved.kind == static_cast<uint8_t>(MemoryKind::kPhysical)) {
      const PhysicalMemory* memory = session_.model_.physical.numbered(saved.module);
      return memory != nullptr && memory->size == saved.size ? memory->address : 0;
    }
    const MemoryRange* range = session_.model_.memory.at(saved.address);
    const bool is_it =
        range != nullptr && range->size == saved.size && range->kind == MemoryKind::kDevice;
    return is_it ? saved.address : 0;
  };
  std::vector<uint64_t> addresses;
  Status status = put_back(checkpoint, manifest, repeated, addresses);
  // One that is on its way may still fail to be committed: the next one does not build on it.
  if (!status.ok() || session_.restored_.is_pending) return status;
  return adopt(manifest, addresses);
}

// The next checkpoint is a full one: this process's journal is its own.
Status Checkpointer::reload(const CheckpointInfo& checkpoint, const Manifest& manifest) {
  const auto known = session_.model_.memory.by_identity();
  const auto alike = [&](const SavedRange& saved) {
    const auto found = known.find({saved.call_site, saved.ordinal});
    return found != known.end() && found->second->size == saved.size ? found->second->address : 0;
  };
  std::vector<uint64_t> addresses;
  return put_back(checkpoint, manifest, alike, addresses);
}

Status Checkpointer::put_back(const CheckpointInfo& checkpoint, const Manifest& manifest,
                              const Find& find, std::vector<uint64_t>& addresses) {
  Session& s = session_;
  // Events that the replay made again may be on their way still.
  Status status = drain();
  if (status.ok())
    status = s.model_.modules.find_globals(s.model_.contexts.by_number(), s.model_.memory);
  if (status.ok()) status = s.model_.arrays.make_copies();
  if (status.ok()) status = s.model_.give_physical_contexts();
  if (!status.ok()) return status;
  std::unique_ptr<RestoreReader> reader = take_reader();
  if (reader == nullptr) reader = make_reader(checkpoint, manifest.rank);
  const Result<const Contents*> contents = reader->open();
  if (!contents.ok()) return contents.status();
  LoadedRanges loaded;
  status = find_addresses(contents.value()->chain.front().ranges, find, loaded);
  if (!status.ok()) return status;
  LoadProgress progress(manifest.bytes(), *reader);
  status =
      reader->read_all([&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
        for (const ReadPiece& piece : pieces) progress.add(piece.size);
        return load_pieces(pieces, loaded, bytes);
      });
  addresses = std::move(loaded.addresses);
  return status.ok() ? copy_arrays(Arrays::Direction::kFromCopies) : status;
}

std::unique_ptr<RestoreReader> Checkpointer::make_reader(const CheckpointInfo& checkpoint,
                                                         uint32_t rank) {
  Session& s = session_;
  RestoreReader::Request request;
  request.checkpoint = checkpoint;
  request.rank = rank;
  request.ssd = s.run_.settings.tiers.ssd;
  request.shares = ranks_on_node(environ);
  request.run = s.run_.name;
  if (s.restored_.is_pending) {
    StagingMemory* const memory =
        s.run_.backend->outlives_process() ? &s.run_.backend->memory() : nullptr;
    request.locate = locate_rank(s.run_.settings, memory, *s.run_.store, checkpoint, rank);
  }
  request.spawn = [&s](std::function<void()> body) {
    return s.run_.workers.spawn(std::move(body));
  };
  return std::make_unique<RestoreReader>(posix_file_system(), *s.run_.store, std::move(request),
                                         std::make_unique<SlotBuffers>(s.run_.backend->pool()));
}

void Checkpointer::read_ahead(const CheckpointInfo& checkpoint, uint32_t rank) {
  auto reader = make_reader(checkpoint, rank);
  reader->begin();
  const std::lock_guard lock(mutex_);
  reader_ = std::move(reader);
}

// Another thread may load meanwhile.
void Checkpointer::stop_reading() {
  const std::lock_guard lock(mutex_);
  if (reader_ != nullptr) reader_->stop();
}

std::unique_ptr<RestoreReader> Checkpointer::take_reader() {
  const std::lock_guard lock(mutex_);
  return std::move(reader_);
}

// What changes from here on is told from the checkpoint that was loaded.
Status Checkpointer::adopt(const Manifest& manifest, const std::vector<uint64_t>& addresses) {
  Session& s = session_;
  std::set<uint64_t> in_place;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const SavedRange& saved = manifest.ranges[i];
    if (saved.life == 0 || addresses[i] != saved.address) continue;
    s.model_.memory.continue_life(saved.address, saved.life);
    in_place.insert(saved.address);
  }
  last_ = {manifest.epoch, manifest.chain};
  progress_.is_complete({manifest.epoch, manifest.cut_unix_ns, manifest.stall_ns});
  return snapshots_.adopt(
      s.model_.memory, [&](const TrackedRange& range) { return in_place.contains(range.address); });
}

// `pieces`: of `bytes`, all of one range. What is at another address in this process may be loaded
// there, unless some word of device memory still points to the old place.
Status Checkpointer::load_pieces(std::span<const ReadPiece> pieces, const LoadedRanges& loaded,
                                 std::span<const std::byte> bytes) {
  for (const ReadPiece& piece : pieces) {
    if (loaded.moved.empty()) break;
    Status status = expect_no_pointer(bytes.subspan(piece.at, piece.size), loaded.moved);
    if (!status.ok()) return status;
  }
  const uint64_t address = loaded.addresses[pieces.front().range];
  const Driver& driver = session_.driver();
  const MemoryRange* range = session_.model_.memory.find(address);
  CurrentContext current(driver, context_of(*range));
  CUresult result = CUDA_SUCCESS;
  for (const ReadPiece& piece : pieces) {
    if (result != CUDA_SUCCESS) break;
    result = driver.cuMemcpyHtoDAsync_v2(address + piece.offset, bytes.data() + piece.at,
                                         piece.size, stream());
  }
  // Also after a failure: the slot is read until then.
  const CUresult done = driver.cuStreamSynchronize(stream());
  return driver_status(driver, ("loading " + range_text(address, range->size)).c_str(),
                       result == CUDA_SUCCESS ? done : result);
}

}  // namespace gpusnap
