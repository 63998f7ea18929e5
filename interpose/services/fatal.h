// SPDX-License-Identifier: Apache-2.0
//
// The end of a process that cannot go on.
#pragma once

#include <unistd.h>

#include <string>

#include "interpose/services/log.h"

namespace gpusnap {

// Exit codes of a replay that cannot go on; the tool documents them.
inline constexpr int kExitDamaged = 65, kExitNoCheckpoint = 66, kExitOtherProgram = 69,
                     kExitDiverged = 71, kExitImpossible = 72, kExitStore = 73, kExitSetting = 78;
// The end of a program that was to stop: its checkpoint is durable.
inline constexpr int kExitStopped = 76;

// Says why, and ends the process at once: nothing of the program runs any more.
[[noreturn]] inline void fatal(int exit_code, const std::string& why) {
  log(LogLevel::kError, why);
  _exit(exit_code);
}

}  // namespace gpusnap
