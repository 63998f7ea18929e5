// SPDX-License-Identifier: Apache-2.0
//
// The turns of the program's threads in a replay: reads the journal, asks the scheduler
// (replay_scheduler.h) who goes on, and blocks and wakes the threads accordingly. A thread waits
// until the next entry is one of its own. All that a call depended on was journaled before it, so
// its turn comes. Where it does not, the replay ends (stall_judge.h): nobody waits for ever.
//
// The caller holds the session's lock, which is given back while a thread waits. Where the caller
// is told to go live, it loads device memory between begin_live() and end_live().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpose/hook/hook.h"
#include "interpose/journal/recorder.h"
#include "interpose/journal/replayer.h"
#include "interpose/process/restored_rank.h"
#include "interpose/process/run.h"
#include "interpose/record/admission.h"
#include "interpose/record/host_updates.h"
#include "interpose/replay/replay_scheduler.h"
#include "interpose/replay/replay_world.h"
#include "interpose/replay/stall_judge.h"

namespace gpusnap {

class ReplayTurns {
 public:
  // They outlive it.
  struct Neighbours {
    const Driver& driver;
    CallLock& lock;
    const Admission& admission;
    const DeviceModel& model;
    const Run& run;
    const RestoredRank& restored;
    HostUpdates& updates;
    HostCallbacks& callbacks;
  };
  explicit ReplayTurns(const Neighbours& neighbours) : with_(neighbours) {}
  ReplayTurns(const ReplayTurns&) = delete;
  ReplayTurns& operator=(const ReplayTurns&) = delete;

  void begin(std::unique_ptr<Replayer> replayer);
  // The calling thread has something to do with the replay.
  void meet_thread();

  // ---- the call of a thread
  // It begins, and has its turn when this returns; or needs none yet. True: the caller goes live.
  [[nodiscard]] bool take_turn(HookId hook);
  // For a call that any thread may make for all (take_turn() leaves it without a turn), once it is
  // known what it is: waits for the turn of its entry, which may be that of another thread that
  // waits for this one. At once for other calls.
  enum class Claim : uint8_t {
    kTurn,    // it has its turn
    kAhead,   // it is made ahead of its entry, since nothing else moves
    kLive,    // the session is live or off, and the call new
    kGoLive,  // likewise, when the caller has gone live
  };
  Claim claim(HookId hook, const CallKey& key);
  // Reads the next call and compares it; ends the process where they differ, or throws
  // EntryMismatch.
  const Entry& match_next_entry(HookId hook, const CallKey& key);
  // The same for a poll: whether the device was busy. False: match_next_entry() gives what came of
  // it.
  bool match_busy(HookId hook);
  // The driver has got the call already, when another thread's call had to come after it.
  bool was_made_before() const { return scheduler_.turn().was_made; }
  // The call is one of after the cut, which is made now since other threads wait for it; it has
  // been made, and is journaled when the program is live.
  bool is_after_cut() const { return own_state.has_turn && scheduler_.turn().after_cut; }
  void keep_after_cut(HookId hook, const CallKey& key, CUresult result,
                      std::span<const std::byte> answer) {
    scheduler_.made_after_cut(hook, key, result, answer);
  }
  // How many more times a call may be made to get memory at its recorded address: other threads'
  // calls may have been before it when it was recorded.
  int memory_tries() const { return replayer_->several_threads() ? 8 : 0; }
  // Gives the host what the entry brought beside its answer.
  void deliver(const Entry& entry) { with_.updates.deliver(entry, *replayer_); }
  // It ends.
  void end_turn();
  // Whether a replay may make the call before its turn, as one that concerns the thread alone.
  static bool is_of_thread(HookId hook, const std::string& path);

  // ---- other events
  // A host function has ended.
  void callback_ended();
  // The thread comes to a collective at which the recording made a cut, the `last` one or not; it
  // comes to a collective, and must be live. True: the caller goes live.
  [[nodiscard]] bool pass_collective(const char* name, bool last);
  [[nodiscard]] bool await_live(const char* name);
  // The program ends. It may do so at its place in the cut.
  void end_program();
  [[noreturn]] void diverge(const std::string& expected, const std::string& got) const;

  // The thread with the turn goes live while the others wait; it has gone live: calls that were
  // made ahead of the cut go into the journal, if there is one.
  void begin_live();
  void end_live(Recorder* recorder);
  // Wakes the thread that may go on; all, where it may be any.
  void wake();

  // Bytes of output at the cut that is restored (replay_output.h).
  uint64_t held_output() const { return held_output_; }
  const std::map<std::string, std::string>& places() const { return scheduler_.matcher().places(); }

 private:
  using Step = ReplayScheduler::Step;
  using Act = ReplayScheduler::Act;
  using Motion = ReplayScheduler::Motion;
  // Since when a waiting thread has seen nothing move, and what it saw of the others then.
  struct Watch {
    uint64_t progress = 0;
    CallLock::Clock::time_point moved = CallLock::Clock::now();
    bool all_wait = false;
  };
  struct Waiter {
    const char* call = nullptr;  // with which it waits
    std::condition_variable turn;
  };
  // How long a thread that waits may do so without looking again. Longer than any host code between
  // two calls that is worth a word to the user.
  static constexpr std::chrono::seconds kLongWait{10};

  bool replaying() const { return with_.admission.is_replaying(); }
  void read_next();
  // Does what the scheduler has answered, `got` being with what the thread has come. False: it is
  // to wait.
  bool carry_out(const Step& step, const char* got);
  void pass_function(bool begins);
  void pass_functions(const std::string& in_call);
  void begin_turn();
  bool make_memory_calls_before();
  bool make_for_other(const SeenEntry& call);
  std::unique_ptr<CallsAhead> look_ahead() const;
  bool comes_to_cut_at_end();
  void deliver_cut(bool last);
  void note_cut();
  Motion motion(const Watch& watch, bool is_dead) const;
  Motion motion(const Watch& watch) const;
  void wait_for_turn(HookId hook, Watch& watch);
  void wait_for_turn(const char* call, uint16_t hook, CallLock::Clock::duration patience,
                     Watch* watch);
  std::string describe_next() const;

  // ---- nobody waits for ever (replay_stall.cpp)
  void watch_stall();
  uint64_t progress() const;
  bool awaits_host_function() const;
  std::vector<SeenThread> see_program() const;
  bool all_wait() const;
  std::string describe_stall(std::span<const SeenThread> threads) const;
  [[noreturn]] void give_up(std::span<const SeenThread> threads) const;

  const Neighbours with_;
  std::unique_ptr<Replayer> replayer_;  // null: there is no replay, or no more
  Entry entry_;                         // that was read last
  ReplayWorld world_{with_.model, with_.callbacks, [this] { return look_ahead(); }};
  ReplayScheduler scheduler_{world_};
  std::multimap<std::string, Waiter*> waiting_;  // by path
  // Threads that have made calls in the replay, by their paths: the system's numbers.
  std::map<std::string, int> threads_;
  StallJudge stall_;
  uint64_t held_output_ = 0;
  uint64_t cut_managed_ = 0;  // managed_places() of the cut that is restored
};

}  // namespace gpusnap
