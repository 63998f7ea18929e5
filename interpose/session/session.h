// One process that uses CUDA, from its first successful cuInit to its end: what is known of its
// device memory, its journal, and whether it records or replays.
//
// Any thread of the program makes hooked calls. One lock guards all that the session knows,
// which a thread holds from enter() to leave() except while the driver is called for it: handlers
// run under the lock, the real call does not. Two things order the threads beside it:
//   admission   while a cut is made no other thread is inside a hooked call;
//   turns       in a replay the calls are made in the order in which the recording journaled them,
//               at their ends: a thread waits until the next entry is one of its own. All that a
//               call depended on was journaled before it, so its turn comes. Where it does not, the
//               replay ends (stall_judge.h): nobody waits for ever.
//
// A session is one of
//   recording  every hooked call goes to the driver and into the journal; checkpoints are taken;
//   replaying  calls up to the cut are checked against the journal, and skipped or made again;
//   off        everything passes through. Nothing leads back from there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interpose/hook/hook.h"
#include "interpose/journal/call_text.h"
#include "interpose/journal/calls_ahead.h"
#include "interpose/journal/replayer.h"
#include "interpose/process/restored_rank.h"
#include "interpose/replay/divergence.h"
#include "interpose/replay/replay_scheduler.h"
#include "interpose/replay/stall_judge.h"
#include "interpose/session/call_environment.h"
#include "interpose/session/replay_world.h"
#include "interpose/threads/thread_name.h"

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

  const Entry& match_next_entry(HookId hook, const CallKey& key) override;
  bool match_busy(HookId hook) override;
  Claim claim_turn(HookId hook, const CallKey& key) override;
  bool was_made_before() const override { return scheduler_.turn().was_made; }
  bool is_after_cut() const override { return own_state.has_turn && scheduler_.turn().after_cut; }
  void keep_after_cut(HookId hook, const CallKey& key, CUresult result,
                      std::span<const std::byte> answer) override {
    scheduler_.made_after_cut(hook, key, result, answer);
  }
  int memory_tries() const override { return replayer_->several_threads() ? 8 : 0; }
  void deliver(const Entry& entry) override { host_updates_.deliver(entry, *replayer_); }

 private:
  explicit Session(const Driver& driver);
  [[noreturn]] void diverged(const std::string& expected, const std::string& got) {
    end_diverged(replayer_->calls_read(), expected, got);
  }

  // Null: there is none.
  static Session* the_session() {
    return static_cast<Session*>(the_one_.load(std::memory_order_acquire));
  }

  // How long a thread that waits may do so without looking again. Longer than any host code between
  // two calls that is worth a word to the user.
  static constexpr std::chrono::seconds kLongWait{10};

  // By the triggers' thread, from the moment on at which there are triggers.
  ProcessStatus status() const;
  std::string checkpoint_of_replay() const;
  void set_mode(Mode mode);
  void meet();
  CallEnvironment* enter_first(HookId hook) override;
  CallEnvironment* enter_slowly(HookId hook) override;
  void leave_slowly() override;
  std::unique_lock<CallLock> lock_any() override;
  bool configure();
  Status open_store();
  void begin_triggers();
  void find_restored();
  void begin_replay();
  Status begin_recording(std::vector<JournalPart> before, uint64_t calls, uint64_t launches);
  void warn_if_randomised() const;
  void read_next();
  using Step = ReplayScheduler::Step;
  using Act = ReplayScheduler::Act;
  using Motion = ReplayScheduler::Motion;
  // Does what the scheduler has answered, `got` being with what the thread has come. False: it is
  // to wait.
  bool carry_out(const Step& step, const char* got);
  void pass_function(bool begins);
  void pass_functions(const std::string& in_call);
  void callback_ended();
  void take_turn(HookId hook);
  void begin_turn();
  bool make_memory_calls_before();
  bool make_for_other(const SeenEntry& call);
  std::unique_ptr<CallsAhead> look_ahead() const;
  static bool is_of_thread(HookId hook, const std::string& path);
  void admit(HookId hook);
  bool may_come_early(HookId hook) const;
  void end_turn();
  bool comes_to_cut_at_end();
  // Since when a waiting thread has seen nothing move, and what it saw of the others then.
  struct Watch {
    uint64_t progress = 0;
    CallLock::Clock::time_point moved = CallLock::Clock::now();
    bool all_wait = false;
  };
  Motion motion(const Watch& watch, bool is_dead) const;
  Motion motion(const Watch& watch) const;
  void wait_for_turn(HookId hook, Watch& watch);
  void wait_for_turn(const char* call, uint16_t hook, CallLock::Clock::duration patience,
                     Watch* watch);
  void wake();
  // ---- nobody waits for ever (session_stall.cpp)
  void watch_stall();
  uint64_t progress() const;
  bool awaits_host_function() const;
  std::vector<SeenThread> see_program() const;
  bool all_wait() const;
  std::string describe_stall(std::span<const SeenThread> threads);
  [[noreturn]] void give_up(std::span<const SeenThread> threads);
  void deliver_cut(bool last);
  void note_cut();
  void begin_sharing();
  std::string describe_next();
  // Journals outcomes of MPI calls: those before there was a journal; that of one call. The caller
  // holds no lock.
  void journal_early_outcomes();
  void journal_outcome(std::string_view name, uint64_t number, std::span<const int32_t> values,
                       uint64_t count);
  void say_overdue();
  // `cut_barriers`: of all ranks, when memory has been loaded; null: none.
  void go_live(mpi::CutBarriers* cut_barriers = nullptr);
  void load_memory(mpi::CutBarriers* cut_barriers);
  void release_aside();
  void finish_replay();

  uint64_t held_output_ = 0;  // at the cut that is restored (replay_output.h)
  uint64_t cut_managed_ = 0;  // managed_places() of that cut
  std::atomic<bool> said_overdue_{false};
  // Sessions that could not begin: this rank takes no checkpoints.
  static constinit inline std::atomic<bool> cannot_start_{false};
  std::unique_ptr<NodeLock> pinning_turns_;
  std::unique_ptr<DirectStorage> direct_;

  std::unique_ptr<Replayer> replayer_;
  RestoredRank restored_;
  Entry entry_;  // that was read last
  ReplayWorld replay_world_{model_, host_callbacks_, [this] { return look_ahead(); }};
  ReplayScheduler scheduler_{replay_world_};
  struct Waiter {
    const char* call = nullptr;  // with which it waits
    std::condition_variable turn;
  };
  std::multimap<std::string, Waiter*> waiting_;  // by path
  // Threads that have made calls in the replay, by their paths: the system's numbers.
  std::map<std::string, int> threads_;
  StallJudge stall_;
};

}  // namespace gpusnap
