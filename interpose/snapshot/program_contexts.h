// SPDX-License-Identifier: Apache-2.0
//
// Follows the program's contexts and streams as they begin and end: all that gpusnap has in a
// context is made when the context is first seen, and goes with it. Handles are the driver's.
//
// The caller holds the session's lock, which is given back meanwhile.
#pragma once

#include <memory>

#include "interpose/model/device_model.h"
#include "interpose/process/run.h"
#include "interpose/record/host_updates.h"
#include "interpose/snapshot/arena_pinning.h"
#include "interpose/snapshot/retirement.h"

namespace gpusnap {

class ProgramContexts {
 public:
  // They outlive it. The pointers are set when the session has started.
  struct Neighbours {
    CallLock& lock;
    const Admission& admission;
    DeviceModel& model;
    Run& run;
    HostUpdates& host_updates;
    Retirement& retirement;
    const std::unique_ptr<ArenaPinning>& pinning;
    const std::unique_ptr<Checkpointer>& checkpointer;
  };
  explicit ProgramContexts(const Neighbours& neighbours) : with_(neighbours) {}
  ProgramContexts(const ProgramContexts&) = delete;
  ProgramContexts& operator=(const ProgramContexts&) = delete;

  // The program uses the current context.
  void note_current();
  void forget(CUcontext context);
  void add_stream(CUstream stream);
  void remove_stream(CUstream stream);

 private:
  bool make_first_mark(CUcontext context);
  void forget_memory(CUcontext context);

  const Neighbours with_;
};

}  // namespace gpusnap
