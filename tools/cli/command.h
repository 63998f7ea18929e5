// SPDX-License-Identifier: Apache-2.0
// How a command of the tool declares itself: its name, its options with their help, and what it
// does. commands.h has them all.
#pragma once

// CLI11's own headers depend on each other.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gpusnap {

// How the tool was called, besides the command's options.
struct Invocation {
  const CLI::App& tool;              // with all commands
  std::vector<std::string> program;  // behind "--", with its arguments
};

// Runs a command whose options have been read. Returns an exit code; a command that starts a
// program returns only where that fails.
using Action = std::function<int(const Invocation&)>;

struct Command {
  const char* name;
  const char* summary;  // one line
  // Adds the options. CLI11 stores what it reads where the action finds it.
  Action (*declare)(CLI::App& command);
  bool starts_program = false;  // which is given behind "--"
};

// An action whose options live as long as itself.
template <class Options>
Action action_of(CLI::App& command, void (*declare)(CLI::App&, Options&),
                 int (*run)(const Options&)) {
  const auto options = std::make_shared<Options>();
  declare(command, *options);
  return [options, run](const Invocation&) { return run(*options); };
}

// Likewise of a command that starts a program, which its options have a place for.
template <class Options>
Action starting_action_of(CLI::App& command, void (*declare)(CLI::App&, Options&),
                          int (*run)(const Options&)) {
  const auto options = std::make_shared<Options>();
  declare(command, *options);
  return [options, run](const Invocation& invocation) {
    options->program = invocation.program;
    return run(*options);
  };
}

}  // namespace gpusnap
