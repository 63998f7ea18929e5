// SPDX-License-Identifier: Apache-2.0
// Makes the threads of the tiers. The preloaded library has its own way (private stacks, blocked
// signals); everybody else has std::thread.
#pragma once

#include <functional>

#include "tiers/status.h"

namespace gpusnap {

// Waits until the thread has ended. Called exactly once.
using Join = std::function<void()>;
// Makes a thread that runs `body`, which does not throw. Empty result: there is no thread.
using Spawn = std::function<Join(std::function<void()> body)>;

// With std::thread where `spawn` is empty. `what` names the thread in the message.
Result<Join> start_thread(const Spawn& spawn, const char* what, std::function<void()> body);

}  // namespace gpusnap
