// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/device_room.h"

#include <mutex>

#include "interpose/snapshot/checkpointer.h"

namespace gpusnap {

uint64_t DeviceRoom::own_bytes() const {
  const CUcontext context = model_.contexts.current();
  CUdevice device = 0;
  const bool is_known = model_.driver.cuCtxGetDevice(&device) == CUDA_SUCCESS;
  return checkpointer_->snapshots().own_bytes(context) + model_.arrays.own_bytes(context) +
         (is_known ? model_.arena.unused(device) : 0);
}

bool DeviceRoom::make_room() {
  const CUcontext context = model_.contexts.current();
  bool room = checkpointer_->snapshots().make_room(context);
  CUdevice device = 0;
  if (model_.driver.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
    room = model_.arena.release_unused(device) || room;
  }
  return give_up_copies(context) || room;
}

bool DeviceRoom::give_up_copies(std::optional<CUcontext> context) {
  std::vector<MappedMemory> copies;
  {
    const std::lock_guard lock(lock_);
    copies = model_.arrays.take_copies(context);
  }
  for (const MappedMemory& copy : copies) unmap_memory(model_.driver, copy);
  return !copies.empty();
}

}  // namespace gpusnap
