// SPDX-License-Identifier: Apache-2.0
#include "interpose/model/value_waits.h"

#include <algorithm>

namespace gpusnap {

void ValueWaits::add(CUevent mark) {
  while (!waits_.empty() && forget_if_over(waits_.front())) waits_.pop_front();
  if (waits_.size() == kMost) return contexts_.give_mark(mark);
  waits_.push_back({contexts_.current(), mark});
}

void ValueWaits::forget_context(CUcontext context) {
  std::erase_if(waits_, [&](const Wait& wait) { return wait.context == context; });
}

bool ValueWaits::puts_off_cut(Time now, std::chrono::nanoseconds longest) {
  std::erase_if(waits_, [this](const Wait& wait) { return forget_if_over(wait); });
  if (waits_.empty()) {
    put_off_since_.reset();
    return false;
  }
  if (!put_off_since_) put_off_since_ = now;
  if (now - *put_off_since_ < longest) return true;
  put_off_since_.reset();
  return false;
}

bool ValueWaits::forget_if_over(const Wait& wait) {
  // Without it the query would end a capture, of another thread's, too.
  const RelaxedCapture relaxed(driver_);
  if (driver_.cuEventQuery(wait.mark) == CUDA_ERROR_NOT_READY) return false;
  contexts_.give_mark(wait.context, wait.mark);
  return true;
}

}  // namespace gpusnap
