// Starting the node's backend, gpusnapd, from a process that is not to notice: it gets no child
// that its wait() could return, no signal, and shares no file with it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tiers/staging/memory.h"
#include "tiers/status.h"

namespace gpusnap {

struct BackendProgram {
  std::string path;                      // of the executable, from / on
  std::vector<std::string> environment;  // "NAME=value"
};

// gpusnapd as it lies beside the library, or the tool, that this code is part of: as built,
// installed or carried. Empty where it is not there.
std::string find_backend();

// Returns what the backend needs of a process's environment ("NAME=value" strings up to a null
// pointer): gpusnap's settings except those of a restore, and some of the system's, such as PATH
// and HOME. Leaves out what is preloaded into the process.
std::vector<std::string> backend_environment(const char* const* environment);

// The setting, or the host's name where it is empty.
std::string node_name(const std::string& setting);

// Starts it, in a session of its own, in the folder /, without files of the caller's; returns as
// soon as it runs, which says nothing about whether it serves. Thread-safe; the calling thread
// stops for as long as the system needs to load a program.
Status start_backend(const BackendProgram& program);

// The area of that name (StagingMemory::name_for), served: starts the backend where nobody serves
// it, also where one is there whose server has gone. kBusy where none has come within `longest`.
// `space`: as StagingMemory::attach() has it.
Result<std::unique_ptr<StagingMemory>> reach_backend(const std::string& area,
                                                     const BackendProgram& program,
                                                     std::chrono::nanoseconds longest,
                                                     AddressSpace* space = nullptr);

}  // namespace gpusnap
