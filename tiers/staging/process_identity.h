// SPDX-License-Identifier: Apache-2.0
// Identifies a process, so that other processes can tell whether it still runs: its number alone
// may have been given to another process.
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

// Returns whether the process runs. A killed process does not run, even if its parent has not
// waited for it yet, except while one of its threads exists, which may still hold what the process
// held. `started` 0: any process of that number. Returns true if it is not known.
bool is_running(const ProcessIdentity& process);

// Returns whether the process has ended, or is ending and will run no more instructions: for
// example, it was killed within a long write. Returns false if it is not known.
bool is_ending(const ProcessIdentity& process);

// Returns the number of threads of a process that wait uninterruptibly in the kernel for a device,
// mostly of a file system. Looks at the `most` oldest threads. Returns 0 if it is not known.
uint32_t threads_waiting_for_devices(uint32_t pid, size_t most);

// Returns a number that tells this PID namespace from others of the machine; 0: not known.
uint64_t pid_namespace();

}  // namespace gpusnap
