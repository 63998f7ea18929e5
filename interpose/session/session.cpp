#include "interpose/session/session.h"

#include <sys/personality.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <thread>

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/direct/direct_storage.h"
#include "interpose/hook/activation.h"
#include "interpose/mpi/cut_control.h"
#include "interpose/mpi/state.h"
#include "interpose/nondeterminism/opened_files.h"
#include "interpose/nondeterminism/value_log.h"
#include "interpose/process/saved_readings.h"
#include "interpose/replay/replay_output.h"
#include "interpose/services/call_site.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/services/private_memory.h"
#include "interpose/services/text.h"
#include "interpose/snapshot/checkpointer.h"
#include "tiers/backend/journal_stream.h"
#include "tiers/checksum.h"
#include "tiers/daemon/pending_part.h"
#include "tiers/daemon/start.h"
#include "tiers/io/io_engine.h"

namespace gpusnap {

namespace {
std::string absolute_path(const std::string& path) {
  char folder[PATH_MAX];
  if (path.starts_with('/') || getcwd(folder, sizeof folder) == nullptr) return path;
  return std::string(folder) + "/" + path;
}
}  // namespace

Session::Session(const Driver& driver)
    : driver_(&driver),
      call_sites_(reinterpret_cast<const void*>(&absolute_path)),
      model_(driver) {}

bool Session::start() {
  const char* missing = nullptr;
  const Driver* driver = load_driver(&missing);
  cannot_start_ = true;
  if (driver == nullptr) {
    log(LogLevel::kError, "no checkpoints: this CUDA driver is too old, it lacks ", missing);
    return false;
  }
  auto* session = new Session(*driver);
  the_shared_memory_.store(&session->model_.shared_memory, std::memory_order_release);
  if (!session->configure()) return false;
  own_state.met = true;
  session->lock_.begin();
  Status status = session->open_store();
  const bool restores = !session->run_.settings.restore.empty();
  if (restores && !session->run_.settings.reload) {
    if (!status.ok()) fatal(kExitStore, status.message());
    session->begin_replay();
  } else {
    if (status.ok()) status = session->begin_recording({}, 0, 0);
    if (!status.ok()) {
      if (restores) fatal(kExitStore, status.message());
      if (session->triggers_ != nullptr) session->triggers_->end_cuts(status.message());
      log(LogLevel::kError, "no checkpoints: ", status.message());
      if (session->run_.settings.strict) fatal(kExitStore, "stopped, as GPUSNAP_STRICT asks");
      return false;
    }
    if (restores) session->begin_reload();
    session->warn_if_randomised();
  }
  cannot_start_ = false;
  the_session_.store(session, std::memory_order_release);
  session->journal_early_outcomes();
  if (const char* what = mpi::refused()) mpi::cut_control().refuse_call(what);
  return true;
}

void Session::abandon_after_fork() {
  Session* s = the_session_.exchange(nullptr);
  if (s != nullptr && s->triggers_ != nullptr) s->triggers_->abandon_after_fork();
}

void Session::lose_sight(const char* name) {
  Session* s = the_session_.load(std::memory_order_acquire);
  if (s == nullptr) return;
  s->foreign_.store(name, std::memory_order_relaxed);
  // The program may use what it has got before it makes another call that is hooked.
  lock_foreign(s->lock_);
  s->let_snapshot_end(&Snapshots::end);
  s->lock_.unlock();
}

namespace {
Doing doing_in(Session::Mode mode) {
  switch (mode) {
    case Session::Mode::kReplay:
      return Doing::kReplaying;
    case Session::Mode::kRecord:
      return Doing::kRecording;
    case Session::Mode::kOff:
      break;
  }
  return Doing::kOff;
}
}  // namespace

// By the triggers' thread, at any time: looks only at what never changes once there are triggers,
// and at what is atomic or has a lock of its own.
ProcessStatus Session::status() const {
  ProcessStatus status = run_.status();
  checkpointer_->tell(doing_in(mode_.load(std::memory_order_relaxed)), status);
  return status;
}

bool Session::configure() {
  const ParsedSettings parsed = parse_settings(environ);
  set_log_level(parsed.settings.log);
  for (const auto& warning : parsed.warnings) log(LogLevel::kWarn, warning);
  for (const auto& error : parsed.errors) log(LogLevel::kError, error);
  run_.settings = parsed.settings;
  if (!parsed.errors.empty()) {
    if (run_.settings.strict) fatal(kExitSetting, "stopped, as GPUSNAP_STRICT asks");
    log(LogLevel::kError, "the program runs without checkpoints");
    return false;
  }
  run_.identify(*driver_);
  coordinated_ = run_.ranks.ranks > 1;
  return true;
}

namespace {
// The backend has the lock for a moment where it prunes after an earlier run's last checkpoint.
Result<std::unique_ptr<FileLock>> lock_job(Store& store, const std::string& job) {
  constexpr auto kBetweenTries = std::chrono::milliseconds(20);
  constexpr auto kLongestWait = std::chrono::seconds(60);
  const auto until = std::chrono::steady_clock::now() + kLongestWait;
  for (;;) {
    auto lock = store.lock_job(job);
    const bool may_end = lock.status().code() == Code::kBusy && is_on_its_way();
    if (!may_end || std::chrono::steady_clock::now() >= until) return lock;
    std::this_thread::sleep_for(kBetweenTries);
  }
}
}  // namespace

Status Session::open_store() {
  auto spawn = [this](std::function<void()> body) { return run_.workers.spawn(std::move(body)); };
  IoOptions io;
  io.spawn = spawn;
  set_shared_io_options(io);
  // The backend has another working folder, and the program may change its own.
  const std::string pfs = absolute_path(run_.settings.pfs);
  auto store = Store::open(posix_file_system(), pfs, true, spawn);
  if (!store.ok()) return store.status();
  run_.store = std::move(store.value());
  // The first rank's is for all of them: without it no rank gets to a cut.
  if (run_.ranks.rank == 0) {
    auto lock = lock_job(*run_.store, run_.job);
    if (!lock.ok()) return lock.status();
    run_.job_lock = std::move(lock.value());
  }
  auto backend = BackendLink::open(run_.settings, spawn);
  if (!backend.ok()) return backend.status();
  run_.backend = std::move(backend.value());
  StagingPool& pool = run_.backend->pool();
  // Other ways are there to compare with those that take no turns.
  if (run_.settings.pin == Pinning::kStepwise) {
    pinning_turns_ = std::make_unique<NodeLock>(node_name(run_.settings.node), "pinning");
  }
  pinning_ = std::make_unique<ArenaPinning>(*driver_, run_.backend->memory(), pool,
                                            run_.settings.pin, pinning_turns_.get());
  // Now, in recordings and in replays: libraries that are loaded lie between the program's
  // mappings.
  direct_ = DirectStorage::open(run_.settings);
  if (direct_ != nullptr) {
    direct_->begin(*driver_, [this](std::function<void()> body) {
      return run_.callers.spawn(std::move(body));
    });
  }
  checkpointer_ = std::make_unique<Checkpointer>(Checkpointer::Neighbours{
      model_, run_, deliveries_, foreign_, restored_, recorder_, triggers_, direct_.get()});
  snapshots_ = &checkpointer_->snapshots();
  writes_wanted_ = &snapshots_->wants_writes();
  pinning_->begin(run_.callers,
                  [this] { return snapshots_->running() || snapshots_->program_copies().any(); });
  // Parts that an earlier run has handed over may have left no trace in the store yet.
  const auto free = free_epoch(run_.backend->memory(), *run_.store, run_.job);
  if (!free.ok()) return free.status();
  checkpointer_->skip_to(free.value() - 1);
  triggers_ = std::make_unique<Triggers>(run_.settings.every, spawn_thread);
  triggers_->set_status_source([this] { return status(); });
  if (coordinated_) triggers_->coordinate([this] { say_overdue(); });
  if (coordinated_) begin_sharing();
  if (run_.settings.balance == Balance::kNode) {
    triggers_->set_loan_source(
        {[this](const LoanRequest& request, uint64_t number, std::vector<int>& descriptors) {
           return snapshots_->lend(request, number, descriptors);
         },
         [this](uint64_t number) { snapshots_->end_loan(number); }});
  }
  return {};
}

void Session::begin_sharing() {
  // Another program writes at times that no cut knows of.
  model_.shared_memory.begin(checksum(run_.job), [this] {
    foreign_.store(
        "device memory that a process of another job, or without checkpoints, has opened",
        std::memory_order_relaxed);
  });
  model_.placement.make_shareable();
  triggers_->set_memory_source([this](const MemoryRequest& request, std::vector<int>& descriptors) {
    return model_.shared_memory.tell(request, descriptors);
  });
}

Status Session::begin_recording(std::vector<JournalPart> before, uint64_t calls,
                                uint64_t launches) {
  JournalWriter::Options options;
  options.spawn = [this](std::function<void()> body) {
    return run_.workers.spawn(std::move(body));
  };
  const std::string part = run_.name + "-r" + std::to_string(run_.ranks.rank) + ".journal";
  auto stream =
      open_journal_stream(run_.backend->pool(), run_.store->job_folder(run_.job) + "/" + part);
  if (!stream.ok()) return stream.status();
  auto recorder = Recorder::create(std::move(stream.value()), part, std::move(options),
                                   std::move(before), calls, launches);
  if (!recorder.ok()) return recorder.status();
  recorder_ = std::move(recorder.value());
  recorder_->name_threads(scheduler_.matcher().places());
  set_mode(Mode::kRecord);
  return {};
}

namespace {
int exit_code_of(Code code) {
  return code == Code::kDamaged   ? kExitDamaged
         : code == Code::kInvalid ? kExitOtherProgram
                                  : kExitNoCheckpoint;
}
}  // namespace

void Session::find_restored() {
  auto found =
      find_rank(run_.settings, *run_.store, restore_id(run_.settings, run_.job), run_.ranks);
  if (!found.ok()) fatal(exit_code_of(found.status().code()), found.status().message());
  restored_ = std::move(found.value());
  const uint64_t epoch = restored_.checkpoint.epoch;
  if (nondeterminism::given_epoch() != 0 && nondeterminism::given_epoch() != epoch) {
    fatal(kExitNoCheckpoint, "a newer checkpoint than that of epoch " +
                                 std::to_string(nondeterminism::given_epoch()) +
                                 " has been made since this program began: restore it again");
  }
}

void Session::begin_replay() {
  find_restored();
  const std::string& id = restored_.checkpoint.id;
  const Manifest& manifest = restored_.manifest();
  run_.compare_with(*driver_, manifest, id);
  auto replayer = Replayer::open(posix_file_system(), run_.store->job_folder(run_.job),
                                 manifest.journal, manifest.calls);
  if (!replayer.ok()) fatal(kExitDamaged, replayer.status().message());
  replayer_ = std::move(replayer.value());
  if (run_.settings.read_ahead) checkpointer_->read_ahead(restored_.checkpoint, manifest.rank);
  if (run_.settings.allowed.data) scheduler_.allow_data();
  threads_[own_path()] = gettid();
  set_mode(Mode::kReplay);
}

void Session::warn_if_randomised() const {
  const int persona = personality(0xffffffff);
  if (persona != -1 && (persona & ADDR_NO_RANDOMIZE) != 0) return;
  log(LogLevel::kInfo, "address randomisation is on: a program that lets the device see host ",
      "addresses may be refused at restore (gpusnap run turns it off)");
}

void Session::refuse(const std::string& what) {
  if (replaying()) fatal(kExitImpossible, "the program makes " + what + " in its replay");
  end_checkpoints(what + " cannot be restored by this version", LogLevel::kWarn);
}

void Session::end_checkpoints(const std::string& why, LogLevel level) {
  if (mode_ != Mode::kRecord) return;
  if (reload_pending()) fatal(kExitImpossible, "nothing was reloaded: " + why);
  let_snapshot_end(&Snapshots::end);
  // Another thread may have come to the same meanwhile.
  if (mode_ != Mode::kRecord) return;
  set_mode(Mode::kOff);
  stop_noting_opened();
  nondeterminism::stop_noting();
  lock_.unlock();
  snapshots_->retire();
  (void)give_up_copies({});
  lock_.lock();
  end_own_mappings();
  close_tile_pools();
  log(level, "no more checkpoints of this process, the program goes on: ", why);
  triggers_->end_cuts(why);
  if (run_.settings.strict) fatal(kExitImpossible, "stopped, as GPUSNAP_STRICT asks");
}

Identity Session::identify() {
  Identity identity;
  identity.call_site = call_sites_.here();
  identity.ordinal = call_site_uses_[identity.call_site]++;
  return identity;
}

void Session::note_context() {
  const CUcontext context = model_.contexts.current();
  CUdevice device = 0;
  // A context that has been destroyed stays current.
  if (context == nullptr || driver_->cuCtxGetDevice(&device) != CUDA_SUCCESS) return;
  if (model_.contexts.is_known(context) || !make_first_mark(context)) return;
  if (!model_.contexts.add(context, device)) return;
  if (device >= run_.devices()) run_.note_devices(*driver_, device + 1);
  if (checkpointer_ == nullptr) return;
  lock_.unlock();
  checkpointer_->add_context(context);
  pinning_->add_context(context);
  lock_.lock();
  add_progress_words(context);
}

// CUDA's runtime makes a device's primary context current before it is initialised: nothing can be
// made in it yet, and it is noted with the first memory or code that the program has there.
bool Session::make_first_mark(CUcontext context) {
  CUevent event = nullptr;
  lock_.unlock();
  bool begun = false;
  {
    const RelaxedCapture relaxed(*driver_);
    begun =
        driver_->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  lock_.lock();
  if (event != nullptr) model_.contexts.give_mark(context, event);
  return begun;
}

// Without them checkpoints end at the first copy that needs a mark. The page stays when its context
// ends: nothing tells whether the driver has forgotten it by then.
void Session::add_progress_words(CUcontext context) {
  constexpr size_t kBytes = 4096;
  lock_.unlock();
  std::byte* const block = allocate_block(kBytes);
  CUdeviceptr device = 0;
  bool usable = block != nullptr;
  if (usable) {
    const RelaxedCapture relaxed(*driver_);
    const CurrentContext current(*driver_, context);
    usable = driver_->cuMemHostRegister_v2(block, kBytes, CU_MEMHOSTREGISTER_DEVICEMAP) ==
                 CUDA_SUCCESS &&
             driver_->cuMemHostGetDevicePointer_v2 != nullptr &&
             driver_->cuMemHostGetDevicePointer_v2(&device, block, 0) == CUDA_SUCCESS;
  }
  lock_.lock();
  if (!usable) return;
  using Word = std::atomic<uint32_t>;
  progress_words_.add(context, {new (block) Word[kBytes / sizeof(Word)]{}, kBytes / sizeof(Word)},
                      device);
}

ProgressMark Session::take_progress_mark() {
  const CUcontext context = model_.contexts.current();
  ProgressWord* word = progress_words_.take(context);
  if (word == nullptr && model_.contexts.is_known(context)) {
    add_progress_words(context);
    word = progress_words_.take(context);
  }
  return {word, word == nullptr ? 0 : ++word->issued};
}

ProgramWork Session::work_to_wait_for(CUcontext context) {
  return snapshot_pending() ? model_.contexts.work_of(context) : ProgramWork();
}

void Session::before_write(const WriteSet& set, CUstream stream, Hold hold, bool freed) {
  snapshots_->before_write(set, stream, hold, freed);
}

uint64_t Session::own_device_memory() const {
  if (snapshots_ == nullptr) return 0;
  const CUcontext context = model_.contexts.current();
  return snapshots_->own_bytes(context) + model_.arrays.own_bytes(context);
}

bool Session::make_room() {
  if (snapshots_ == nullptr) return false;
  const CUcontext context = model_.contexts.current();
  const bool room = snapshots_->make_room(context);
  return give_up_copies(context) || room;
}

bool Session::give_up_copies(std::optional<CUcontext> context) {
  acquire();
  const std::vector<MappedMemory> copies = model_.arrays.take_copies(context);
  release();
  for (const MappedMemory& copy : copies) unmap_memory(*driver_, copy);
  return !copies.empty();
}

void Session::end_own_mappings() {
  std::vector<PhysicalMemory> memories;
  for (const auto& [number, memory] : model_.physical.all()) memories.push_back(memory);
  const auto chunks = model_.shadow_mappings.take_chunks();
  lock_.unlock();
  {
    const RelaxedCapture relaxed(*driver_);
    for (const PhysicalMemory& memory : memories) {
      model_.shadow_mappings.unmap(memory.address, memory.size);
    }
    for (const auto& [address, size] : chunks) (void)driver_->cuMemAddressFree(address, size);
  }
  lock_.lock();
}

void Session::close_tile_pools() {
  const std::vector<TilePool> pools = model_.tile_pools.take_all();
  lock_.unlock();
  for (const TilePool& pool : pools) model_.tile_pools.close(pool.context, pool.windows);
  lock_.lock();
}

void Session::release_aside() {
  for (const auto& [address, memory] : surplus_.take_all())
    model_.release_memory(address, memory.kind);
}

void Session::add_stream(CUstream stream) {
  note_context();
  model_.contexts.add_stream(stream);
}

void Session::remove_stream(CUstream stream) {
  model_.contexts.remove_stream(stream);
  deliveries_.forget_stream(stream);
}

void Session::forget_context(CUcontext context) {
  model_.contexts.forget(context);
  model_.value_waits.forget_context(context);
  deliveries_.forget_context(context);
  model_.modules.remove_context(context, model_.memory);
  const std::vector<MappedMemory> copies = model_.arrays.forget_context(context);
  std::vector<uint64_t> gone;
  bool outlives = false;
  for (const auto& [address, range] : model_.memory.ranges()) {
    if (range.context != reinterpret_cast<uint64_t>(context)) continue;
    // It may be there still, or not: nobody tells.
    if (PhysicalMemory* memory = model_.physical.numbered(range.module);
        range.kind == MemoryKind::kPhysical && memory != nullptr) {
      memory->is_doubtful = true;
      continue;
    }
    gone.push_back(address);
    outlives = outlives || range.of_pool;
  }
  if (model_.tile_pools.forget_context(context) && mode_ != Mode::kOff) {
    refuse("memory for tiles that outlives the context in which it was made");
  }
  // Pools belong to devices: what was taken from one in this context may be there still.
  if (outlives && mode_ != Mode::kOff) refuse("stream-ordered memory that outlives its context");
  for (uint64_t address : gone) {
    model_.memory.erase(address);
    model_.host_memory.remove(address);
  }
  // Our memory in it is unmapped, which waits for all that is queued: host functions, too, which
  // take the lock.
  pinning_->forget_context(context);
  auto lane = checkpointer_->forget_context(context);
  lock_.unlock();
  lane.reset();
  for (const MappedMemory& copy : copies) unmap_memory(*driver_, copy);
  lock_.lock();
}

void Session::refuse_guess(const WriteSet& set) {
  if (!set.unknown()) return;
  // Another thread may have made a change there, and makes it again at a time of its own.
  if (!calls_in_driver_.several_threads() || mode_ != Mode::kRecord) return;
  std::string which = "a kernel whose code is not known";
  if (!set.proven()) {
    const KernelWrites& kernel = model_.modules.kernels().of_guess(set.guesses().back());
    which = "the kernel " + kernel.name + " (" + kernel.reason + ")";
  }
  refuse("pinned or managed memory beside " + which +
         ", which may write to any of it, in several threads");
}

HostWrite* Session::begin_host_write(CUstream stream) {
  if (model_.host_memory.empty() || !recording()) return nullptr;
  const CUcontext context = model_.contexts.current();
  if (own_state.number == 0) own_state.number = ++thread_count_;
  const uint64_t thread = stream == CU_STREAM_PER_THREAD ? own_state.number : 0;
  const CUstream known = stream == nullptr ? CU_STREAM_LEGACY : stream;
  HostWrite* const write = deliveries_.begin_write(context, known, thread);
  if (write != nullptr || !model_.contexts.is_known(context)) return write;
  add_progress_words(context);
  return deliveries_.begin_write(context, known, thread);
}

ProgramCopies::Ticket Session::own_copy() {
  const bool wanted = snapshot_pending() || (pinning_ != nullptr && pinning_->under_way());
  return wanted ? snapshots_->program_copies().enter() : nullptr;
}

void Session::defer(const HostBlock& block, const ProgressMark& mark, bool in_graph,
                    ProgramCopies::Ticket ticket) {
  deliveries_.add_copy(block, mark, in_graph, std::move(ticket));
}

void Session::note_answered(const HostBlock& block) {
  if (model_.host_memory.empty()) return;
  block.for_each_row([&](auto row) {
    model_.host_memory.note_copied(reinterpret_cast<uint64_t>(row.data()), row.size());
  });
}

const std::vector<Delivery>& Session::collect(bool all_done, uint8_t* flags) {
  using enum Deliveries::Moment;
  const auto taken = deliveries_.collect(all_done ? kIdle : kCall, !host_function_runs());
  *flags |= taken.flags;
  if (taken.doubt != nullptr) foreign_.store(taken.doubt, std::memory_order_relaxed);
  return deliveries_.deliveries();
}

const Entry& Session::match_next_entry(HookId hook, const CallKey& key) {
  const Entry& entry = scheduler_.entry();
  const auto compared = scheduler_.compare(hook, key);
  if (compared == ReplayScheduler::Compared::kSame) return entry;
  if (compared == ReplayScheduler::Compared::kMismatch) throw EntryMismatch();
  const std::string got = describe(static_cast<uint16_t>(hook), key.words, key.count, key.name);
  if (compared == ReplayScheduler::Compared::kOtherCall) {
    diverged(describe(entry.head.hook, entry.words.data(), entry.words.size(), entry.name), got);
  }
  diverged(got + " with the data of the recorded run",
           "the call with other data (bytes that the program never set may differ from run to run: "
           "GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0 in both gives "
           "those of its heap one value; --force-data passes over all data)");
}

void Session::deliver(const Entry& entry) {
  std::vector<uint64_t> looked_at;
  for (uint32_t i = 0; i < entry.head.deliveries; ++i) {
    DeliveryHead head;
    Status status = replayer_->next_delivery(head);
    auto read = [&](std::span<std::byte> bytes) {
      if (status.ok()) status = replayer_->read(bytes);
    };
    if (status.ok() && head.kind == DeliveryHead::kCopy) {
      HostBlock block;
      if (!deliveries_.take_expected(head.target, head.size, block)) {
        fatal(kExitDamaged, "the replay journal delivers a copy that was not made");
      }
      block.for_each_row(read);
      note_answered(block);
    } else if (status.ok()) {
      const auto mirror = model_.host_memory.mirror(head.target, head.offset, head.size);
      if (mirror.size() != head.size) {
        if (model_.managed_places() != 0) fatal(kExitImpossible, kManagedElsewhere);
        fatal(kExitDamaged, "the replay journal writes to memory that is not there");
      }
      read(mirror);
      looked_at.push_back(head.target);
    }
    if (!status.ok()) fatal(kExitDamaged, status.message());
  }
  if ((entry.head.flags & kCaptured) != 0) model_.host_memory.settle();
  if ((entry.head.flags & kPartlyCaptured) == 0) return;
  looked_at.erase(std::unique(looked_at.begin(), looked_at.end()), looked_at.end());
  for (uint64_t address : looked_at) model_.host_memory.settle(address);
}

std::string Session::describe(uint16_t hook, const uint64_t* words, size_t count,
                              std::string_view name) {
  std::string text = hook < kHookCount ? name_of(static_cast<HookId>(hook)) : "an unknown call";
  text += '(';
  for (size_t i = 0; i < count; ++i) {
    if (i != 0) text += ", ";
    text += words[i] < 1'000'000 ? std::to_string(words[i]) : hex_text(words[i]);
  }
  if (!name.empty()) {
    if (count != 0) text += ", ";
    text += '"';
    text += name;
    text += '"';
  }
  return text + ')';
}

void Session::diverged(const std::string& expected, const std::string& got) {
  // It may have said why.
  show_output();
  if (const char* doubt = nondeterminism::doubt()) log(LogLevel::kWarn, doubt);
  fatal(kExitDiverged, "the program does not repeat itself: " + own_name() + ", call " +
                           std::to_string(replayer_->calls_read()) + ": expected " + expected +
                           ", got " + got + "; nothing was changed in the store");
}

}  // namespace gpusnap
