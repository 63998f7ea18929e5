// An event of ours behind a call that makes a stream wait for a word. Recording.
#pragma once

#include "interpose/session/session.h"

namespace gpusnap::handle {

class WaitMark {
 public:
  WaitMark(Session& session, bool waits)
      : session_(session), mark_(waits ? session.model().contexts.take_mark() : nullptr) {}
  // Right behind the call, without the session's lock.
  void record(CUresult result, CUstream stream) {
    is_recorded_ = mark_ != nullptr && result == CUDA_SUCCESS &&
                   session_.driver().cuEventRecord(mark_, stream) == CUDA_SUCCESS;
  }
  // Once, with the lock.
  void hand_over() {
    if (is_recorded_) {
      session_.model().value_waits.add(mark_);
    } else if (mark_ != nullptr) {
      session_.model().contexts.give_mark(mark_);
    }
  }

 private:
  Session& session_;
  const CUevent mark_;
  bool is_recorded_ = false;
};

}  // namespace gpusnap::handle
