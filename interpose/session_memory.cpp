// SPDX-License-Identifier: Apache-2.0
//
// Device memory of ours beside the program's: how much there is, and that it goes where the program
// needs it, or its context has ended.

#include "interpose/session.h"
#include "interpose/snapshot/checkpointer.h"

namespace gpusnap {

uint64_t Session::own_device_memory() const {
  if (snapshots_ == nullptr) return 0;
  const CUcontext context = model_.contexts.current();
  CUdevice device = 0;
  const bool is_known = driver_->cuCtxGetDevice(&device) == CUDA_SUCCESS;
  return snapshots_->own_bytes(context) + model_.arrays.own_bytes(context) +
         (is_known ? model_.arena.unused(device) : 0);
}

bool Session::make_room() {
  if (snapshots_ == nullptr) return false;
  const CUcontext context = model_.contexts.current();
  bool room = snapshots_->make_room(context);
  CUdevice device = 0;
  if (driver_->cuCtxGetDevice(&device) == CUDA_SUCCESS) {
    room = model_.arena.release_unused(device) || room;
  }
  return give_up_copies(context) || room;
}

bool Session::give_up_copies(std::optional<CUcontext> context) {
  acquire();
  const std::vector<MappedMemory> copies = model_.arrays.take_copies(context);
  release();
  for (const MappedMemory& copy : copies) unmap_memory(*driver_, copy);
  return !copies.empty();
}

void Session::end_own_mappings() {
  std::vector<PhysicalMemory> memories;
  for (const auto& [number, memory] : model_.physical.all()) memories.push_back(memory);
  const auto chunks = model_.shadow_mappings.take_chunks();
  lock_.unlock();
  {
    const RelaxedCapture relaxed(*driver_);
    for (const PhysicalMemory& memory : memories) {
      model_.shadow_mappings.unmap(memory.address, memory.size);
    }
    for (const auto& [address, size] : chunks) (void)driver_->cuMemAddressFree(address, size);
  }
  lock_.lock();
}

void Session::close_tile_pools() {
  const std::vector<TilePool> pools = model_.tile_pools.take_all();
  lock_.unlock();
  for (const TilePool& pool : pools) model_.tile_pools.close(pool.context, pool.windows);
  lock_.lock();
}

void Session::release_aside() {
  for (const auto& [address, memory] : surplus_.take_all())
    model_.release_memory(address, memory.kind);
}

void Session::forget_context(CUcontext context) {
  const auto device = model_.contexts.device_of(context);
  model_.contexts.forget(context);
  const bool is_last = device && model_.contexts.on_device(*device) == nullptr;
  model_.value_waits.forget_context(context);
  deliveries_.forget_context(context);
  model_.modules.remove_context(context, model_.memory);
  const std::vector<MappedMemory> copies = model_.arrays.forget_context(context);
  std::vector<uint64_t> gone;
  bool outlives = false;
  for (const auto& [address, range] : model_.memory.ranges()) {
    if (range.context != reinterpret_cast<uint64_t>(context)) continue;
    // It may be there still, or not: nobody tells.
    if (PhysicalMemory* memory = model_.physical.numbered(range.module);
        range.kind == MemoryKind::kPhysical && memory != nullptr) {
      memory->is_doubtful = true;
      continue;
    }
    gone.push_back(address);
    outlives = outlives || range.of_pool;
  }
  if (model_.tile_pools.forget_context(context) && mode_ != Mode::kOff) {
    refuse("memory for tiles that outlives the context in which it was made");
  }
  // Pools belong to devices: what was taken from one in this context may be there still.
  if (outlives && mode_ != Mode::kOff) refuse("stream-ordered memory that outlives its context");
  for (uint64_t address : gone) {
    model_.memory.erase(address);
    model_.host_memory.remove(address);
  }
  // Our memory in it is unmapped, which waits for all that is queued: host functions, too, which
  // take the lock.
  pinning_->forget_context(context);
  auto lane = checkpointer_->forget_context(context);
  lock_.unlock();
  lane.reset();
  for (const MappedMemory& copy : copies) unmap_memory(*driver_, copy);
  if (device) model_.arena.forget_context(context, *device, is_last);
  lock_.lock();
}

}  // namespace gpusnap
