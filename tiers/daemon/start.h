// SPDX-License-Identifier: Apache-2.0
// Starts the node's backend, gpusnapd, from a program that is not to notice: the program gets no
// child that its wait() could return and no signal, and shares no file with the backend.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tiers/staging/memory.h"
#include "tiers/status.h"

namespace gpusnap {

struct BackendProgram {
  std::string path;                      // of the executable; absolute
  std::vector<std::string> environment;  // "NAME=value"
};

// Returns the path of the gpusnapd that was built, installed or bundled with the library or tool
// that this code is part of. Empty: there is none.
std::string find_backend();

// Returns what the backend needs of a process's environment ("NAME=value" strings up to a null
// pointer): gpusnap's settings except those of a restore, and some of the system's, such as PATH
// and HOME. Leaves out what is preloaded into the process.
std::vector<std::string> backend_environment(const char* const* environment);

// Returns the setting or, if it is empty, the host's name.
std::string node_name(const std::string& setting);

// Starts the backend in a session of its own, in the folder /, without open files of the caller.
// Returns as soon as the process runs; it may not serve yet. Blocks while the system loads the
// program. Thread-safe.
Status start_backend(const BackendProgram& program);

// Returns the area of that name (StagingMemory::name_for) after a backend serves it. Starts the
// backend if there is no area, or if the server of an existing area has gone. Returns kBusy if the
// area is not served within `longest`. `space`: see StagingMemory::attach().
Result<std::unique_ptr<StagingMemory>> reach_backend(const std::string& area,
                                                     const BackendProgram& program,
                                                     std::chrono::nanoseconds longest,
                                                     AddressSpace* space = nullptr);

}  // namespace gpusnap
