// Starting a program with the library in it: what `run`, `restore` and `rank` have in common.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interpose/services/settings.h"
#include "tools/cli/environment.h"
#include "tools/cli/launcher.h"
#include "tools/cli/program_file.h"

namespace gpusnap {

// A setting given as an option: the variable that says the same, and the value.
using SettingOption = std::pair<std::string, std::string>;

struct LaunchOptions {
  const char* command = nullptr;  // "run" or "restore": for lines
  std::vector<SettingOption> settings;
  bool sim = false;
  // run: goes on from the job's checkpoint where there is one. The job is then this one of the
  // scheduler's.
  bool resume = false;
  std::vector<std::string> program;  // with its arguments
};

// Where the library is: beside this tool, as built, installed or carried.
Result<std::string> find_library();
// The library, and the software GPU. Empty, with a line, where they are not there or cannot be
// used.
std::string library_to_preload();
std::string folder_of_simcuda();

// A program that is to be started: found and examined.
struct Program {
  std::string path;  // to exec
  ProgramFile file;
  std::vector<std::string> arguments;
  std::string folder;  // that it works in
};

// A command on its way, with its environment made from ours and the options.
struct Launch {
  Environment environment;
  Settings settings;
  bool settings_ok = true;
  bool strict = false;
  std::string job;  // sanitised
  // One, or those that a launcher starts. All that is decided is decided of them.
  std::vector<Program> programs;
  std::optional<LauncherCommand> launcher;
  std::vector<std::string> command;  // that starts them
  std::string path;                  // of the command, to exec
  std::string simcuda;               // folder of the software GPU; empty: it is not wanted
};

// Runs the program as `gpusnap run` does; command_run.cpp.
int run_command(const LaunchOptions& options);
// As `gpusnap run --resume` does; command_restore.cpp.
int resume_command(const LaunchOptions& options);

// Reads the settings and finds the program. Says what is wrong with a setting and what comes of it
// (`consequence`). An exit code where the program cannot be started at all, or must not be
// (strict).
std::optional<int> prepare(const LaunchOptions& options, const char* consequence, Launch& launch);

// Becomes the program or its launcher, which then starts each process by `gpusnap rank`, with
// `library` in it; empty: with none. Returns an exit code where that fails.
int become(Launch& launch, const std::string& library);
// Becomes a program with the software GPU's folder, where there is one, and the library in its
// environment, and address randomisation off.
int become(const std::string& path, const std::vector<std::string>& arguments,
           Environment& environment, const std::string& simcuda, const std::string& library);

// Says where a name does not lead to a program; the exit code.
int cannot_run(const Status& why);

// Lines of that level and above are written, but no warnings by several processes of one node.
void set_level_of_lines(LogLevel level);

}  // namespace gpusnap
