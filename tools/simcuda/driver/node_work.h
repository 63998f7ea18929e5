// What a graph's node does, from the parameters of the calls that add and change nodes: checked, as
// those calls do.
#pragma once

#include "tools/simcuda/driver/driver.h"

namespace simcuda {

CUresult work_of(Driver& state, const CUDA_KERNEL_NODE_PARAMS_v1& params, Work* work);
CUresult work_of(Driver& state, const CUDA_KERNEL_NODE_PARAMS_v2& params, Work* work);
CUresult work_of(Driver& state, const CUDA_MEMCPY3D& copy, Work* work);
CUresult work_of(Driver& state, const CUDA_MEMSET_NODE_PARAMS& set, Work* work);
CUresult work_of(Driver& state, const CUDA_HOST_NODE_PARAMS& params, Work* work);

}  // namespace simcuda
