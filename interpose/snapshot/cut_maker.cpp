// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/cut_maker.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "interpose/journal/recorder.h"
#include "interpose/mpi/cut_barriers.h"
#include "interpose/mpi/state.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/snapshot/checkpointer.h"
#include "interpose/snapshot/retirement.h"
#include "tiers/unlocked.h"

namespace gpusnap {

CutFacts CutMaker::facts() const {
  return {.has_context = !with_.model.contexts.is_empty(),
          .in_doubt = with_.doubt.load(std::memory_order_relaxed) != nullptr,
          .busy = with_.checkpointer->busy(),
          .request_open = mpi::request_is_open(),
          .reloading = with_.reload != nullptr,
          .replaying = with_.admission.is_replaying(),
          .capturing = with_.model.contexts.is_capturing()};
}

// Whether a stream waits for a word that a later call, or the host, may have to write.
bool CutMaker::waits_for_word() {
  return with_.model.value_waits.puts_off_cut(CallLock::Clock::now(), with_.run.settings.drain);
}

void CutMaker::cut_before_call() {
  if (!gate_.may_cut_alone(facts()) || waits_for_word() || !close()) return;
  take({});
  open();
}

void CutMaker::before_synchronised() {
  if (!with_.admission.is_recording()) return;
  if (!with_.triggers->on_synchronisation() || !gate_.may_cut_alone(facts())) return;
  cut_at_end_ = close();
}

void CutMaker::after_synchronised() {
  const bool recording = with_.admission.is_recording();
  const uint64_t most = with_.run.settings.journal;
  const bool too_long = recording && with_.recorder->stored_bytes() > most;
  if (too_long) {
    with_.retirement.refuse("a replay journal of more than GPUSNAP_JOURNAL (" +
                            std::to_string(most) + " stored bytes)");
  }
  // Only ever by the thread that has closed admission: there is no other in a call.
  if (!cut_at_end_) return;
  cut_at_end_ = false;
  if (recording && !too_long && !waits_for_word()) take({.flags = kAtCallEnd});
  open();
}

bool CutMaker::close() {
  // While a stream is captured nothing can be waited for without ending the capture.
  if (with_.admission.is_closed() || with_.model.contexts.is_capturing()) return false;
  switch (with_.admission.close(CallLock::Clock::now() + with_.run.settings.drain)) {
    case Admission::Closing::kElsewhere:
      return false;
    case Admission::Closing::kNotLeft:
      say_not_left();
      return false;
    case Admission::Closing::kClosed:
      break;
  }
  said_not_left_ = false;
  // A thread that was waited for may have begun a capture, or ended the recording.
  const bool may_cut = !with_.model.contexts.is_capturing() && with_.admission.is_recording();
  if (!may_cut) open();
  return may_cut;
}

void CutMaker::say_not_left() {
  const Settings& settings = with_.run.settings;
  const std::string why = std::to_string(with_.admission.others()) +
                          " other thread(s) did not leave a CUDA call within " +
                          std::to_string(settings.drain.count() / 1'000'000) +
                          " ms (GPUSNAP_DRAIN); it is tried again later";
  const CutReason reason = with_.triggers->take();
  with_.triggers->report({false, "", 0, 0, why});
  if (reason == CutReason::kSignalledStop) {
    log(LogLevel::kError, "not stopped, the program goes on: ", why);
  }
  if (!std::exchange(said_not_left_, true)) {
    log(LogLevel::kWarn, "no checkpoint was taken, the program goes on: ", why);
  }
  if (settings.strict) fatal(kExitStore, "stopped, as GPUSNAP_STRICT asks");
}

bool CutMaker::take(CutPlace place) {
  const CutReason reason = with_.triggers->take();
  const bool stops = place.cut_barriers != nullptr ? place.cut_barriers->stops() : is_stop(reason);
  with_.checkpointer->choose_level(place, reason);
  // Nobody else is in the session now, and those who come find it closed.
  const CallsInDriver::Scope in_driver(with_.calls);
  const Unlocked unlocked(with_.lock);
  const bool cut = with_.checkpointer->take(place);
  if (stops) stop_if_saved(place, reason);
  return cut;
}

// The program is held from the cut on until the checkpoint is durable, so that nothing of it comes
// after its checkpoint. The caller holds no lock, and nobody else is in the session.
void CutMaker::stop_if_saved(const CutPlace& place, CutReason reason) {
  const Status saved = with_.checkpointer->outcome();
  const bool all =
      place.cut_barriers != nullptr ? place.cut_barriers->all_saved(saved.ok()) : saved.ok();
  if (all) {
    // Answers those who asked.
    with_.triggers->stop();
    end_stopped(with_.run.job + "@" + std::to_string(with_.checkpointer->next_epoch() - 1));
  }
  const bool first = with_.run.ranks.rank == 0;
  // `gpusnap stop` says it itself. A rank that has nothing to say of its own leaves it to the
  // first.
  if (reason == CutReason::kRequestedStop || (saved.ok() && !first)) return;
  log(LogLevel::kError, "not stopped, the program goes on: ",
      saved.ok() ? "another rank could not save its part of the checkpoint" : saved.message());
}

// By _exit(): what the C library holds of the output belongs to the run that goes on from there.
void CutMaker::end_stopped(const std::string& id) const {
  if (with_.run.ranks.rank == 0) {
    log(LogLevel::kWarn, "stopped after checkpoint ", id, ", from which 'gpusnap restore' goes on");
  }
  _exit(kExitStopped);
}

}  // namespace gpusnap
