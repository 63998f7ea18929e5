// SPDX-License-Identifier: Apache-2.0
// The tool's commands and options as text: what completions and the manual are made from.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace gpusnap {

struct OptionDescription {
  std::string name;     // "--store", or "JOB" where it goes by its place
  std::string metavar;  // of its value; empty: it takes none
  std::string help;
  // The values, where these are known words.
  std::vector<std::string> choices;
};

struct CommandDescription {
  std::string name;
  std::string summary;
  std::string notes;  // behind the options, without the exit codes
  bool starts_program = false;
  std::vector<OptionDescription> options;
  std::vector<OptionDescription> positionals;
};

std::vector<CommandDescription> describe_tool(const CLI::App& tool);

}  // namespace gpusnap
