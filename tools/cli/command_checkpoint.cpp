// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "interpose/services/log.h"
#include "tools/cli/checkpoint_request.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

struct CheckpointOptions {
  int pid = 0;
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
};

int checkpoint_command(const CheckpointOptions& options) {
  const Result<TakenCheckpoint> taken =
      take_checkpoint_of(options.pid, kCheckpointRequest, options.timeout);
  if (!taken.ok()) {
    log(LogLevel::kError, "no checkpoint of process ", options.pid, ": ", taken.status().message());
    return kExitInternal;
  }
  fmt::print("{}\n", show(taken.value()));
  return kExitOk;
}

void declare_checkpoint(CLI::App& command, CheckpointOptions& options) {
  command.add_option("PID", options.pid, "process that runs under gpusnap")
      ->required()
      ->check([](const std::string& text) {
        const bool number = !text.empty() && text.size() < 10 &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        return number ? std::string() : "'" + text + "' is not a process id";
      });
  add_time(command, "--timeout", options.timeout, "30s", "longest wait for it (default 5m)");
  end_help(command,
           "Waits until the checkpoint is durable and prints its name, its size "
           "and how long the program was held.\n\n"
           "Example:\n  gpusnap checkpoint --timeout 30s 4711\n\n");
}

}  // namespace

const Command kCheckpointCommand{
    "checkpoint", "have a running program take a checkpoint now",
    [](CLI::App& command) { return action_of(command, declare_checkpoint, checkpoint_command); }};

}  // namespace gpusnap
