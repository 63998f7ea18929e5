// Examines a program's file before the program is started: whether a library can be preloaded into
// it, and whether it may use CUDA.
#pragma once

#include <string>
#include <vector>

#include "tiers/status.h"

namespace gpusnap {

struct ProgramFile {
  std::string path;        // absolute, links resolved: what /proc/PID/exe will say
  bool is_script = false;  // the program will be an interpreter
  bool is_elf = false;
  std::string cannot_preload;  // one phrase why; empty where it can be
  bool shows_cuda = false;     // uses CUDA's libraries or holds device code
  bool may_use_cuda = true;    // false: nothing in it or in its libraries can lead to CUDA
};

// As the shell finds it: by PATH where `name` has no slash. kNotFound, kPermission.
Result<std::string> find_program(const std::string& name);
// As launchers find it for processes that work in `folder`: there, too, where PATH has none.
Result<std::string> find_program(const std::string& name, const std::string& folder);

// `arguments` (with argv[0]) tell whether it is there to start another program: those may use CUDA.
Result<ProgramFile> examine_program(const std::string& path,
                                    const std::vector<std::string>& arguments);

// The shared libraries that a program needs, and those that they need, that hold device code of
// their own; without CUDA's libraries.
std::vector<std::string> libraries_with_device_code(const std::string& path);

}  // namespace gpusnap
