// How the program's threads go through the session: admission to calls while recording, turns in a
// replay.

#include "interpose/cuda/hooks_generated_ids.h"
#include "interpose/mpi/cut_barriers.h"
#include "interpose/replay/replay_output.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/session/session.h"
#include "interpose/snapshot/checkpointer.h"
#include "interpose/threads/thread_path.h"
#include "tiers/unlocked.h"

namespace gpusnap {

void Session::set_mode(Mode mode) {
  admission_.set_mode(mode);
  host_callbacks_.record_to(mode == Mode::kRecord ? recorder_.get() : nullptr);
}

// The first time that the calling thread has to do with the session; takes the lock.
void Session::meet() {
  own_state.standing = Standing::kMet;
  lock_.share();
  lock_.lock();
  calls_in_driver_.see_several_threads();
  model_.host_memory.trust_guesses();
  if (replaying()) replay_.meet_thread();
  if (admission_.is_recording() && !own_thread_path().known) {
    refuse("CUDA calls of a thread that pthread_create did not make");
  }
}

std::unique_lock<CallLock> Session::lock_any() {
  if (own_state.standing != Standing::kUnknown) return std::unique_lock(lock_);
  meet();
  return {lock_, std::adopt_lock};
}

CallEnvironment* Session::enter_first(HookId hook) {
  if (admission_.mode() == Mode::kOff || own_state.standing == Standing::kInFunction)
    return nullptr;
  meet();
  return enter_slowly(hook);
}

// A call of a recording begins. Before one that a replay may make early there is no cut: the thread
// would have gone past it when it comes up, perhaps to wait for others, who would wait for that.
void Session::admit(HookId hook) {
  admission_.await_entry();
  if (!admission_.is_recording()) return;
  admission_.enter();
  if (triggers_->pending() && !may_come_early(hook)) cuts_.cut_before_call();
}

// Whether a replay may make the call before its turn.
bool Session::may_come_early(HookId hook) const {
  return calls_in_driver_.several_threads() &&
         (is_made_for_all(hook) || ReplayTurns::is_of_thread(hook, own_path()));
}

CallEnvironment* Session::enter_slowly(HookId hook) {
  const char* const foreign = foreign_.load(std::memory_order_relaxed);
  if (foreign != nullptr && admission_.mode() != Mode::kOff) refuse(foreign);
  if (replaying() && replay_.take_turn(hook)) go_live();
  admit(hook);
  if (admission_.mode() != Mode::kOff) return this;
  leave_slowly();
  return nullptr;
}

void Session::leave_slowly() {
  if (own_state.admitted) admission_.leave_closed();
  if (own_state.has_turn) replay_.end_turn();
  lock_.unlock();
}

ReplayTurns::Claim Session::claim_turn(HookId hook, const CallKey& key) {
  using Claim = ReplayTurns::Claim;
  const Claim claim = replay_.claim(hook, key);
  if (claim == Claim::kTurn || claim == Claim::kAhead) return claim;
  if (claim == Claim::kGoLive) go_live();
  admit(hook);
  return Claim::kLive;
}

// Device memory as it was at the cut, while all other threads wait.
void Session::load_memory(mpi::CutBarriers* cut_barriers) {
  const Unlocked unlocked(lock_);
  for (const auto& [address, memory] : surplus_.take_all()) {
    model_.release_memory(address, memory.kind);
  }
  const Manifest& manifest = restored_.manifest();
  const CheckpointInfo& checkpoint = restored_.checkpoint;
  const Status status = checkpointer_->load(checkpoint, manifest);
  if (!status.ok()) {
    fatal(status.code() == Code::kDamaged ? kExitDamaged : kExitImpossible,
          checkpoint.id + " cannot be restored: " + status.message());
  }
  // No thread of this rank may write another one's memory before that has been loaded.
  if (cut_barriers != nullptr) cut_barriers->finish();
  go_on_with_output(replay_.held_output());
  log(LogLevel::kInfo, "restored ", checkpoint.id, ": ", manifest.calls, " calls repeated, ",
      manifest.bytes(), " bytes of device memory loaded");
}

// The replay has made all calls up to the cut: device memory is loaded, and the program is live.
void Session::go_live(mpi::CutBarriers* cut_barriers) {
  replay_.begin_live();
  load_memory(cut_barriers);
  const Manifest& manifest = restored_.manifest();
  const Status status = begin_recording(manifest.journal, manifest.calls, manifest.launches);
  if (!status.ok()) {
    set_mode(Mode::kOff);
    log(LogLevel::kWarn, "restored, but no more checkpoints: ", status.message());
    triggers_->end_cuts(status.message());
  }
  triggers_->restored(manifest.interval, manifest.stall_ns, destination_of(manifest));
  replay_.end_live(status.ok() ? recorder_.get() : nullptr);
}

}  // namespace gpusnap
