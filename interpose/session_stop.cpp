// SPDX-License-Identifier: Apache-2.0
//
// The end of the program after a cut that is a stop. The program is held from the cut on until the
// checkpoint is durable, so that nothing of it comes after its checkpoint. Ranks end together: the
// parts of all are durable then.
#include <unistd.h>

#include "interpose/mpi/cut_barriers.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/services/private_memory.h"
#include "interpose/session.h"
#include "interpose/snapshot/checkpointer.h"

namespace gpusnap {

void Session::begin_triggers() {
  triggers_ = std::make_unique<Triggers>(run_.settings.every, spawn_thread);
  triggers_->set_status_source([this] { return status(); });
  triggers_->set_stop_source([this] { return checkpoint_of_replay(); },
                             [this](const std::string& id) { end_stopped(id); });
  if (coordinated_) triggers_->coordinate([this] { say_overdue(); });
}

// The caller holds no lock, and nobody else is in the session.
void Session::stop_if_saved(const CutPlace& place, CutReason reason) {
  const Status saved = checkpointer_->outcome();
  const bool all =
      place.cut_barriers != nullptr ? place.cut_barriers->all_saved(saved.ok()) : saved.ok();
  if (all) {
    // Answers those who asked.
    triggers_->stop();
    end_stopped(run_.job + "@" + std::to_string(checkpointer_->next_epoch() - 1));
  }
  // `gpusnap stop` says it itself. A rank that has nothing to say of its own leaves it to the
  // first.
  if (reason == CutReason::kRequestedStop || (saved.ok() && run_.ranks.rank != 0)) return;
  log(LogLevel::kError, "not stopped, the program goes on: ",
      saved.ok() ? "another rank could not save its part of the checkpoint" : saved.message());
}

// The checkpoint that a program which has not got back to it yet can end without losing. Ranks wait
// for each other to be live: one that ends alone would hold up the others.
std::string Session::checkpoint_of_replay() const {
  return replaying() && !coordinated_ ? restored_.checkpoint.id : std::string();
}

// By _exit(): what the C library holds of the output belongs to the run that goes on from there.
void Session::end_stopped(const std::string& id) const {
  if (run_.ranks.rank == 0) {
    log(LogLevel::kWarn, "stopped after checkpoint ", id, ", from which 'gpusnap restore' goes on");
  }
  _exit(kExitStopped);
}

}  // namespace gpusnap
