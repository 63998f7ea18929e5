// Which process this is, so that others can tell whether it is still there: a number alone may have
// been given to another process since.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpusnap {

struct ProcessIdentity {
  uint32_t pid = 0;      // in this process's PID namespace; 0: none
  uint64_t started = 0;  // clock ticks since the machine started
  bool operator==(const ProcessIdentity&) const = default;
};

ProcessIdentity own_identity();

// Whether it runs. Not any more once it has been killed, even if nobody has waited for it yet; but
// as long as one of its threads is there, which may still hold what the process held.
// `started` 0: any process of that number. True where it cannot be told.
bool is_running(const ProcessIdentity& process);

// Whether it runs no more, or is ending and will do nothing more: killed within a long write, say.
// False where it cannot be told.
bool is_ending(const ProcessIdentity& process);

// Threads of a process that wait in the kernel for a device, a file system's mostly, and cannot be
// interrupted. Looks at no more than `most` of its threads, the oldest. 0 where it cannot be told.
uint32_t threads_waiting_for_devices(uint32_t pid, size_t most);

// Returns a number that tells this PID namespace from others of the machine; 0: not known.
uint64_t pid_namespace();

}  // namespace gpusnap
