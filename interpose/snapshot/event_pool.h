// Events of one context, used again and again.
#pragma once

#include <mutex>
#include <vector>

#include "interpose/hook/driver.h"

namespace gpusnap {

// Thread-safe.
class EventPool {
 public:
  // `flags`: as of cuEventCreate.
  EventPool(const Driver& driver, unsigned flags) : driver_(driver), flags_(flags) {}
  CUevent take();  // the context is current; null where the driver gives none
  void give_back(CUevent event);

 private:
  const Driver& driver_;
  const unsigned flags_;
  std::mutex mutex_;
  std::vector<CUevent> spare_;
};

}  // namespace gpusnap
