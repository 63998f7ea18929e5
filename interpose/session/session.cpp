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
#include "interpose/mpi/cut_control.h"
#include "interpose/mpi/state.h"
#include "interpose/nondeterminism/value_log.h"
#include "interpose/process/saved_readings.h"
#include "interpose/replay/replay_output.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/services/private_memory.h"
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

bool Session::start() {
  const char* missing = nullptr;
  const Driver* driver = load_driver(&missing);
  cannot_start_ = true;
  if (driver == nullptr) {
    log(LogLevel::kError, "no checkpoints: this CUDA driver is too old, it lacks ", missing);
    return false;
  }
  auto* session = new Session(*driver);
  session->model_.shared_memory.become_of_process();
  session->model_.arena.become_of_process();
  if (!session->configure()) return false;
  own_state.standing = Standing::kMet;
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
    if (restores) {
      session->find_restored();
      session->reload_ =
          std::make_unique<Reload>(session->restored_, session->run_.settings.reload_behind);
    }
    session->warn_if_randomised();
  }
  cannot_start_ = false;
  the_one_.store(session, std::memory_order_release);
  session->journal_early_outcomes();
  if (const char* what = mpi::refused()) mpi::cut_control().refuse_call(what);
  return true;
}

void Session::abandon_after_fork() {
  auto* const s = static_cast<Session*>(the_one_.exchange(nullptr));
  DeviceArena::abandon_after_fork();
  if (s != nullptr && s->triggers_ != nullptr) s->triggers_->abandon_after_fork();
}

void Session::lose_sight(const char* name) {
  Session* s = the_session();
  if (s == nullptr) return;
  s->foreign_.store(name, std::memory_order_relaxed);
  // The program may use what it has got before it makes another call that is hooked.
  const ForeignLock lock(s->lock_);
  s->retirement_.abandon_snapshot();
}

namespace {
Doing doing_in(Mode mode) {
  switch (mode) {
    case Mode::kReplay:
      return Doing::kReplaying;
    case Mode::kRecord:
      return Doing::kRecording;
    case Mode::kOff:
      break;
  }
  return Doing::kOff;
}
}  // namespace

// By the triggers' thread, at any time: looks only at what never changes once there are triggers,
// and at what is atomic or has a lock of its own.
ProcessStatus Session::status() const {
  ProcessStatus status = run_.status();
  checkpointer_->tell(doing_in(admission_.mode()), status);
  return status;
}

// The checkpoint that a program which has not got back to it yet can end without losing. Ranks wait
// for each other to be live: one that ends alone would hold up the others. A checkpoint that stayed
// in memory is not durable.
std::string Session::checkpoint_of_replay() const {
  if (!admission_.is_replaying() || cuts_.gate().is_coordinated()) return {};
  const bool durable = destination_of(restored_.manifest()) == plan::Destination::kStore;
  return durable ? restored_.checkpoint.id : std::string();
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
  if (run_.settings.arena) model_.arena.begin();
  cuts_.gate().set_rules(run_.ranks.ranks > 1, run_.settings.organisation.blocking);
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
  checkpointer_ = std::make_unique<Checkpointer>(
      Checkpointer::Neighbours{model_, run_, host_updates_.deliveries(), foreign_, restored_,
                               recorder_, triggers_, direct_.get()});
  snapshots_ = &checkpointer_->snapshots();
  writes_wanted_ = &snapshots_->wants_writes();
  pinning_->begin(run_.callers,
                  [this] { return snapshots_->running() || snapshots_->program_copies().any(); });
  // Parts that an earlier run has handed over may have left no trace in the store yet.
  const auto free = free_epoch(run_.backend->memory(), *run_.store, run_.job);
  if (!free.ok()) return free.status();
  checkpointer_->skip_to(free.value() - 1);
  begin_triggers();
  return {};
}

void Session::begin_triggers() {
  triggers_ = std::make_unique<Triggers>(run_.settings.every, spawn_thread);
  triggers_->set_status_source([this] { return status(); });
  triggers_->set_stop_source([this] { return checkpoint_of_replay(); },
                             [this](const std::string& id) { cuts_.end_stopped(id); });
  const bool is_coordinated = cuts_.gate().is_coordinated();
  if (is_coordinated) triggers_->coordinate([this] { say_overdue(); });
  // The driver shares nothing of the arena: that is ours to do, whoever asks.
  if (is_coordinated || run_.settings.arena) begin_sharing();
  if (run_.settings.balance == Balance::kNode) {
    triggers_->set_loan_source(
        {[this](const LoanRequest& request, uint64_t number, std::vector<int>& descriptors) {
           return snapshots_->lend(request, number, descriptors);
         },
         [this](uint64_t number) { snapshots_->end_loan(number); }});
  }
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
  recorder_->name_threads(replay_.places());
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
  if (run_.settings.read_ahead) checkpointer_->read_ahead(restored_.checkpoint, manifest.rank);
  replay_.begin(std::move(replayer.value()));
  set_mode(Mode::kReplay);
}

void Session::warn_if_randomised() const {
  const int persona = personality(0xffffffff);
  if (persona != -1 && (persona & ADDR_NO_RANDOMIZE) != 0) return;
  log(LogLevel::kInfo, "address randomisation is on: a program that lets the device see host ",
      "addresses may be refused at restore (gpusnap run turns it off)");
}

void Session::finish() {
  Session* s = the_session();
  if (s == nullptr) {
    show_output();
    return;
  }
  {
    const auto held = s->lock_any();
    if (s->replaying()) {
      s->checkpointer_->stop_reading();
      s->replay_.end_program();
      go_on_with_output(s->replay_.held_output());
    }
    if (s->reload_pending()) {
      log(LogLevel::kError, "nothing of ", s->restored_.checkpoint.id,
          " was reloaded: ", s->reload_->why_not_yet());
    }
    s->retirement_.await_snapshot();
    s->set_mode(Mode::kOff);
    s->replay_.wake();
  }
  // A client that asks is told how the last checkpoint gets on as long as that is waited for.
  if (s->triggers_ != nullptr) s->triggers_->end_cuts("the program ends; no checkpoint was taken");
  if (s->checkpointer_ != nullptr) s->checkpointer_->end();
  if (s->triggers_ != nullptr) s->triggers_->stop();
}

}  // namespace gpusnap
