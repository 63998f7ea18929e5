// SPDX-License-Identifier: Apache-2.0
//
// The result of a simulation as one line of JSON.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/shots/configuration.h"

namespace gpusnap::shots {

struct Process {
  const Runtime& runtime;
  const ShotResult& result;
};

// Rates are bytes of a process over the time for which it was blocked, in bytes per second.
std::string report(const std::string& line, const Configuration& configuration,
                   const std::vector<Process>& processes);

}  // namespace gpusnap::shots
