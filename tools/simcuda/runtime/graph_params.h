// Parameters of graphs' nodes, as the driver takes them.
#pragma once

#include "tools/simcuda/runtime/driver_api.h"
#include "tools/simcuda/runtime/registry.h"

namespace simcuda::runtime {

inline CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// A kernel as the driver takes it.
inline cudaError_t kernel_params(const Driver& driver, const cudaKernelNodeParams* params,
                                 CUDA_KERNEL_NODE_PARAMS_v2* out) {
  if (params == nullptr) return cudaErrorInvalidValue;
  *out = {};
  const cudaError_t found = registry().find_kernel(driver, params->func, &out->kern);
  if (found != cudaSuccess) return found;
  out->gridDimX = params->gridDim.x;
  out->gridDimY = params->gridDim.y;
  out->gridDimZ = params->gridDim.z;
  out->blockDimX = params->blockDim.x;
  out->blockDimY = params->blockDim.y;
  out->blockDimZ = params->blockDim.z;
  out->sharedMemBytes = params->sharedMemBytes;
  out->kernelParams = params->kernelParams;
  out->extra = params->extra;
  return cudaSuccess;
}

inline CUDA_MEMSET_NODE_PARAMS memset_params(const cudaMemsetParams& params) {
  return {address_of(params.dst), params.pitch, params.value,
          params.elementSize,     params.width, params.height};
}

// The pointers say where they are: with one address space the kind says nothing new.
inline CUDA_MEMCPY3D line_of(void* to, const void* from, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = address_of(from);
  copy.dstDevice = address_of(to);
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

}  // namespace simcuda::runtime
