// SPDX-License-Identifier: Apache-2.0
// All commands of the tool, each declared in its file command_*.cpp.
#pragma once

#include <span>

#include "tools/cli/command.h"

namespace gpusnap {

extern const Command kCalibrateCommand;
extern const Command kCheckpointCommand;
extern const Command kCompletionCommand;
extern const Command kDiffCommand;
extern const Command kDoctorCommand;
extern const Command kExplainCommand;
extern const Command kExtractCommand;
extern const Command kListCommand;
extern const Command kManualCommand;
extern const Command kPlanCommand;
extern const Command kPruneCommand;
extern const Command kRankCommand;
extern const Command kReportCommand;
extern const Command kRestoreCommand;
extern const Command kRunCommand;
extern const Command kShowCommand;
extern const Command kStatusCommand;
extern const Command kStopCommand;
extern const Command kTraceCommand;
extern const Command kVerifyCommand;
extern const Command kWaitCommand;

// In the order in which the help names them.
std::span<const Command* const> all_commands();

}  // namespace gpusnap
