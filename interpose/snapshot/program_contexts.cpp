// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/program_contexts.h"

#include <vector>

#include "interpose/snapshot/checkpointer.h"
#include "tiers/unlocked.h"

namespace gpusnap {

void ProgramContexts::note_current() {
  DeviceModel& model = with_.model;
  const CUcontext context = model.contexts.current();
  CUdevice device = 0;
  // A context that has been destroyed stays current.
  if (context == nullptr || model.driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return;
  if (model.contexts.is_known(context) || !make_first_mark(context)) return;
  if (!model.contexts.add(context, device)) return;
  if (device >= with_.run.devices()) with_.run.note_devices(model.driver, device + 1);
  {
    const Unlocked unlocked(with_.lock);
    with_.checkpointer->add_context(context);
    with_.pinning->add_context(context);
  }
  with_.host_updates.add_words(context);
}

// CUDA's runtime makes a device's primary context current before it is initialised: nothing can be
// made in it yet, and it is noted with the first memory or code that the program has there.
bool ProgramContexts::make_first_mark(CUcontext context) {
  const Driver& driver = with_.model.driver;
  CUevent event = nullptr;
  bool begun = false;
  {
    const Unlocked unlocked(with_.lock);
    const RelaxedCapture relaxed(driver);
    begun =
        driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if (event != nullptr) with_.model.contexts.give_mark(context, event);
  return begun;
}

void ProgramContexts::add_stream(CUstream stream) {
  note_current();
  with_.model.contexts.add_stream(stream);
}

void ProgramContexts::remove_stream(CUstream stream) {
  with_.model.contexts.remove_stream(stream);
  with_.host_updates.forget_stream(stream);
}

void ProgramContexts::forget_memory(CUcontext context) {
  DeviceModel& model = with_.model;
  std::vector<uint64_t> gone;
  bool outlives = false;
  for (const auto& [address, range] : model.memory.ranges()) {
    if (range.context != reinterpret_cast<uint64_t>(context)) continue;
    // It may be there still, or not: nobody tells.
    if (PhysicalMemory* memory = model.physical.numbered(range.module);
        range.kind == MemoryKind::kPhysical && memory != nullptr) {
      memory->is_doubtful = true;
      continue;
    }
    gone.push_back(address);
    outlives = outlives || range.of_pool;
  }
  const auto is_off = [this] { return with_.admission.mode() == Mode::kOff; };
  if (model.tile_pools.forget_context(context) && !is_off()) {
    with_.retirement.refuse("memory for tiles that outlives the context in which it was made");
  }
  // Pools belong to devices: what was taken from one in this context may be there still.
  if (outlives && !is_off())
    with_.retirement.refuse("stream-ordered memory that outlives its context");
  for (uint64_t address : gone) {
    model.memory.erase(address);
    model.host_memory.remove(address);
  }
}

void ProgramContexts::forget(CUcontext context) {
  DeviceModel& model = with_.model;
  const auto device = model.contexts.device_of(context);
  model.contexts.forget(context);
  const bool is_last = device && model.contexts.on_device(*device) == nullptr;
  model.value_waits.forget_context(context);
  with_.host_updates.forget_context(context);
  model.modules.remove_context(context, model.memory);
  const std::vector<MappedMemory> copies = model.arrays.forget_context(context);
  forget_memory(context);
  // Our memory in it is unmapped, which waits for all that is queued: host functions, too, which
  // take the lock.
  with_.pinning->forget_context(context);
  auto lane = with_.checkpointer->forget_context(context);
  const Unlocked unlocked(with_.lock);
  lane.reset();
  for (const MappedMemory& copy : copies) unmap_memory(model.driver, copy);
  if (device) model.arena.forget_context(context, *device, is_last);
}

}  // namespace gpusnap
