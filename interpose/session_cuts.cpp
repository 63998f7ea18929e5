// SPDX-License-Identifier: Apache-2.0
//
// The session's cuts: when one may be made, and holding all other threads of the program meanwhile.
#include <chrono>
#include <string>
#include <utility>

#include "interpose/mpi/cut_barriers.h"
#include "interpose/mpi/state.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/session.h"
#include "interpose/snapshot/checkpointer.h"
#include "interpose/snapshot/snapshots.h"

namespace gpusnap {

namespace {
using Clock = CallLock::Clock;
}  // namespace

// Another thread did not leave its call in time.
void Session::give_up_cut(const std::string& why) {
  const CutReason reason = triggers_->take();
  triggers_->report({false, "", 0, 0, why});
  if (reason == CutReason::kSignalledStop) {
    log(LogLevel::kError, "not stopped, the program goes on: ", why);
  }
}

bool Session::close_admission() {
  // While a stream is captured nothing can be waited for without ending the capture.
  if (closed_ || model_.contexts.is_capturing()) return false;
  closed_ = true;
  open_ = false;
  const auto deadline = Clock::now() + run_.settings.drain;
  while (inside_ > 1) {
    if (lock_.wait_until(admission_, deadline) || inside_ <= 1) continue;
    open_admission();
    const std::string why = std::to_string(inside_ - 1) +
                            " other thread(s) did not leave a CUDA call within " +
                            std::to_string(run_.settings.drain.count() / 1'000'000) +
                            " ms (GPUSNAP_DRAIN); it is tried again later";
    give_up_cut(why);
    if (!std::exchange(said_not_left_, true)) {
      log(LogLevel::kWarn, "no checkpoint was taken, the program goes on: ", why);
    }
    if (run_.settings.strict) fatal(kExitStore, "stopped, as GPUSNAP_STRICT asks");
    return false;
  }
  said_not_left_ = false;
  // A thread that was waited for may have begun a capture, or ended the recording.
  const bool may_cut =
      !model_.contexts.is_capturing() && mode_.load(std::memory_order_relaxed) == Mode::kRecord;
  if (!may_cut) open_admission();
  return may_cut;
}

void Session::open_admission() {
  closed_ = false;
  open_ = mode_.load(std::memory_order_relaxed) == Mode::kRecord;
  admission_.notify_all();
}

void Session::let_snapshot_end(void (Snapshots::*wait)()) {
  for (;;) {
    while (closed_ && !own_state.admitted) {
      (void)lock_.wait_until(admission_, Clock::now() + kLongWait);
    }
    if (!snapshots_->running()) return;
    lock_.unlock();
    (snapshots_->*wait)();
    lock_.lock();
  }
}

// Before the first context there is nothing to save, and of checkpoints there is one at a time:
// what is due stays due. None where the program has got what we cannot follow. Where the program is
// to be held anyway, it is held for the one before, too.
bool Session::can_take_checkpoint() const {
  return !coordinated_ && !reload_pending() && !mpi::request_is_open() &&
         !model_.contexts.is_empty() && foreign_.load(std::memory_order_relaxed) == nullptr &&
         (run_.settings.organisation.blocking || !checkpointer_->busy());
}

bool Session::value_waits_put_off_cut() {
  return model_.value_waits.puts_off_cut(Clock::now(), run_.settings.drain);
}

// Before a call.
void Session::checkpoint_if_wanted() {
  if (!can_take_checkpoint() || value_waits_put_off_cut() || !close_admission()) return;
  take_checkpoint({});
  open_admission();
}

void Session::before_synchronised() {
  if (mode_.load(std::memory_order_relaxed) != Mode::kRecord) return;
  if (!triggers_->on_synchronisation() || !can_take_checkpoint()) return;
  cut_at_end_ = close_admission();
}

void Session::after_synchronised() {
  const bool recording = mode_.load(std::memory_order_relaxed) == Mode::kRecord;
  const bool too_long = recording && recorder_->stream_bytes() > run_.settings.journal;
  if (too_long) {
    refuse("a replay journal of more than GPUSNAP_JOURNAL (" +
           std::to_string(run_.settings.journal) + " bytes)");
  }
  // Only ever by the thread that has closed admission: there is no other in a call.
  if (!cut_at_end_) return;
  cut_at_end_ = false;
  if (recording && !too_long && !value_waits_put_off_cut()) take_checkpoint({.flags = kAtCallEnd});
  open_admission();
}

bool Session::take_checkpoint(const CutPlace& place) {
  const CutReason reason = triggers_->take();
  const bool stops = place.cut_barriers != nullptr ? place.cut_barriers->stops() : is_stop(reason);
  // Nobody else is in the session now, and those who come find it closed.
  const CallsInDriver::Scope in_driver(calls_in_driver_);
  lock_.unlock();
  const bool cut = checkpointer_->take(place);
  if (stops) stop_if_saved(place, reason);
  lock_.lock();
  return cut;
}

}  // namespace gpusnap
