// SPDX-License-Identifier: Apache-2.0
//
// The session as hooked calls see it: the way in and out, and the parts that handlers work with. A
// handler passes the two or three parts on that a function uses, never all of them.
//
// The session's lock guards all of it. A thread holds it from enter() to leave() except while the
// driver is called for it: handlers run under the lock, the real call does not.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "interpose/hook/driver.h"
#include "interpose/hook/hook.h"
#include "interpose/journal/entry.h"
#include "interpose/journal/recorder.h"
#include "interpose/model/device_model.h"
#include "interpose/process/run.h"
#include "interpose/record/admission.h"
#include "interpose/record/allocation_identities.h"
#include "interpose/record/call_lock.h"
#include "interpose/record/calls_in_driver.h"
#include "interpose/record/host_callbacks.h"
#include "interpose/record/host_updates.h"
#include "interpose/record/memory_order.h"
#include "interpose/replay/reload.h"
#include "interpose/replay/replay_turns.h"
#include "interpose/services/triggers.h"
#include "interpose/snapshot/arena_pinning.h"
#include "interpose/snapshot/cut_maker.h"
#include "interpose/snapshot/device_room.h"
#include "interpose/snapshot/program_contexts.h"
#include "interpose/snapshot/retirement.h"

namespace gpusnap {

class CallEnvironment {
 public:
  CallEnvironment(const CallEnvironment&) = delete;
  CallEnvironment& operator=(const CallEnvironment&) = delete;

  // At the beginning of a hooked call: with the session's lock held; null where the session is off.
  // Takes the checkpoint that is due; in a replay waits for the thread's turn, and goes live at the
  // cut.
  [[gnu::always_inline]] static CallEnvironment* enter(HookId hook) {
    CallEnvironment* const e = the_one_.load(std::memory_order_acquire);
    if (e == nullptr) [[unlikely]]
      return nullptr;
    if (own_state.standing != Standing::kMet) [[unlikely]]
      return e->enter_first(hook);
    e->lock_.lock();
    if (!e->admission_.is_open() || e->foreign_.load(std::memory_order_relaxed) != nullptr ||
        e->triggers_->pending()) [[unlikely]] {
      return e->enter_slowly(hook);
    }
    e->admission_.enter();
    return e;
  }
  // At the end of a call for which enter() gave an environment; gives the lock back.
  [[gnu::always_inline]] void leave() {
    if (!admission_.is_open()) [[unlikely]] {
      leave_slowly();
      return;
    }
    admission_.leave();
    lock_.unlock();
  }
  // After checkpoints have ended, for DeviceModel::is_placed(): with the session's lock held. Null:
  // it is no such memory.
  static CallEnvironment* enter_for_placed(uint64_t address);
  // The driver has told the program something within a call that is hooked, which no replay tells
  // again. False: it was a call of ours. Takes no lock; `what` lives for ever.
  static bool note_told(const char* what);
  // Nodes of graphs that are not what the driver says; null where there is no session. Any thread.
  static const GraphMemoryPlaceholders* graph_memory_placeholders();

  // ---- parts
  const Driver& driver() const { return *driver_; }
  CallLock& lock() { return lock_; }
  const Admission& admission() const { return admission_; }
  bool replaying() const { return admission_.is_replaying(); }
  DeviceModel& model() { return model_; }
  Recorder& recorder() { return *recorder_; }
  CallsInDriver& calls_in_driver() { return calls_in_driver_; }
  MemoryOrder& memory_order() { return memory_order_; }
  SurplusAllocations& surplus() { return surplus_; }
  AllocationIdentities& identities() { return identities_; }
  HostUpdates& host_updates() { return host_updates_; }
  HostCallbacks& host_callbacks() { return host_callbacks_; }
  ProgramContexts& contexts() { return contexts_; }
  DeviceRoom& room() { return room_; }
  Retirement& retirement() { return retirement_; }
  ReplayTurns& replay() { return replay_; }
  CutMaker& cuts() { return cuts_; }
  ArenaPinning& pinning() const { return *pinning_; }
  Snapshots& snapshots() const { return *snapshots_; }

  // A snapshot has zones that it still has to save: calls must say what they are about to write.
  bool snapshot_pending() const { return writes_wanted_->load(std::memory_order_acquire); }
  // Calls must say what they are about to write: for the snapshot, or for the sake of memory that
  // host and device both see.
  bool asks_writes() const { return snapshot_pending() || !model_.host_memory.empty(); }
  // While a snapshot is on its way: what a synchronisation of the context has to wait for; nothing
  // when none is, or the context is not the current one. Its mark goes back to the contexts.
  ProgramWork work_to_wait_for(CUcontext context = nullptr) {
    return snapshot_pending() ? model_.contexts.work_of(context) : ProgramWork();
  }
  // For the time that a copy of the program's to the host is on its way.
  ProgramCopies::Ticket enter_copy();
  // Whether memory that is shared with other processes is followed: with those that take their
  // checkpoints together with this one.
  bool may_share() const { return cuts_.gate().is_coordinated() && triggers_->listens(); }

  // GPUSNAP_RESTORE_MODE=reload: device memory has still to be put back.
  bool reload_pending() const { return reload_ != nullptr; }
  // Before a launch: puts it back if all of it is there, however long that takes.
  void reload();

  // ---- replay
  // ReplayTurns::claim(), for a caller that goes on live: it is admitted.
  virtual ReplayTurns::Claim claim_turn(HookId hook, const CallKey& key) = 0;

 protected:
  explicit CallEnvironment(const Driver& driver);
  virtual ~CallEnvironment() = default;

  // The first call of a thread, or one within a host function; a call for which enter() has found
  // something to do.
  virtual CallEnvironment* enter_first(HookId hook) = 0;
  virtual CallEnvironment* enter_slowly(HookId hook) = 0;
  virtual void leave_slowly() = 0;
  // The lock, held; the calling thread may have nothing to do with CUDA.
  [[nodiscard]] virtual std::unique_lock<CallLock> lock_any() = 0;

  void refuse(const std::string& what) { retirement_.refuse(what); }

  // Never deleted: hooked calls may come from destructors that run after ours.
  static constinit inline std::atomic<CallEnvironment*> the_one_{nullptr};

  const Driver* driver_;
  CallLock lock_;  // over all that follows, but for what is atomic
  Admission admission_{lock_};
  // The reason to end the recording at the next call: a string that lives for ever, or null.
  std::atomic<const char*> foreign_{nullptr};
  Run run_;
  AllocationIdentities identities_;
  std::unique_ptr<Triggers> triggers_;
  std::unique_ptr<ArenaPinning> pinning_;
  std::unique_ptr<Checkpointer> checkpointer_;
  Snapshots* snapshots_ = nullptr;                          // the checkpointer's
  const std::atomic<bool>* writes_wanted_ = &nobody_asks_;  // its flag
  static constexpr std::atomic<bool> nobody_asks_{false};

  DeviceModel model_;
  std::unique_ptr<Recorder> recorder_;
  RestoredRank restored_;
  std::unique_ptr<Reload> reload_;
  CallsInDriver calls_in_driver_;
  MemoryOrder memory_order_{lock_};
  SurplusAllocations surplus_;
  HostUpdates host_updates_;
  HostCallbacks host_callbacks_;
  ReplayTurns replay_{
      {*driver_, lock_, admission_, model_, run_, restored_, host_updates_, host_callbacks_}};
  DeviceRoom room_{lock_, model_, checkpointer_};
  Retirement retirement_{
      {lock_, admission_, model_, run_, host_callbacks_, room_, reload_, triggers_, checkpointer_}};
  ProgramContexts contexts_{
      {lock_, admission_, model_, run_, host_updates_, retirement_, pinning_, checkpointer_}};
  CutMaker cuts_{{lock_, admission_, calls_in_driver_, model_, run_, retirement_, foreign_,
                  recorder_, reload_, triggers_, checkpointer_}};
};

}  // namespace gpusnap
