// SPDX-License-Identifier: Apache-2.0
// How the commands that look into a store read their options, and what all commands share.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "tools/cli/commands.h"

namespace gpusnap {

// Notes and examples behind a command's options, and the exit codes.
void end_help(CLI::App& command, const std::string& text);
void add_store(CLI::App& command, std::string& store);

CLI::App* add_show(CLI::App& app, StoreOptions& options);
CLI::App* add_verify(CLI::App& app, StoreOptions& options);
CLI::App* add_extract(CLI::App& app, ExtractOptions& options);
CLI::App* add_diff(CLI::App& app, DiffOptions& options);

}  // namespace gpusnap
