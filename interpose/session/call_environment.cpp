// SPDX-License-Identifier: Apache-2.0
#include "interpose/session/call_environment.h"

#include <string>

#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/services/unlocked.h"
#include "interpose/snapshot/checkpointer.h"

namespace gpusnap {

CallEnvironment::CallEnvironment(const Driver& driver, std::function<void()> function_ended)
    : driver_(&driver),
      identities_(reinterpret_cast<const void*>(&CallEnvironment::note_told)),
      model_(driver),
      host_updates_({model_, lock_, admission_, calls_in_driver_, run_.ranks, foreign_,
                     [this](const std::string& what) { refuse(what); }}),
      host_callbacks_(
          {driver, lock_, calls_in_driver_, host_updates_.deliveries(), foreign_, run_.callers},
          std::move(function_ended)) {}

CallEnvironment* CallEnvironment::enter_for_placed(uint64_t address) {
  CallEnvironment* const e = the_one_.load(std::memory_order_acquire);
  if (e == nullptr || e->run_.settings.restore.empty()) return nullptr;
  auto held = e->lock_any();
  const MemoryRange* const range = e->model_.memory.find(address);
  if (range == nullptr || !e->model_.is_placed(*range)) return nullptr;
  held.release();  // the caller's
  return e;
}

bool CallEnvironment::note_told(const char* what) {
  CallEnvironment* const e = the_one_.load(std::memory_order_acquire);
  if (e == nullptr || e->admission_.mode() == Mode::kOff) return true;
  if (own_state.in_driver && e->admission_.is_recording()) {
    e->foreign_.store(what, std::memory_order_relaxed);
  }
  return own_state.in_driver;
}

const GraphMemoryPlaceholders* CallEnvironment::graph_memory_placeholders() {
  CallEnvironment* const e = the_one_.load(std::memory_order_acquire);
  return e == nullptr ? nullptr : &e->model_.graphs.graph_memory_placeholders();
}

ProgramCopies::Ticket CallEnvironment::enter_copy() {
  const bool wanted = snapshot_pending() || pinning_->under_way();
  return wanted ? snapshots_->program_copies().enter() : nullptr;
}

void CallEnvironment::after_synchronised() {
  const bool recording = admission_.is_recording();
  const bool too_long = recording && recorder_->stored_bytes() > run_.settings.journal;
  if (too_long) {
    refuse("a replay journal of more than GPUSNAP_JOURNAL (" +
           std::to_string(run_.settings.journal) + " stored bytes)");
  }
  cuts_.after_synchronised(recording && !too_long);
}

void CallEnvironment::reload() {
  if (!reload_->count_launch(model_.memory)) return;
  const CheckpointInfo& checkpoint = reload_->checkpoint();
  const Manifest& manifest = reload_->manifest();
  const std::string obstacle = reload_->obstacle(model_.arrays.used(), cuts_.gate().shares());
  if (!obstacle.empty()) {
    fatal(kExitImpossible, checkpoint.id + " cannot be reloaded: " + obstacle);
  }
  if (!cuts_.close()) {
    fatal(kExitImpossible, checkpoint.id + " cannot be reloaded: other threads are in CUDA " +
                               "calls that do not end, or capture a stream");
  }
  {
    const Unlocked unlocked(lock_);
    const Status status = checkpointer_->reload(checkpoint, manifest);
    if (!status.ok()) {
      fatal(status.code() == Code::kDamaged ? kExitDamaged : kExitImpossible,
            checkpoint.id + " cannot be reloaded: " + status.message());
    }
    log(LogLevel::kInfo, "reloaded ", checkpoint.id, ": ", manifest.bytes(),
        " bytes of device memory");
  }
  triggers_->restored(manifest.interval, manifest.stall_ns, destination_of(manifest));
  reload_.reset();
  cuts_.open();
}

}  // namespace gpusnap
