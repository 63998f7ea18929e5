// A look at the program's memory at the cut, for the test of random programs: the library that it
// uses (tests/oracle) brings another observe_cut(), which copies all device memory to a file.
#pragma once

#include <cstdint>

#include "interpose/hook/driver.h"
#include "tracker/memory_map.h"

namespace gpusnap {

struct CutView {
  const Driver& driver;
  const MemoryMap& memory;
  uint64_t epoch;  // of the checkpoint that is being taken
};

// Called at the cut, when the device has run empty and before any call of the program goes on. In
// the product it does nothing.
void observe_cut(const CutView& cut);

}  // namespace gpusnap
