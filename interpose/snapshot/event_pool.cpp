#include "interpose/snapshot/event_pool.h"

namespace gpusnap {

CUevent EventPool::take() {
  {
    std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      CUevent event = spare_.back();
      spare_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  if (driver_.cuEventCreate(&event, flags_) != CUDA_SUCCESS) return nullptr;
  return event;
}

void EventPool::give_back(CUevent event) {
  if (event == nullptr) return;
  std::lock_guard lock(mutex_);
  spare_.push_back(event);
}

}  // namespace gpusnap
