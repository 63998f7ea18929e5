// SPDX-License-Identifier: Apache-2.0
// How the commands that look into a store, or speak to running programs, read their options, and
// what all commands share.
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <string>

#include "tools/cli/commands.h"

namespace gpusnap {

// Notes and examples behind a command's options, and the exit codes.
void end_help(CLI::App& command, const std::string& text);
void add_store(CLI::App& command, std::string& store);
// `such_as`: an example of one.
void add_time(CLI::App& command, const std::string& name, std::chrono::nanoseconds& time,
              const std::string& such_as, const std::string& help);

CLI::App* add_checkpoint(CLI::App& app, CheckpointOptions& options);
CLI::App* add_stop(CLI::App& app, StopOptions& options);
CLI::App* add_status(CLI::App& app, StatusOptions& options);
CLI::App* add_wait(CLI::App& app, WaitOptions& options);
CLI::App* add_show(CLI::App& app, StoreOptions& options);
CLI::App* add_verify(CLI::App& app, StoreOptions& options);
CLI::App* add_extract(CLI::App& app, ExtractOptions& options);
CLI::App* add_diff(CLI::App& app, DiffOptions& options);

}  // namespace gpusnap
