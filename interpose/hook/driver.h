// The driver as we call it ourselves: real functions, found by symbol in the loaded libcuda.so.1,
// never through our own hooks. Filled in once, at activation.
#pragma once

#include "interpose/cuda/cuda_abi.h"
#include "tiers/status.h"

namespace gpusnap {

struct Driver {
#define GPUSNAP_DRIVER_FUNCTIONS(X) \
  X(cuDriverGetVersion)             \
  X(cuDeviceGetName)                \
  X(cuDeviceGetAttribute)           \
  X(cuDevicePrimaryCtxGetState)     \
  X(cuGetErrorName)                 \
  X(cuCtxGetCurrent)                \
  X(cuCtxGetDevice)                 \
  X(cuCtxSynchronize)               \
  X(cuCtxPushCurrent_v2)            \
  X(cuCtxPopCurrent_v2)             \
  X(cuEventCreate)                  \
  X(cuEventRecord)                  \
  X(cuEventQuery)                   \
  X(cuEventSynchronize)             \
  X(cuEventElapsedTime)             \
  X(cuEventDestroy_v2)              \
  X(cuStreamCreate)                 \
  X(cuStreamCreateWithPriority)     \
  X(cuStreamWaitEvent)              \
  X(cuCtxGetStreamPriorityRange)    \
  X(cuDeviceGetCount)               \
  X(cuMemcpyDtoDAsync_v2)           \
  X(cuStreamSynchronize)            \
  X(cuMemcpyDtoHAsync_v2)           \
  X(cuMemcpyHtoDAsync_v2)           \
  X(cuMemHostRegister_v2)           \
  X(cuMemHostUnregister)            \
  X(cuMemAlloc_v2)                  \
  X(cuMemFree_v2)                   \
  X(cuMemFreeHost)                  \
  X(cuPointerGetAttribute)          \
  X(cuModuleLoadData)               \
  X(cuModuleUnload)                 \
  X(cuModuleGetFunction)            \
  X(cuModuleGetGlobal_v2)           \
  X(cuFuncGetAttribute)             \
  X(cuLaunchKernel)                 \
  X(cuMemGetAllocationGranularity)  \
  X(cuMemAddressReserve)            \
  X(cuMemAddressFree)               \
  X(cuMemCreate)                    \
  X(cuMemRelease)                   \
  X(cuMemMap)                       \
  X(cuMemUnmap)                     \
  X(cuMemSetAccess)
// Newer than the oldest driver that we support: null where the driver has none.
#define GPUSNAP_OPTIONAL_DRIVER_FUNCTIONS(X) \
  X(cuLibraryGetGlobal)                      \
  X(cuLibraryGetManaged)                     \
  X(cuLibraryGetModule)                      \
  X(cuLibraryGetKernelCount)                 \
  X(cuModuleGetFunctionCount)                \
  X(cuKernelGetFunction)                     \
  X(cuKernelGetName)                         \
  X(cuFuncGetName)                           \
  X(cuStreamGetCtx)                          \
  X(cuStreamIsCapturing)                     \
  X(cuThreadExchangeStreamCaptureMode)       \
  X(cuMemFreeAsync)                          \
  X(cuDeviceGetMemPool)                      \
  X(cuMemPoolSetAttribute)                   \
  X(cuMemPoolTrimTo)                         \
  X(cuGraphGetNodes)                         \
  X(cuGraphNodeGetType)                      \
  X(cuGraphKernelNodeGetParams)              \
  X(cuGraphMemcpyNodeGetParams)              \
  X(cuGraphMemsetNodeGetParams)              \
  X(cuGraphBatchMemOpNodeGetParams)          \
  X(cuGraphEventRecordNodeGetEvent)          \
  X(cuGraphChildGraphNodeGetGraph)           \
  X(cuGraphHostNodeGetParams)                \
  X(cuGraphHostNodeSetParams)                \
  X(cuGraphMemAllocNodeGetParams)            \
  X(cuGraphMemFreeNodeGetParams)             \
  X(cuGraphAddEmptyNode)                     \
  X(cuStreamGetCaptureInfo_v2)               \
  X(cuStreamUpdateCaptureDependencies)       \
  X(cuFuncLoad)                              \
  X(cuMemcpyBatchAsync)                      \
  X(cuMemcpyBatchAsync_v2)                   \
  X(cuMemHostGetDevicePointer_v2)            \
  X(cuStreamWriteValue32_v2)                 \
  X(cuMemcpy3DAsync_v2)                      \
  X(cuMipmappedArrayGetLevel)                \
  X(cuDeviceTotalMem_v2)                     \
  X(cuMemExportToShareableHandle)            \
  X(cuMemImportFromShareableHandle)          \
  X(cuArray3DCreate_v2)                      \
  X(cuArrayDestroy)                          \
  X(cuArrayGetSparseProperties)              \
  X(cuMipmappedArrayGetSparseProperties)     \
  X(cuMemMapArrayAsync)                      \
  X(cuStreamDestroy_v2)                      \
  X(cuLaunchHostFunc)                        \
  X(cuDeviceCanAccessPeer)                   \
  X(cuDeviceGetUuid)                         \
  X(cuDeviceGetP2PAttribute)

#define X(name) decltype(&::name) name = nullptr;
  GPUSNAP_DRIVER_FUNCTIONS(X)
  GPUSNAP_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X
};

// Null when libcuda.so.1 lacks a function that we cannot do without; `missing` then names it.
const Driver* load_driver(const char** missing);

// "CUDA_ERROR_OUT_OF_MEMORY", or words where the driver does not know the value.
inline const char* error_name(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  if (driver.cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return "an error that the driver has no name for";
}

// kIo with "WHAT: the driver says ERROR", unless the call succeeded.
Status driver_status(const Driver& driver, const char* what, CUresult result);

// Makes a context current for the calling thread and puts the program's own back afterwards.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, CUcontext context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

// While it lives, calls of ours on this thread end no capture of the program's: what they make is
// no part of one.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() {
    if (driver_.cuThreadExchangeStreamCaptureMode == nullptr) return;
    (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace gpusnap
