// SPDX-License-Identifier: Apache-2.0
// Options that several commands have, and how options are read.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "tools/cli/array_file.h"
#include "tools/cli/command.h"
#include "tools/cli/range_selection.h"

namespace gpusnap {

// Notes and examples behind a command's options, and the exit codes.
void end_help(CLI::App& command, const std::string& text);
void add_store(CLI::App& command, std::string& store);
// `such_as`: an example of one.
void add_time(CLI::App& command, const std::string& name, std::chrono::nanoseconds& time,
              const std::string& such_as, const std::string& help);
// Which ranges of a checkpoint.
void add_selection(CLI::App& command, RangeSelection& ranges);
// --dtype: calls `take` with the type of that name.
void add_element_type(CLI::App& command, const std::string& help,
                      const std::function<void(const ElementType*)>& take);

}  // namespace gpusnap
