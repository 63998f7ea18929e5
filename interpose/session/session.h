// One process that uses CUDA, from its first successful cuInit to its end: what is known of its
// device memory, its journal, and whether it records or replays.
//
// Any thread of the program makes hooked calls. One lock guards all that the session knows,
// which a thread holds from enter() to leave() except while the driver is called for it: handlers
// run under the lock, the real call does not. Two things order the threads beside it:
//   admission   while a cut is made no other thread is inside a hooked call;
//   turns       in a replay the calls are made in the order in which the recording journaled them,
//               at their ends (replay_turns.h).
//
// A session is one of
//   recording  every hooked call goes to the driver and into the journal; checkpoints are taken;
//   replaying  calls up to the cut are checked against the journal, and skipped or made again;
//   off        everything passes through. Nothing leads back from there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/session/call_environment.h"

namespace gpusnap {

class DirectStorage;
namespace mpi {
class CutBarriers;
}

class Session final : public CallEnvironment {
 public:
  // Called once, at the first successful cuInit. False: everything passes through for the rest of
  // the process.
  static bool start();
  // Called when the process ends normally: waits for the checkpoint on its way.
  static void finish();
  static void abandon_after_fork();
  // Any thread: the program has got something that we cannot follow.
  static void lose_sight(const char* name);

  // The session as MPI calls see it (mpi/cut_control.h).
  class MpiControl;

  ReplayTurns::Claim claim_turn(HookId hook, const CallKey& key) override;

 private:
  using CallEnvironment::CallEnvironment;
  // Null: there is none.
  static Session* the_session() {
    return static_cast<Session*>(the_one_.load(std::memory_order_acquire));
  }

  // By the triggers' thread, from the moment on at which there are triggers.
  ProcessStatus status() const;
  std::string checkpoint_of_replay() const;
  void set_mode(Mode mode);
  // ---- the beginning (session.cpp)
  bool configure();
  Status open_store();
  void begin_triggers();
  void begin_sharing();
  void find_restored();
  void begin_replay();
  Status begin_recording(std::vector<JournalPart> before, uint64_t calls, uint64_t launches);
  void warn_if_randomised() const;
  // ---- threads (session_threads.cpp)
  void meet();
  CallEnvironment* enter_first(HookId hook) override;
  CallEnvironment* enter_slowly(HookId hook) override;
  void leave_slowly() override;
  std::unique_lock<CallLock> lock_any() override;
  void admit(HookId hook);
  bool may_come_early(HookId hook) const;
  // `cut_barriers`: of all ranks, when memory has been loaded; null: none.
  void go_live(mpi::CutBarriers* cut_barriers = nullptr);
  void load_memory(mpi::CutBarriers* cut_barriers);
  // ---- MPI (session_mpi.cpp)
  // Journals outcomes of MPI calls: those before there was a journal; that of one call. The caller
  // holds no lock.
  void journal_early_outcomes();
  void journal_outcome(std::string_view name, uint64_t number, std::span<const int32_t> values,
                       uint64_t count);
  void say_overdue();

  std::atomic<bool> said_overdue_{false};
  // Sessions that could not begin: this rank takes no checkpoints.
  static constinit inline std::atomic<bool> cannot_start_{false};
  std::unique_ptr<NodeLock> pinning_turns_;
  std::unique_ptr<DirectStorage> direct_;
};

}  // namespace gpusnap
