// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/commands.h"

namespace gpusnap {

std::span<const Command* const> all_commands() {
  static constexpr const Command* kCommands[] = {
      &kRunCommand,        &kRestoreCommand,   &kRankCommand,       &kListCommand,
      &kShowCommand,       &kExtractCommand,   &kDiffCommand,       &kPruneCommand,
      &kVerifyCommand,     &kTraceCommand,     &kReportCommand,     &kDoctorCommand,
      &kExplainCommand,    &kStatusCommand,    &kCheckpointCommand, &kStopCommand,
      &kWaitCommand,       &kCalibrateCommand, &kPlanCommand,       &kManualCommand,
      &kCompletionCommand,
  };
  return kCommands;
}

}  // namespace gpusnap
