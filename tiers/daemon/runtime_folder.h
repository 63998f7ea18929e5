// Where gpusnapd writes what it has to say while nobody sees its standard error.
#pragma once

#include <string>

#include "tiers/status.h"

namespace gpusnap {

// $XDG_RUNTIME_DIR/gpusnap, or /tmp/gpusnap-<uid> where that is not set. Not made.
std::string runtime_folder();
// The log of this user's backends in it.
std::string backend_log();

// Makes the folder. kPermission where it belongs to somebody else or others may look into it.
Status make_runtime_folder();

}  // namespace gpusnap
