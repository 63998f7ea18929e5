// Starting a program with the library in it: what `run` and `restore` have in common.
#pragma once

#include <optional>
#include <string>

#include "interpose/services/settings.h"
#include "tools/cli/commands.h"
#include "tools/cli/environment.h"
#include "tools/cli/program_file.h"

namespace gpusnap {

// Where the library and the software GPU are: beside this tool, as built, installed or carried.
// Empty where they are not there.
std::string find_library();
std::string find_simcuda();

// A program on its way: found, examined, its environment made from ours and the options.
struct Launch {
  Environment environment;
  Settings settings;
  bool settings_ok = true;
  bool strict = false;
  std::string path;  // to exec
  ProgramFile file;
  std::string folder;  // working folder
  std::string job;     // sanitised
  std::vector<std::string> arguments;
};

// Reads the settings and finds the program. Says what is wrong with a setting and what comes of it
// (`consequence`). An exit code where the program cannot be started at all, or must not be
// (strict).
std::optional<int> prepare(const LaunchOptions& options, const char* consequence, Launch& launch);

// Puts the library into the environment. False, with a line, where it cannot be.
bool preload(Launch& launch);

// Becomes the program, with address randomisation off where `preloaded`. Returns an exit code where
// that fails.
int become(Launch& launch, bool preloaded);

}  // namespace gpusnap
