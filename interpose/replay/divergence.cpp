// SPDX-License-Identifier: Apache-2.0
#include "interpose/replay/divergence.h"

#include "interpose/process/saved_readings.h"
#include "interpose/replay/replay_output.h"
#include "interpose/services/fatal.h"
#include "interpose/services/log.h"
#include "interpose/threads/thread_name.h"

namespace gpusnap {

void end_diverged(uint64_t call, const std::string& expected, const std::string& got) {
  // The program may have said why.
  show_output();
  if (const char* doubt = nondeterminism::doubt()) log(LogLevel::kWarn, doubt);
  fatal(kExitDiverged, "the program does not repeat itself: " + own_name() + ", call " +
                           std::to_string(call) + ": expected " + expected + ", got " + got +
                           "; nothing was changed in the store");
}

}  // namespace gpusnap
