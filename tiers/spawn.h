// SPDX-License-Identifier: Apache-2.0
// Starts the threads of the tiers. The preloaded library starts them in its own way (private
// stacks, blocked signals); other programs use std::thread.
#pragma once

#include <functional>

#include "tiers/status.h"

namespace gpusnap {

// Waits until the thread has ended. Called exactly once.
using Join = std::function<void()>;
// Starts a thread that runs `body`, which does not throw. Empty result: no thread could be started.
using Spawn = std::function<Join(std::function<void()> body)>;

// Uses std::thread if `spawn` is empty. `what` names the thread in the message of a failure.
Result<Join> start_thread(const Spawn& spawn, const char* what, std::function<void()> body);

}  // namespace gpusnap
