// SPDX-License-Identifier: Apache-2.0
//
// The end of checkpoints in a process that goes on: the program did what cannot be restored, or
// another rank of its job did.
//
// The caller holds the session's lock, which is given back meanwhile.
#pragma once

#include <memory>
#include <string>

#include "interpose/model/device_model.h"
#include "interpose/process/run.h"
#include "interpose/record/admission.h"
#include "interpose/record/host_callbacks.h"
#include "interpose/replay/reload.h"
#include "interpose/services/log.h"
#include "interpose/services/triggers.h"
#include "interpose/snapshot/device_room.h"

namespace gpusnap {

class Snapshots;

class Retirement {
 public:
  // They outlive it. The pointers are set when the session has started.
  struct Neighbours {
    CallLock& lock;
    Admission& admission;
    DeviceModel& model;
    const Run& run;
    HostCallbacks& host_callbacks;
    DeviceRoom& room;
    const std::unique_ptr<Reload>& reload;  // null: nothing is reloaded
    const std::unique_ptr<Triggers>& triggers;
    const std::unique_ptr<Checkpointer>& checkpointer;
  };
  explicit Retirement(const Neighbours& neighbours) : with_(neighbours) {}
  Retirement(const Retirement&) = delete;
  Retirement& operator=(const Retirement&) = delete;

  // The program did `what`: no more checkpoints of this process. Says so once.
  void refuse(const std::string& what);
  void end_checkpoints(const std::string& why, LogLevel level);
  // Returns with no cut under way and no snapshot that needs to know of calls: it is abandoned
  // where that takes too long, or waited for.
  void abandon_snapshot();
  void await_snapshot();

 private:
  void let_snapshot_end(void (Snapshots::*wait)());
  void end_own_mappings();
  void close_tile_pools();

  const Neighbours with_;
};

}  // namespace gpusnap
