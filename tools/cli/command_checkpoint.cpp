// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "interpose/services/log.h"
#include "tools/cli/checkpoint_request.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {

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

}  // namespace gpusnap
