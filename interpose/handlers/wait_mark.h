// An event of ours behind a call that makes a stream wait for a word. Recording.
#pragma once

#include "interpose/model/device_model.h"

namespace gpusnap::handle {

class WaitMark {
 public:
  WaitMark(DeviceModel& model, bool waits)
      : model_(model), mark_(waits ? model.contexts.take_mark() : nullptr) {}
  // Right behind the call, without the session's lock.
  void record(CUresult result, CUstream stream) {
    is_recorded_ = mark_ != nullptr && result == CUDA_SUCCESS &&
                   model_.driver.cuEventRecord(mark_, stream) == CUDA_SUCCESS;
  }
  // Once, with the lock.
  void hand_over() {
    if (is_recorded_) {
      model_.value_waits.add(mark_);
    } else if (mark_ != nullptr) {
      model_.contexts.give_mark(mark_);
    }
  }

 private:
  DeviceModel& model_;
  const CUevent mark_;
  bool is_recorded_ = false;
};

}  // namespace gpusnap::handle
