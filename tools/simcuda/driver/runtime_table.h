// SPDX-License-Identifier: Apache-2.0
//
// Functions of simcuda's driver, besides the public calls, for simcuda's runtime. It asks for them
// by cuGetExportTable, as CUDA's runtime asks CUDA's driver. The contents are ours.
#pragma once

#include "interpose/cuda/cuda_abi.h"

namespace simcuda {

inline constexpr CUuuid kRuntimeTable = {
    {'s', 'i', 'm', 'c', 'u', 'd', 'a', ' ', 'r', 'u', 'n', 't', 'i', 'm', 'e', '1'}};

struct RuntimeTable {
  // The handle that the device's primary context has or will have; it is not initialised by this.
  CUresult (*primary_handle)(CUcontext* context, CUdevice device);
};

}  // namespace simcuda
