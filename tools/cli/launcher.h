// Finds the programs on a launcher's command line (mpirun, srun), so that the tool can stand around
// each of their processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpusnap {

struct LaunchedProgram {
  size_t begin = 0;               // index in the command of its name; its arguments follow
  size_t end = 0;                 // index behind its last argument
  std::optional<uint32_t> ranks;  // processes that run it, where the command says so
  std::string folder;             // that they work in, as given; empty: the launcher's
};

struct LauncherCommand {
  std::vector<LaunchedProgram> programs;
  std::string problem;  // one line why they cannot be told; empty where they can

  // Where it is known of all programs.
  std::optional<uint64_t> ranks() const;
};

// Whether a name is that of an executable file, for processes that work in `folder`.
using IsProgram = std::function<bool(const std::string& name, const std::string& folder)>;

// nullopt where `command` starts no launcher. `file`: what its first word names, with links
// resolved. `is_program` is asked behind options that are not known alone.
std::optional<LauncherCommand> understand_launcher(const std::vector<std::string>& command,
                                                   const std::string& file,
                                                   const IsProgram& is_program);

// The command with `wrapper` before each of its programs.
std::vector<std::string> wrap_programs(const std::vector<std::string>& command,
                                       const LauncherCommand& launcher,
                                       const std::vector<std::string>& wrapper);

}  // namespace gpusnap
