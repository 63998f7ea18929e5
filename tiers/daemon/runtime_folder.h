// SPDX-License-Identifier: Apache-2.0
// The folder of gpusnapd's log file, which it writes when no user sees its standard error.
#pragma once

#include <string>

#include "tiers/status.h"

namespace gpusnap {

// Returns $XDG_RUNTIME_DIR/gpusnap or, if that is not set, /tmp/gpusnap-<uid>. Does not make it.
std::string runtime_folder();
// Returns the path of the log of this user's backends.
std::string backend_log();

// Makes the folder. Returns kPermission if another user owns it or can read it.
Status make_runtime_folder();

}  // namespace gpusnap
