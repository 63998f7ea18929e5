// SPDX-License-Identifier: Apache-2.0
// The options of `run` and `restore` that stand for settings, from settings.table.
#pragma once

#include <string_view>

#include "tools/cli/command.h"
#include "tools/cli/launch.h"

namespace gpusnap {

// All that both commands have: those of settings, and --sim.
void add_launch_options(CLI::App& command, LaunchOptions& options);

// The option of `variable`, which belongs to one command alone. A wrong value is refused when it is
// read.
void add_setting_option(CLI::App& command, std::string_view variable, LaunchOptions& options);

}  // namespace gpusnap
