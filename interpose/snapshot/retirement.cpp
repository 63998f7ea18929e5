// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/retirement.h"

#include <vector>

#include "interpose/nondeterminism/opened_files.h"
#include "interpose/nondeterminism/value_log.h"
#include "interpose/services/fatal.h"
#include "interpose/snapshot/checkpointer.h"
#include "tiers/unlocked.h"

namespace gpusnap {

void Retirement::refuse(const std::string& what) {
  if (with_.admission.is_replaying()) {
    fatal(kExitImpossible, "the program makes " + what + " in its replay");
  }
  end_checkpoints(what + " cannot be restored by this version", LogLevel::kWarn);
}

void Retirement::end_checkpoints(const std::string& why, LogLevel level) {
  if (!with_.admission.is_recording()) return;
  if (with_.reload != nullptr) fatal(kExitImpossible, "nothing was reloaded: " + why);
  abandon_snapshot();
  // Another thread may have come to the same meanwhile.
  if (!with_.admission.is_recording()) return;
  with_.admission.set_mode(Mode::kOff);
  with_.host_callbacks.record_to(nullptr);
  stop_noting_opened();
  nondeterminism::stop_noting();
  {
    const Unlocked unlocked(with_.lock);
    with_.checkpointer->snapshots().retire();
    (void)with_.room.give_up_copies({});
  }
  end_own_mappings();
  close_tile_pools();
  log(level, "no more checkpoints of this process, the program goes on: ", why);
  with_.triggers->end_cuts(why);
  if (with_.run.settings.strict) fatal(kExitImpossible, "stopped, as GPUSNAP_STRICT asks");
}

void Retirement::abandon_snapshot() {
  let_snapshot_end(&Snapshots::end);
}

void Retirement::await_snapshot() {
  let_snapshot_end(&Snapshots::wait_end);
}

void Retirement::let_snapshot_end(void (Snapshots::*wait)()) {
  Snapshots& snapshots = with_.checkpointer->snapshots();
  for (;;) {
    with_.admission.await_end_of_cut();
    if (!snapshots.running()) return;
    const Unlocked unlocked(with_.lock);
    (snapshots.*wait)();
  }
}

// The program's memory is its own again.
void Retirement::end_own_mappings() {
  DeviceModel& model = with_.model;
  std::vector<PhysicalMemory> memories;
  for (const auto& [number, memory] : model.physical.all()) memories.push_back(memory);
  const auto chunks = model.shadow_mappings.take_chunks();
  const Unlocked unlocked(with_.lock);
  const RelaxedCapture relaxed(model.driver);
  for (const PhysicalMemory& memory : memories) {
    model.shadow_mappings.unmap(memory.address, memory.size);
  }
  for (const auto& [address, size] : chunks) (void)model.driver.cuMemAddressFree(address, size);
}

void Retirement::close_tile_pools() {
  const std::vector<TilePool> pools = with_.model.tile_pools.take_all();
  const Unlocked unlocked(with_.lock);
  for (const TilePool& pool : pools) with_.model.tile_pools.close(pool.context, pool.windows);
}

}  // namespace gpusnap
