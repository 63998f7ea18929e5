// Memory and events that processes share.
#include "tools/simcuda/runtime/context.h"

using namespace simcuda::runtime;

namespace {

// The same bytes.
CUipcMemHandle* driver_handle(cudaIpcMemHandle_t* handle) {
  static_assert(sizeof(CUipcMemHandle) == sizeof(cudaIpcMemHandle_t));
  return reinterpret_cast<CUipcMemHandle*>(handle);
}

CUipcEventHandle* driver_handle(cudaIpcEventHandle_t* handle) {
  static_assert(sizeof(CUipcEventHandle) == sizeof(cudaIpcEventHandle_t));
  return reinterpret_cast<CUipcEventHandle*>(handle);
}

}  // namespace

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* devPtr) {
  return with_context([&](const Driver& driver) {
    return driver.cuIpcGetMemHandle(driver_handle(handle), reinterpret_cast<CUdeviceptr>(devPtr));
  });
}

cudaError_t cudaIpcOpenMemHandle(void** devPtr, cudaIpcMemHandle_t handle, unsigned int flags) {
  return with_context([&](const Driver& driver) {
    return driver.cuIpcOpenMemHandle(reinterpret_cast<CUdeviceptr*>(devPtr),
                                     *driver_handle(&handle), flags);
  });
}

cudaError_t cudaIpcCloseMemHandle(void* devPtr) {
  return with_context([&](const Driver& driver) {
    return driver.cuIpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(devPtr));
  });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return with_context([&](const Driver& driver) {
    return driver.cuIpcGetEventHandle(driver_handle(handle), event);
  });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return with_context([&](const Driver& driver) {
    return driver.cuIpcOpenEventHandle(event, *driver_handle(&handle));
  });
}
