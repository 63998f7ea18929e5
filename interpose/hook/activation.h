// When the process becomes one that is followed. Until its first successful cuInit nothing of ours
// is started, so that shells, launchers and compilers inherit the library for nothing; a forked
// child is left alone for good.
#pragma once

#include <atomic>

#include "interpose/hook/hook.h"

namespace gpusnap {

// Whether hooked calls go to handlers. Read on every hooked call.
extern constinit std::atomic<bool> process_active;

// After a successful cuInit of the calling thread: the first one starts the session; others wait
// until it has started.
void activate(const Guard& guard);

// Provided by the session. Reads the settings, starts to record or to replay; false: it cannot, and
// no hooked call has need of a handler.
bool session_start(const Guard& guard);

// Provided by the session. In a forked child: closes what it must not hold, and is inert from then
// on.
void session_abandon_after_fork();

// Provided by the session. The driver has handed out a hooked call under an interface newer than we
// know: the program may now do what we do not see. `name` lives for ever.
void session_lost_sight(const char* name);

}  // namespace gpusnap
