// Launches as they were before CUDA 4: the block and the arguments of a function are set
// beforehand.

#include <cstring>

#include "tools/simcuda/driver/functions.h"

namespace simcuda {
namespace {

constexpr size_t kMostParameters = 4096;  // bytes

// body(Function::Legacy&), with the function's lock held.
template <class Body>
CUresult with_legacy(CUfunction handle, Body&& body) {
  return in_context([&](Driver& state, Context&) {
    std::shared_ptr<Function> function;
    const CUresult result = find_function(state, handle, &function);
    if (result != CUDA_SUCCESS) return result;
    const std::lock_guard lock(function->mutex);
    return static_cast<CUresult>(body(function->legacy));
  });
}

CUresult set_parameter(CUfunction function, int offset, const void* value, size_t bytes) {
  return with_legacy(function, [&](Function::Legacy& legacy) {
    if (value == nullptr || offset < 0 || bytes > kMostParameters ||
        static_cast<size_t>(offset) > kMostParameters - bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const auto at = static_cast<size_t>(offset);
    if (legacy.parameters.size() < at + bytes) legacy.parameters.resize(at + bytes);
    std::memcpy(legacy.parameters.data() + at, value, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult launch_grid(CUfunction function, int width, int height, CUstream stream) {
  Function::Legacy set;
  const CUresult result = with_legacy(function, [&](Function::Legacy& legacy) {
    set = legacy;
    return width > 0 && height > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
  if (result != CUDA_SUCCESS) return result;
  size_t bytes = set.parameter_bytes;
  set.parameters.resize(bytes);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, set.parameters.data(),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  return cuLaunchKernel(function, static_cast<unsigned>(width), static_cast<unsigned>(height), 1,
                        set.block.x, set.block.y, set.block.z, set.shared, stream, nullptr, extra);
}

}  // namespace
}  // namespace simcuda

using simcuda::Function;
using simcuda::launch_grid;
using simcuda::set_parameter;
using simcuda::with_legacy;

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
  return with_legacy(function, [&](Function::Legacy& legacy) {
    if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
    legacy.block = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
  return with_legacy(function, [&](Function::Legacy& legacy) {
    legacy.shared = bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
  return with_legacy(function, [&](Function::Legacy& legacy) {
    if (bytes > simcuda::kMostParameters) return CUDA_ERROR_INVALID_VALUE;
    legacy.parameter_bytes = bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuParamSeti(CUfunction function, int offset, unsigned value) {
  return set_parameter(function, offset, &value, sizeof value);
}

CUresult cuParamSetf(CUfunction function, int offset, float value) {
  return set_parameter(function, offset, &value, sizeof value);
}

CUresult cuParamSetv(CUfunction function, int offset, void* value, unsigned bytes) {
  return set_parameter(function, offset, value, bytes);
}

CUresult cuLaunch(CUfunction function) {
  return launch_grid(function, 1, 1, nullptr);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height) {
  return launch_grid(function, width, height, nullptr);
}

CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  return launch_grid(function, width, height, stream);
}
