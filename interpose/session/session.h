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
#include <optional>
#include <string>
#include <vector>

#include "interpose/hook/driver.h"
#include "interpose/hook/hook.h"
#include "interpose/journal/entry.h"
#include "interpose/journal/recorder.h"
#include "interpose/journal/replayer.h"
#include "interpose/model/device_model.h"
#include "interpose/model/progress_words.h"
#include "interpose/process/restored_rank.h"
#include "interpose/process/run.h"
#include "interpose/record/call_lock.h"
#include "interpose/record/calls_in_driver.h"
#include "interpose/record/deliveries.h"
#include "interpose/record/host_callbacks.h"
#include "interpose/record/memory_order.h"
#include "interpose/record/thread_state.h"
#include "interpose/replay/replay_scheduler.h"
#include "interpose/replay/stall_judge.h"
#include "interpose/services/call_site.h"
#include "interpose/services/fatal.h"
#include "interpose/services/triggers.h"
#include "interpose/session/replay_world.h"
#include "interpose/snapshot/arena_pinning.h"
#include "tracker/write_set.h"

namespace gpusnap {

class Checkpointer;
class DirectStorage;
class Snapshots;
struct CutPlace;
namespace mpi {
class CutBarriers;
}
enum class Hold : uint8_t;

class Session {
 public:
  enum class Mode { kOff, kRecord, kReplay };

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

  // Nodes of graphs that are not what the driver says; null where there is no session. Any thread:
  // what they are.
  static const GraphMemoryPlaceholders* graph_memory_placeholders() {
    Session* s = the_session_.load(std::memory_order_acquire);
    return s == nullptr ? nullptr : &s->model_.graphs.graph_memory_placeholders();
  }

  // At the beginning of a hooked call: the session, with its lock held, unless it is off. Takes the
  // checkpoint that is due; in a replay waits for the thread's turn, and goes live at the cut.
  [[gnu::always_inline]] static Session* enter(HookId hook) {
    Session* s = the_session_.load(std::memory_order_acquire);
    if (s == nullptr) [[unlikely]]
      return nullptr;
    if (!own_state.met) [[unlikely]]
      return s->enter_first(hook);
    s->lock_.lock();
    if (!s->open_ || s->foreign_.load(std::memory_order_relaxed) != nullptr ||
        s->triggers_->pending()) [[unlikely]] {
      return s->enter_slowly(hook);
    }
    ++s->inside_;
    own_state.admitted = true;
    return s;
  }
  // At the end of a call for which enter() gave a session; gives the lock back.
  [[gnu::always_inline]] void leave() {
    if (!open_) [[unlikely]] {
      leave_slowly();
      return;
    }
    own_state.admitted = false;
    --inside_;
    lock_.unlock();
  }
  // Where checkpoints have ended, for what is_placed(): the session, with its lock held until
  // release(). Null: it is no such memory.
  static Session* enter_for_placed(uint64_t address);
  // "main thread", "thread 1/0": the calling one, as messages name it.
  static std::string own_name();
  static std::string name_of_thread(const std::string& path);
  // Around every call of the driver that is made for the program.
  [[gnu::always_inline]] void release() { lock_.unlock(); }
  [[gnu::always_inline]] void acquire() { lock_.lock(); }
  // While one lives, the thread is inside the call that the program has made.
  class ProgramsCall {
   public:
    [[gnu::always_inline]] ProgramsCall() { own_state.in_driver = true; }
    [[gnu::always_inline]] ~ProgramsCall() { own_state.in_driver = false; }
    ProgramsCall(const ProgramsCall&) = delete;
    ProgramsCall& operator=(const ProgramsCall&) = delete;
  };
  CallsInDriver& calls_in_driver() { return calls_in_driver_; }
  bool host_function_runs() const { return deliveries_.function_runs(); }
  // The driver has told the program something within a call that is hooked, which no replay tells
  // again. False: it was a call of ours. Takes no lock; `what` lives for ever.
  static bool note_told(const char* what);

  Mode mode() const { return mode_; }
  bool replaying() const { return mode_ == Mode::kReplay; }
  const Driver& driver() const { return *driver_; }
  DeviceModel& model() { return model_; }
  // Opens memory that other processes share, by handles of ours: in any mode, and also if the
  // session could not begin. Null before any session.
  static SharedMemory* shared_memory_of_process() {
    return the_shared_memory_.load(std::memory_order_acquire);
  }
  // Whether memory that is shared with other processes is followed: with those that take their
  // checkpoints together with this one.
  bool may_share() const { return coordinated_ && triggers_->listens(); }
  // There is, or was, such memory: from now on this rank's cuts are made in step with the others'.
  void note_sharing() { shares_ = true; }
  Recorder& recorder() { return *recorder_; }

  // GPUSNAP_RESTORE_MODE=reload: device memory has still to be put back.
  bool reload_pending() const { return reload_ != nullptr; }
  // Before a launch: puts it back where all of it is there, however long that takes.
  void reload();

  // Recording. A call has synchronised and is about to be journaled: where a cut is due, it will be
  // made right behind it, so the other threads are held.
  void before_synchronised();
  // It has been journaled.
  void after_synchronised();
  // The program did what cannot be restored: no more checkpoints of this process. Says so once.
  // Lets go of the lock while the snapshot on its way comes to its end.
  void refuse(const std::string& what);

  // A snapshot has zones that it still has to save: calls must say what they are about to write.
  bool snapshot_pending() const { return writes_wanted_->load(std::memory_order_acquire); }
  // The calling thread is about to make a call that may write `set`, on `stream` of its current
  // context (null: the legacy default stream); `freed`: the memory goes. Never called in a replay.
  void before_write(const WriteSet& set, CUstream stream, Hold hold, bool freed);
  // Snapshots use device memory too, which the program is not to miss.
  uint64_t own_device_memory() const;
  bool make_room();
  // The copies of arrays, likewise; no snapshot is on its way. The caller holds no lock.
  bool give_up_copies(std::optional<CUcontext> context);

  // While a snapshot is on its way: what a synchronisation of the context has to wait for; nothing
  // when none is, or the context is not the current one. Its mark goes back to the contexts.
  ProgramWork work_to_wait_for(CUcontext context = nullptr);

  // Bookkeeping of what a drain has to wait for. Handles are the driver's.
  void note_context();
  void add_stream(CUstream stream);
  void remove_stream(CUstream stream);
  // Paused while a call may end a context. Null: there is none.
  ArenaPinning* pinning() const { return pinning_.get(); }
  void forget_context(CUcontext context);
  // Identifies an allocation: its call site and its ordinal among that site's allocations.
  Identity identify();

  // Calls must say what they are about to write: for the snapshot, or for the sake of memory that
  // host and device both see.
  bool asks_writes() const { return snapshot_pending() || !model_.host_memory.empty(); }
  // A call is about to be made by which the device may change host-visible memory: what to tell
  // afterwards, or null if there is no such memory, or nothing to mark the end of it with.
  HostWrite* begin_host_write(CUstream stream);
  // It has been made. Without `write`, nothing tells when the device will have done it.
  void device_may_write(const WriteSet& set, HostWrite* write) {
    ++device_writes_;
    if (model_.host_memory.empty()) return;
    deliveries_.add_write(set, write);
    refuse_guess(set);
  }
  void end_host_write(HostWrite* write) { deliveries_.end_write(write); }
  // It has been made, and the device has done it.
  void device_has_written(const WriteSet& set) {
    ++device_writes_;
    if (model_.host_memory.empty()) return;
    deliveries_.add_arrived(set);
    refuse_guess(set);
  }
  // How many such calls there were.
  uint64_t device_writes() const { return device_writes_; }

  // Stream-ordered memory is in use: synchronisations decide where memory comes from.
  void use_pools() { pools_used_ = true; }
  bool pools_used() const { return pools_used_; }
  HostCallbacks& host_callbacks() { return host_callbacks_; }

  // The order of the calls that get and give back memory. Recording.
  MemoryOrder& memory_order() { return memory_order_; }
  // Memory that the replay got at other calls' addresses.
  SurplusAllocations& surplus() { return surplus_; }
  // For the time that a copy of the program's to the host is on its way.
  ProgramCopies::Ticket own_copy();
  // A mark for the end of what is about to be queued on a stream of the current context; without a
  // word there is none to be had. Lets go of the lock if more words must be made.
  ProgressMark take_progress_mark();
  // The mark was not queued.
  void give_back_unused(const ProgressMark& mark) { progress_words_.give_back_unused(mark); }
  // A copy back whose bytes will be there later: the mark has been queued after it, or after the
  // launch of the graph that it is part of.
  void defer(const HostBlock& block, const ProgressMark& mark, bool in_graph,
             ProgramCopies::Ticket ticket);
  // Nobody will look at copies into this memory any more.
  void forget_pending(uint64_t address, uint64_t size) { deliveries_.forget_copies(address, size); }
  // The host got these bytes as the answer of a call: no news for captures. Recording and replay.
  void note_answered(const HostBlock& block);
  // Bytes that the host can see at this point of the recording and that are not journaled.
  // `all_done`: the device has run empty.
  const std::vector<Delivery>& collect(bool all_done, uint8_t* flags);

  // Replay. Reads the next call and compares it; ends the process where they differ, or throws
  // EntryMismatch.
  const Entry& match_next_entry(HookId hook, const CallKey& key);
  // The same for a poll: whether the device was busy. False: match_next_entry() gives what came of
  // it.
  bool match_busy(HookId hook);
  // For a call that any thread may make for all (take_turn() leaves it without a turn), once it is
  // known what it is: waits for the turn of its entry, which may be that of another thread that
  // waits for this one. At once for other calls.
  enum class Claim : uint8_t {
    kTurn,   // it has its turn
    kAhead,  // it is made ahead of its entry, since nothing else moves
    kLive,   // the session is live or off, and the call new
  };
  Claim claim_turn(HookId hook, const CallKey& key);
  // How many more times a call may be made to get memory at its recorded address: other threads'
  // calls may have been before it when it was recorded.
  // The driver has got the call already, when another thread's call had to come after it.
  bool was_made_before() const { return scheduler_.turn().was_made; }
  void about_to_set(CUcontext context) { own_state.sets = context; }
  int memory_tries() const { return replayer_->several_threads() ? 8 : 0; }
  void remember_deferred(const HostBlock& block) { deliveries_.expect_copy(block); }
  // Gives the host what entry brought beside its answer.
  void deliver(const Entry& entry);

  [[noreturn]] void diverged(const std::string& expected, const std::string& got);
  static constexpr const char* kManagedElsewhere =
      "the program's __managed__ variables lie elsewhere than when it was saved, and cannot be "
      "moved";
  std::string describe(uint16_t hook, const uint64_t* words, size_t count, std::string_view name);

 private:
  explicit Session(const Driver& driver);

  // Never deleted: hooked calls may come from destructors that run after ours.
  static constinit inline std::atomic<Session*> the_session_{nullptr};
  static constinit inline std::atomic<SharedMemory*> the_shared_memory_{nullptr};

  // How long a thread that waits may do so without looking again. Longer than any host code between
  // two calls that is worth a word to the user.
  static constexpr std::chrono::seconds kLongWait{10};

  // By the triggers' thread, from the moment on at which there are triggers.
  ProcessStatus status() const;
  void set_mode(Mode mode);
  void refuse_guess(const WriteSet& set);
  void add_progress_words(CUcontext context);
  // Returns with no cut under way and no snapshot that needs to know of calls. Lets go of the lock
  // meanwhile. `wait`: Snapshots' end() or wait_end().
  void let_snapshot_end(void (Snapshots::*wait)());
  void meet();
  Session* enter_first(HookId hook);
  Session* enter_slowly(HookId hook);
  void leave_slowly();
  bool configure();
  Status open_store();
  void find_restored();
  void begin_replay();
  void begin_reload();
  void say_nothing_reloaded() const;
  Status begin_recording(std::vector<JournalPart> before, uint64_t calls, uint64_t launches);
  void warn_if_randomised() const;
  // Holds the calls of all other threads and waits until those that are inside one have left it.
  // False, with nobody held: another thread is at it, or one did not leave in time.
  bool close_admission();
  void open_admission();
  bool can_take_checkpoint() const;
  void checkpoint_if_wanted();
  bool take_checkpoint(const CutPlace& place);
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
  bool recording() const { return mode_.load(std::memory_order_relaxed) == Mode::kRecord; }
  void take_turn(HookId hook);
  void begin_turn();
  bool make_memory_calls_before();
  bool make_for_other(const SeenEntry& call);
  std::unique_ptr<CallsAhead> look_ahead() const;
  static std::string own_path();
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
  // Takes the lock; the calling thread may have nothing to do with CUDA.
  void lock_any();
  // No more checkpoints of this process. Lets go of the lock, as refuse() does.
  void end_checkpoints(const std::string& why, LogLevel level);
  void say_overdue();
  // `cut_barriers`: of all ranks, when memory has been loaded; null: none.
  void go_live(mpi::CutBarriers* cut_barriers = nullptr);
  void release_aside();
  // The program's memory is its own again. Lets go of the lock meanwhile.
  void end_own_mappings();
  void close_tile_pools();
  void finish_replay();
  bool make_first_mark(CUcontext context);
  bool value_waits_put_off_cut();

  const Driver* driver_;
  CallLock lock_;  // over all that follows, but for what is atomic
  std::atomic<Mode> mode_{Mode::kOff};
  // The reason to end the recording at the next call: a string that lives for ever, or null.
  std::atomic<const char*> foreign_{nullptr};
  // Admission. Threads that are inside a hooked call of a recording; whether no more may enter.
  int inside_ = 0;
  bool closed_ = false;
  bool open_ = false;           // recording, and not closed_
  bool cut_at_end_ = false;     // closed_, for a cut at the end of the call that is being made
  bool said_not_left_ = false;  // that somebody did not leave in time; until next time all do
  std::condition_variable admission_;

  Run run_;
  uint64_t held_output_ = 0;  // at the cut that is restored (replay_output.h)
  uint64_t cut_managed_ = 0;  // managed_places() of that cut
  // One of several ranks: cuts are made at MPI collectives alone, by all of them.
  bool coordinated_ = false;
  std::atomic<bool> said_overdue_{false};
  // Sessions that could not begin: this rank takes no checkpoints.
  static constinit inline std::atomic<bool> cannot_start_{false};
  CallSites call_sites_;
  std::map<uint64_t, uint32_t> call_site_uses_;
  std::unique_ptr<Triggers> triggers_;
  std::unique_ptr<NodeLock> pinning_turns_;
  std::unique_ptr<ArenaPinning> pinning_;
  std::unique_ptr<DirectStorage> direct_;
  std::unique_ptr<Checkpointer> checkpointer_;
  Snapshots* snapshots_ = nullptr;                          // the checkpointer's
  const std::atomic<bool>* writes_wanted_ = &nobody_asks_;  // its flag
  static constexpr std::atomic<bool> nobody_asks_{false};

  DeviceModel model_;
  bool shares_ = false;

  std::unique_ptr<Recorder> recorder_;
  CallsInDriver calls_in_driver_;
  bool pools_used_ = false;
  uint64_t device_writes_ = 0;
  MemoryOrder memory_order_{lock_};
  SurplusAllocations surplus_;
  uint64_t thread_count_ = 0;  // that have a number
  ProgressWords progress_words_;
  Deliveries deliveries_{model_.host_memory, progress_words_};
  HostCallbacks host_callbacks_{{lock_, calls_in_driver_, deliveries_, foreign_, run_.callers},
                                [this] { callback_ended(); }};

  std::unique_ptr<Replayer> replayer_;
  RestoredRank restored_;
  struct Reload {
    uint64_t behind = 0;     // launches that are let through where all memory is there
    uint64_t looked_at = 0;  // MemoryMap::lives() when some of it was not
    std::string missing;     // one line
  };
  std::unique_ptr<Reload> reload_;
  Entry entry_;  // that was read last
  ReplayWorld replay_world_{model_, host_callbacks_, pools_used_, [this] { return look_ahead(); }};
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
