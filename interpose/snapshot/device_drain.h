// SPDX-License-Identifier: Apache-2.0
//
// The device as a cut and a load need it: run empty, with the copies of arrays up to date.
//
// The thread that takes or loads a checkpoint only, which does not hold the session's lock.
#pragma once

#include <chrono>
#include <map>

#include "interpose/model/device_model.h"

namespace gpusnap {

class DeviceDrain {
 public:
  // The model outlives it. `limit`: how long it waits.
  DeviceDrain(DeviceModel& model, std::chrono::nanoseconds limit) : model_(model), limit_(limit) {}
  DeviceDrain(const DeviceDrain&) = delete;
  DeviceDrain& operator=(const DeviceDrain&) = delete;

  // Waits, bounded, until the device has run empty.
  Status drain();
  // The device is idle.
  Status copy_arrays(Arrays::Direction direction);
  // Our own stream in the current context; null where none can be had.
  CUstream stream();
  // It has ended, and the stream with it.
  void forget_context(CUcontext context) { streams_.erase(context); }

 private:
  DeviceModel& model_;
  const std::chrono::nanoseconds limit_;
  std::map<CUcontext, CUstream> streams_;
};

}  // namespace gpusnap
