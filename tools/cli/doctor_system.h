// SPDX-License-Identifier: Apache-2.0
// Attempts at what a run needs of this machine: for `gpusnap doctor`. None leaves anything behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tiers/status.h"
#include "tools/cli/environment.h"

namespace gpusnap {

// Everything that a command writes to its standard output and error; killed after ten seconds.
// Empty where it cannot be started. `command`: with the path of its program.
std::string output_of(const std::vector<std::string>& command, Environment& environment);

// The folder, or the nearest above it that is there.
std::string nearest_folder(const std::string& path);
// Writes, syncs, renames and locks a file there, and removes it.
Status try_to_write(const std::string& folder);
// Bytes that are free for this user; nothing where that cannot be told.
std::optional<uint64_t> free_bytes(const std::string& folder);

// 0: no limit.
uint64_t locked_memory_limit();
// Whether a process may turn off the randomisation of its addresses; else the reason.
Status try_fixed_addresses();
bool has_io_uring();
// Whether a filter of system calls is on, as containers have.
bool has_seccomp_filter();

}  // namespace gpusnap
