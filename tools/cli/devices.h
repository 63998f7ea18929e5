// The devices that a program will find when it is started.
#pragma once

#include <string>

#include "tiers/manifest.h"
#include "tools/cli/environment.h"

namespace gpusnap {

// Fills in the devices, at most `most` of them, how many there are, and the driver's version, as
// the driver tells a process with that environment. `simcuda`: folder of the software GPU; empty:
// the machine's own driver. A process of its own asks, since a driver is not left again. Facts that
// it does not tell in time stay unknown.
void ask_for_devices(Environment& environment, const std::string& simcuda, size_t most,
                     ProgramIdentity& program);

}  // namespace gpusnap
