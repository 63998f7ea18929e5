// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/device_room.h"

#include <mutex>

#include "interpose/snapshot/checkpointer.h"

namespace gpusnap {

uint64_t DeviceRoom::own_bytes() const {
  const CUcontext context = model_.contexts.current();
  return checkpointer_->snapshots().own_bytes(context) + model_.arrays.own_bytes(context);
}

bool DeviceRoom::make_room() {
  const CUcontext context = model_.contexts.current();
  const bool room = checkpointer_->snapshots().make_room(context);
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
