// SPDX-License-Identifier: Apache-2.0
// Which modules may keep state in the device's heap, where no address of the driver leads to.
#pragma once

#include "tracker/ptx.h"

namespace gpusnap {

// True if kernels of the module may keep memory of malloc() from one launch to the next. gcc's
// library for OpenMP regions does not: each region gives back what it took. Its functions are known
// by their names, and no other function of the module may refer to an allocator then.
bool may_keep_heap_memory(const ptx::Module& module);

}  // namespace gpusnap
