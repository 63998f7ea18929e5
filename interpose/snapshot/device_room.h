// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "interpose/model/device_model.h"
#include "interpose/record/call_lock.h"

namespace gpusnap {

class Checkpointer;

// Device memory of gpusnap's own, which the program is not to miss: the buffers of snapshots, the
// copies of arrays, and what the arena keeps unused.
class DeviceRoom {
 public:
  // They outlive it. The checkpointer is there when the session has started.
  DeviceRoom(CallLock& lock, DeviceModel& model, const std::unique_ptr<Checkpointer>& checkpointer)
      : lock_(lock), model_(model), checkpointer_(checkpointer) {}

  // In the current context. The caller holds the session's lock.
  uint64_t own_bytes() const;
  // The program has been refused memory of the current context's device: gives ours there back. The
  // snapshot on its way ends first. True: try again. The caller holds no lock.
  bool make_room();
  // The copies of arrays, in one context or in all; no snapshot is on its way. The caller holds no
  // lock.
  bool give_up_copies(std::optional<CUcontext> context);

 private:
  CallLock& lock_;
  DeviceModel& model_;
  const std::unique_ptr<Checkpointer>& checkpointer_;
};

}  // namespace gpusnap
