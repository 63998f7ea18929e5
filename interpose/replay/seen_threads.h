// Tells what the threads of this process are doing, as the system sees them.
#pragma once

#include <vector>

#include "interpose/replay/stall_judge.h"

namespace gpusnap {

// All threads that there are now; none of them matters yet. Where the system does not tell what a
// thread waits for, it counts as waiting for another thread.
std::vector<SeenThread> see_threads();

}  // namespace gpusnap
