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
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "interpose/hook/hook.h"
#include "interpose/journal/call_text.h"
#include "interpose/journal/calls_ahead.h"
#include "interpose/journal/replayer.h"
#include "interpose/process/restored_rank.h"
#include "interpose/replay/divergence.h"
#include "interpose/replay/stall_judge.h"
#include "interpose/session/call_environment.h"
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
  void pass_callbacks(std::string_view in_call);
  void callback_ended();
  void take_turn(HookId hook);
  enum class Next : uint8_t { kMine, kNotMine, kLive };
  Next look_for_turn(const std::string& path);
  bool may_stand_in(HookId hook, const CallKey& key, const std::string& path, bool stalled);
  bool own_call_comes(uint16_t hook, const CallKey& key, const std::string& place,
                      bool arguments = false);
  CallsAhead* calls_ahead();
  // ---- threads in each other's place (session_places.cpp)
  const std::string& recorded_thread_of(const std::string& path) const;
  const std::string& path_at(const std::string& place) const;
  static bool may_have_sibling(const std::string& place);
  bool may_mismatch(HookId hook) const;
  [[noreturn]] void report_mismatch(HookId hook, const CallKey& key);
  struct Strayed;
  bool may_be_own(const std::string& path) const;
  bool is_next(const Strayed& call) const;
  bool takes_others_turn(HookId hook, const std::string& path, bool stalled);
  static bool is_of_thread(HookId hook, const std::string& path);
  bool before_call_of_sibling(const std::string& place) const;
  bool comes_with_call_behind_cut(const std::string& path);
  bool takes_others_cut(const std::string& path, bool stalled);
  bool at_collective() const;
  void swap_places(const std::string& path, const std::string& other);
  void refuse_entry();
  void begin_turn(const std::string& path);
  void load_in_place(HookId hook, const CallKey& key, const std::string& whose);
  void go_ahead(HookId hook, const CallKey& key, const std::string& path);
  bool was_made_ahead();
  void admit(HookId hook);
  bool may_come_early(HookId hook) const;
  void end_turn();
  bool comes_to_cut_at_end();
  void wait_for_turn(HookId hook);
  void wait_for_turn(const char* call, CallLock::Clock::duration patience);
  void wake();
  // ---- nobody waits for ever (session_stall.cpp)
  void watch_stall();
  uint64_t progress() const;
  bool awaits_host_function() const;
  const std::string& awaited_path() const;
  std::vector<SeenThread> see_program() const;
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
  bool all_made() const;
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
  std::unique_ptr<CallsAhead> calls_ahead_;  // once somebody has had to know
  RestoredRank restored_;
  Entry entry_;
  bool entry_read_ = false;     // entry_ is the next one, neither compared nor delivered yet
  bool cut_delivered_ = false;  // the last cut's entry has been delivered at the end of its call
  // Turns. One thread at a time is inside a call of a replay; who waits for its turn, by path.
  struct Waiter {
    const char* call = nullptr;  // with which it waits
    std::condition_variable turn;
  };
  bool turn_taken_ = false;
  std::multimap<std::string, Waiter*> waiting_;
  // Which thread made calls in the place of which other one, last; and what it loaded for it.
  std::string stands_in_, stood_in_for_;
  std::set<uint64_t> loaded_in_place_;
  // Calls that were made ahead of their entries, in order; who made the last one, and when.
  struct Ahead {
    uint16_t hook = 0;
    std::vector<uint64_t> words;
    std::string name;
  };
  std::deque<Ahead> ahead_;
  std::string went_ahead_;
  // Threads that do what another thread of the same parent did in the recording: by the path of the
  // one, the path of the other.
  std::map<std::string, std::string> recorded_threads_;
  // Calls with which threads have come although their entry said another one, by path.
  struct Strayed {
    uint64_t refused = 0;  // calls read, when it was not the entry of its own; 0: not compared
    uint16_t hook = 0;
    std::vector<uint64_t> words;
    std::string name;
    uint64_t data = 0;
    bool launches = false;
    bool tells_apart() const { return !words.empty() || !name.empty() || data != 0; }
    CallKey key() const;
  };
  std::map<std::string, Strayed> mismatched_;
  bool entry_refused_ = false;  // the thread whose entry it is has come with another call
  uint64_t turns_when_ahead_ = UINT64_MAX;
  uint64_t turns_ = 0;  // taken so far
  // The path of the thread that has the turn; empty: the one that goes live.
  std::string turn_of_;
  // Threads that have made calls in the replay, by their paths: the system's numbers.
  std::map<std::string, int> threads_;
  StallJudge stall_;
};

}  // namespace gpusnap
