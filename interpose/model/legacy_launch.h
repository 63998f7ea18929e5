// SPDX-License-Identifier: Apache-2.0
//
// Launches as they were before CUDA 4.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "interpose/cuda/cuda_types.h"

namespace gpusnap {

// The settings of such a launch, which the program has made beforehand.
struct LegacyLaunch {
  unsigned block_x = 1, block_y = 1, block_z = 1, shared_bytes = 0;
  unsigned parameter_bytes = 0;
  std::vector<std::byte> parameters;
};
using LegacyLaunches = std::map<CUfunction, LegacyLaunch>;

}  // namespace gpusnap
