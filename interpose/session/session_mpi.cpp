// The session's part in MPI: cuts are made at collectives by all ranks, and outcomes of
// calls go into the journal (mpi/process.h).

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "interpose/mpi/coordination.h"
#include "interpose/mpi/cut_barriers.h"
#include "interpose/mpi/cut_control.h"
#include "interpose/mpi/outcomes.h"
#include "interpose/mpi/state.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/session/session.h"
#include "interpose/snapshot/checkpointer.h"
#include "interpose/snapshot/snapshots.h"
#include "interpose/threads/thread_path.h"

namespace gpusnap {

namespace {
using Clock = CallLock::Clock;
// How long a checkpoint may be due before it is said why it is not made.
constexpr auto kOverdue = std::chrono::seconds(60);
// Null: it will pass by itself.
const char* reason_of(int unready) {
  switch (static_cast<mpi::Unready>(unready)) {
    case mpi::Unready::kCapture:
      return "it captures a stream";
    case mpi::Unready::kRequest:
      return "it has an open receive from any source, or a request with device memory";
    case mpi::Unready::kNoCuda:
      return "it has made no CUDA call";
    case mpi::Unready::kReady:
    case mpi::Unready::kBusy:
    case mpi::Unready::kReplaying:
      break;
  }
  return nullptr;
}

int small(uint64_t epoch) {
  return static_cast<int>(std::min<uint64_t>(epoch, INT32_MAX));
}
}  // namespace

class Session::MpiControl final : public mpi::CutControl {
 public:
  mpi::Ballot cast_ballot() override;
  void make_due_by_count() override;
  void apply_agreement(const mpi::Ballot& agreed) override;
  bool cut_at_collective(const char* name, uint64_t number, const mpi::Ballot& agreed,
                         mpi::CutBarriers& cut_barriers) override;
  void replay_cut_at_collective(const char* name, bool last,
                                mpi::CutBarriers& cut_barriers) override;
  void await_live(const char* name) override;
  bool append_outcome(std::string_view name, uint64_t number, std::span<const int32_t> values,
                      uint64_t count) override;
  Result<std::unique_ptr<mpi::OutcomeReader>> open_outcomes(uint64_t& epoch) override;
  bool is_device_memory(const void* address) const override;
  bool holds_device_memory(const void* address, uint64_t bytes) override;
  bool is_seen_by_device(const void* address) const override;
  Status read_device(const void* from, std::span<std::byte> to) override;
  Status write_device(void* to, std::span<const std::byte> from) override;
  void about_to_write(const void* address, uint64_t bytes) override;
  void refuse_call(const char* what) override;
  void initialised(const Ranks& ranks) override;

 private:
  template <class Copy>
  static Status copy(const void* at, const char* what, Copy&& begin);

  CallLock::Clock::time_point unready_since_{};  // and a checkpoint is wanted; 0: not so
  bool said_unready_ = false;
};

mpi::CutControl& mpi::cut_control() {
  // Never deleted: MPI calls may come from destructors that run after ours.
  static auto* const control = new Session::MpiControl;
  return *control;
}

mpi::Ballot Session::MpiControl::cast_ballot() {
  mpi::Ballot ballot;
  Session* s = the_session();
  if (s == nullptr) {
    ballot.unready = static_cast<int>(mpi::Unready::kNoCuda);
    ballot.ended = cannot_start_ ? 1 : 0;
    return ballot;
  }
  const auto held = s->lock_any();
  const CutGate& gate = s->cuts_.gate();
  const bool off = s->admission_.mode() == Mode::kOff;
  ballot.unready = static_cast<int>(gate.unready(s->cuts_.facts()));
  ballot.wanted = s->triggers_->stop_wanted() ? mpi::kStop
                  : s->triggers_->wanted()    ? mpi::kCheckpoint
                                              : 0;
  ballot.ended = off || s->foreign_.load(std::memory_order_relaxed) != nullptr ? 1 : 0;
  ballot.failed = small(s->checkpointer_->failed_epoch());
  ballot.epoch = small(s->checkpointer_->next_epoch());
  ballot.shares = gate.shares() ? 1 : 0;
  ballot.store = s->triggers_->is_asked_for() || s->checkpointer_->wants_store() ? 1 : 0;
  ballot.newest = small(s->checkpointer_->newest_complete());
  ballot.least_newest = -ballot.newest;
  return ballot;
}

void Session::MpiControl::make_due_by_count() {
  Session* s = the_session();
  if (s != nullptr) s->triggers_->on_barriers();
}

void Session::MpiControl::apply_agreement(const mpi::Ballot& agreed) {
  Session* s = the_session();
  if (s == nullptr) return;
  const auto failed = static_cast<uint64_t>(agreed.failed);
  if (failed > s->checkpointer_->failed_epoch()) s->checkpointer_->given_up_elsewhere(failed);
  if (agreed.ended != 0) {
    const auto held = s->lock_any();
    s->retirement_.end_checkpoints(
        "another rank of the job takes no more checkpoints, and has said why", LogLevel::kInfo);
  }
  const char* const reason = reason_of(agreed.unready);
  if (agreed.wanted == 0 || agreed.ended != 0 || reason == nullptr) {
    unready_since_ = {};
    return;
  }
  const auto now = Clock::now();
  if (unready_since_ == Clock::time_point()) {
    unready_since_ = now;
  } else if (now - unready_since_ > kOverdue && s->run_.ranks.rank == 0 &&
             !std::exchange(said_unready_, true)) {
    log(LogLevel::kWarn, "a checkpoint has been due for ", kOverdue / std::chrono::seconds(1),
        " s, and a rank cannot take part: ", reason);
  }
}

bool Session::MpiControl::cut_at_collective(const char* name, uint64_t number,
                                            const mpi::Ballot& agreed,
                                            mpi::CutBarriers& cut_barriers) {
  Session* s = the_session();
  if (s == nullptr) return false;
  const auto epoch = static_cast<uint64_t>(agreed.epoch);
  const auto complete = static_cast<uint64_t>(agreed.complete());
  s->journal_early_outcomes();
  auto held = s->lock_any();
  bool cut = false;
  if (s->admission_.is_recording()) {
    s->admission_.enter();
    if (s->cuts_.gate().may_cut_with_others(cut_barriers.any()) && s->cuts_.close()) {
      cut = s->cuts_.take(
          {kAtCollective, epoch, name, number, &cut_barriers, agreed.store == 0, complete});
      s->cuts_.open();
    } else {
      s->checkpointer_->miss(epoch);
    }
  }
  held.release();
  s->leave();
  return cut;
}

void Session::MpiControl::replay_cut_at_collective(const char* name, bool last,
                                                   mpi::CutBarriers& cut_barriers) {
  Session* s = the_session();
  if (s == nullptr) {
    fatal(kExitDiverged, std::string("the program does not repeat itself: it had made CUDA "
                                     "calls before this ") +
                             name + ", and has made none; nothing was changed in the store");
  }
  const auto held = s->lock_any();
  if (s->replay_.pass_collective(name, last)) s->go_live(&cut_barriers);
}

void Session::MpiControl::await_live(const char* name) {
  Session* s = the_session();
  if (s == nullptr) return;
  const auto held = s->lock_any();
  if (s->replaying() && s->cuts_.gate().is_coordinated()) {
    s->replay_.diverge("the MPI collective at which the cut was made", name);
  }
  if (s->replay_.await_live(name)) s->go_live();
}

bool Session::MpiControl::append_outcome(std::string_view name, uint64_t number,
                                         std::span<const int32_t> values, uint64_t count) {
  Session* s = the_session();
  if (s == nullptr) return false;
  s->journal_early_outcomes();
  s->journal_outcome(name, number, values, count);
  return true;
}

void Session::journal_early_outcomes() {
  if (!mpi::has_early()) return;
  for (const mpi::EarlyOutcome& outcome : mpi::take_early()) {
    journal_outcome(outcome.name, outcome.number, outcome.values, outcome.count);
  }
}

void Session::journal_outcome(std::string_view name, uint64_t number,
                              std::span<const int32_t> values, uint64_t count) {
  const auto held = lock_any();
  admission_.await_entry();
  if (admission_.is_recording()) recorder_->append_outcome(name, number, values, count);
}

bool Session::MpiControl::is_device_memory(const void* address) const {
  Session* s = the_session();
  const auto at = reinterpret_cast<uint64_t>(address);
  // Most of what MPI calls get is none, and a lock costs as much as a small message does.
  if (s == nullptr || !s->model_.memory.may_be_on_device(at)) return false;
  const auto held = s->lock_any();
  const MemoryRange* const range = s->model_.memory.find(at);
  return range != nullptr && is_on_device(range->kind) && s->admission_.mode() != Mode::kOff;
}

bool Session::MpiControl::holds_device_memory(const void* address, uint64_t bytes) {
  Session* s = the_session();
  const auto at = reinterpret_cast<uint64_t>(address);
  if (s == nullptr || bytes == 0 || !s->model_.memory.may_be_on_device(at, bytes)) return false;
  const auto held = s->lock_any();
  const auto& ranges = s->model_.memory.ranges();
  const MemoryRange* const first = s->model_.memory.find(at);
  bool found = first != nullptr && is_on_device(first->kind);
  for (auto it = ranges.upper_bound(at); !found && it != ranges.end() && it->first < at + bytes;
       ++it) {
    found = is_on_device(it->second.kind);
  }
  return found && s->admission_.mode() != Mode::kOff;
}

bool Session::MpiControl::is_seen_by_device(const void* address) const {
  Session* s = the_session();
  if (s == nullptr) return false;
  const auto held = s->lock_any();
  return s->model_.host_memory.contains(reinterpret_cast<uint64_t>(address), 1);
}

// `begin(driver, address, stream)` begins one.
template <class Copy>
Status Session::MpiControl::copy(const void* at, const char* what, Copy&& begin) {
  Session* s = the_session();
  if (s == nullptr) return {};
  const auto address = reinterpret_cast<uint64_t>(at);
  auto held = s->lock_any();
  const MemoryRange* range = s->model_.memory.find(address);
  // Code that can reach it at our address can reach it at the program's.
  if (range != nullptr && range->kind == MemoryKind::kView)
    range = s->model_.memory.find(range->origin);
  const auto context = range == nullptr ? nullptr : reinterpret_cast<CUcontext>(range->context);
  held = {};
  if (context == nullptr) return {Code::kInvalid, "it is no device memory"};
  const Driver& driver = s->driver();
  CurrentContext current(driver, context);
  const RelaxedCapture relaxed(driver);
  // MPI libraries copy on streams of their own: the program's kernels go on beside it.
  const CUstream stream = s->snapshots_->reading_stream(context);
  CUresult result = begin(driver, address, stream);
  if (result == CUDA_SUCCESS) result = driver.cuStreamSynchronize(stream);
  return driver_status(driver, what, result);
}

Status Session::MpiControl::read_device(const void* from, std::span<std::byte> to) {
  if (to.empty()) return {};
  return copy(from, "reading what is sent",
              [to](const Driver& driver, CUdeviceptr at, CUstream stream) {
                return driver.cuMemcpyDtoHAsync_v2(to.data(), at, to.size(), stream);
              });
}

Status Session::MpiControl::write_device(void* to, std::span<const std::byte> from) {
  if (from.empty()) return {};
  return copy(to, "writing what is received",
              [from](const Driver& driver, CUdeviceptr at, CUstream stream) {
                return driver.cuMemcpyHtoDAsync_v2(at, from.data(), from.size(), stream);
              });
}

void Session::MpiControl::about_to_write(const void* address, uint64_t bytes) {
  Session* s = the_session();
  if (s == nullptr || s->replaying() || !s->snapshot_pending()) return;
  WriteSet set;
  set.add(reinterpret_cast<uint64_t>(address), bytes);
  {
    const auto held = s->lock_any();
    s->model_.memory.lead(set);
  }
  const RelaxedCapture relaxed(s->driver());
  s->snapshots_->before_write(set, CU_STREAM_LEGACY, Hold::kHost, false);
}

void Session::MpiControl::refuse_call(const char* what) {
  Session* s = the_session();
  if (s == nullptr) return;
  const auto held = s->lock_any();
  s->refuse(what);
}

void Session::MpiControl::initialised(const Ranks& ranks) {
  Session* s = the_session();
  if (s == nullptr) return;
  if (s->run_.ranks.rank == ranks.rank && s->run_.ranks.ranks == ranks.ranks) return;
  refuse_call(
      "MPI_Init behind the first CUDA call, under a launcher that does not tell the ranks,");
}

void Session::say_overdue() {
  if (mpi::initialised() || said_overdue_.exchange(true)) return;
  log(LogLevel::kWarn, "no checkpoint: the launcher says that this is one of ", run_.ranks.ranks,
      " ranks, and it has not called MPI_Init; several processes that are no MPI job need a ",
      "GPUSNAP_JOB each, and to be started one by one");
}

Result<std::unique_ptr<mpi::OutcomeReader>> Session::MpiControl::open_outcomes(uint64_t& epoch) {
  epoch = 0;
  Session* s = the_session();
  if (s != nullptr && !s->replaying()) return Status(Code::kNotFound, "nothing is restored");
  if (s != nullptr) {
    epoch = s->restored_.checkpoint.epoch;
    return mpi::OutcomeReader::open(posix_file_system(), s->run_.store->job_folder(s->run_.job),
                                    s->restored_.manifest());
  }
  const Settings settings = parse_settings(environ).settings;
  if (settings.restore.empty() || settings.reload) {
    return Status(Code::kNotFound, "nothing is repeated");
  }
  std::error_code error;
  ProgramIdentity program;
  program.path = std::filesystem::read_symlink("/proc/self/exe", error).string();
  program.folder = std::filesystem::current_path(error).string();
  const auto store = Store::open(posix_file_system(), settings.pfs, false);
  if (!store.ok()) return store.status();
  const std::string job = job_of(settings, program);
  const auto found = find_rank(settings, *store.value(), restore_id(settings, job), mpi::ranks());
  if (!found.ok()) return found.status();
  const Manifest& manifest = found->manifest();
  if (manifest.program.path != program.path && !settings.allowed.program) {
    return Status(Code::kInvalid, "it is the checkpoint of " + manifest.program.path);
  }
  epoch = found->checkpoint.epoch;
  return mpi::OutcomeReader::open(posix_file_system(), store.value()->job_folder(job), manifest);
}

}  // namespace gpusnap
