// SPDX-License-Identifier: Apache-2.0

#include <unistd.h>

#include "interpose/services/log.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/node.h"

namespace gpusnap {
namespace {

struct WaitOptions {
  std::string job;  // empty: all
  std::chrono::nanoseconds timeout{std::chrono::nanoseconds::max()};
};

int wait_command(const WaitOptions& options) {
  const ParsedSettings parsed = parse_settings(environ);
  for (const std::string& line : parsed.errors) log(LogLevel::kError, line);
  if (!parsed.errors.empty()) return kExitSettings;
  const Status durable = wait_until_durable(parsed.settings, options.job, options.timeout);
  if (durable.ok()) return kExitOk;
  log(LogLevel::kError, durable.message());
  return durable.code() == Code::kBusy ? kExitTooEarly : kExitInternal;
}

void declare_wait(CLI::App& command, WaitOptions& options) {
  command.add_option("--job", options.job, "only this job's")->type_name("JOB");
  add_time(command, "--timeout", options.timeout, "30s",
           "longest wait (default: as long as it takes)");
  end_help(command,
           "For checkpoints on their way when it is called, whether their programs live or not.\n"
           "Starts gpusnapd where none serves the node and something is left to do.\n\n"
           "Examples:\n  gpusnap wait\n  gpusnap wait --job wave --timeout 10m\n\n");
}

}  // namespace

const Command kWaitCommand{
    "wait", "wait until what programs of this node have handed over is durable",
    [](CLI::App& command) { return action_of(command, declare_wait, wait_command); }};

}  // namespace gpusnap
