// Devices: which there are, which is used, and what they are.
#include <algorithm>
#include <cstring>

#include "tools/simcuda/runtime/context.h"

using namespace simcuda::runtime;

namespace {

cudaError_t device_handle(const Driver& driver, int device, CUdevice* handle) {
  const cudaError_t result = driver.cuDeviceGet(handle, device);
  return result == cudaErrorInvalidValue ? cudaErrorInvalidDevice : result;
}

// 0 where the driver does not know the attribute: a property that it cannot have.
int attribute_or_zero(const Driver& driver, CUdevice device, cudaDeviceAttr which) {
  int value = 0;
  const cudaError_t result =
      driver.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(which), device);
  return result == cudaSuccess ? value : 0;
}

cudaError_t properties(const Driver& driver, cudaDeviceProp* result, int device) {
  if (result == nullptr) return cudaErrorInvalidValue;
  CUdevice handle = 0;
  cudaError_t status = device_handle(driver, device, &handle);
  if (status != cudaSuccess) return status;

  cudaDeviceProp found = {};
  status = driver.cuDeviceGetName(found.name, sizeof(found.name), handle);
  if (status != cudaSuccess) return status;
  status = driver.cuDeviceTotalMem(&found.totalGlobalMem, handle);
  if (status != cudaSuccess) return status;
  CUuuid uuid = {};
  // Neither is to be had everywhere (a LUID only on Windows): zeros then.
  if (driver.cuDeviceGetUuid(&uuid, handle) == cudaSuccess) {
    std::memcpy(found.uuid.bytes, uuid.bytes, sizeof(found.uuid.bytes));
  }
  char luid[8] = {};
  unsigned int mask = 0;
  if (driver.cuDeviceGetLuid(luid, &mask, handle) == cudaSuccess) {
    std::memcpy(found.luid, luid, sizeof(luid));
    found.luidDeviceNodeMask = mask;
  }
#define PROPERTY(field, attribute) \
  found.field = static_cast<decltype(+found.field)>(attribute_or_zero(driver, handle, attribute));
#include "tools/simcuda/runtime/device_properties.inc"
#undef PROPERTY
  *result = found;
  return cudaSuccess;
}

// The device that has the most in common with what is asked for, among the properties that programs
// ask for: capability, memory, multiprocessors. The first of equals.
cudaError_t choose(const Driver& driver, int* device, const cudaDeviceProp* wanted) {
  if (device == nullptr || wanted == nullptr) return cudaErrorInvalidValue;
  int count = 0;
  cudaError_t status = driver.cuDeviceGetCount(&count);
  int best_score = -1;
  for (int i = 0; status == cudaSuccess && i < count; ++i) {
    cudaDeviceProp offered;
    status = properties(driver, &offered, i);
    if (status != cudaSuccess) break;
    const bool capable = offered.major > wanted->major ||
                         (offered.major == wanted->major && offered.minor >= wanted->minor);
    const int score = (capable ? 4 : 0) +
                      (offered.totalGlobalMem >= wanted->totalGlobalMem ? 2 : 0) +
                      (offered.multiProcessorCount >= wanted->multiProcessorCount ? 1 : 0);
    if (score > best_score) *device = i;
    best_score = std::max(best_score, score);
  }
  return status;
}

cudaError_t set_flags(const Driver& driver, int device, unsigned int flags) {
  CUdevice handle = 0;
  const cudaError_t status = device_handle(driver, device, &handle);
  if (status != cudaSuccess) return status;
  // Mapping host memory is always on and no flag of the driver's contexts any more.
  constexpr unsigned int kMapHost = 0x08;
  return driver.cuDevicePrimaryCtxSetFlags(handle, flags & ~kMapHost);
}

cudaError_t get_flags(const Driver& driver, unsigned int* flags) {
  if (flags == nullptr) return cudaErrorInvalidValue;
  int device = 0;
  cudaError_t status = device_of_thread(driver, &device);
  CUdevice handle = 0;
  if (status == cudaSuccess) status = device_handle(driver, device, &handle);
  int active = 0;
  if (status != cudaSuccess) return status;
  return driver.cuDevicePrimaryCtxGetState(handle, flags, &active);
}

cudaError_t switch_checked(const Driver& driver, int device) {
  CUdevice handle = 0;
  const cudaError_t status = device_handle(driver, device, &handle);
  return status == cudaSuccess ? switch_to(driver, device) : status;
}

// Runs `call(driver, handle)` for a device ordinal. Needs no context.
template <class Call>
cudaError_t with_device(int device, const Call& call) {
  return with_driver([&](const Driver& driver) {
    CUdevice handle = 0;
    const cudaError_t status = device_handle(driver, device, &handle);
    return status == cudaSuccess ? call(driver, handle) : status;
  });
}

// Runs `call(driver, context)` for another device's primary context, with a current one.
template <class Call>
cudaError_t with_peer(int device, const Call& call) {
  return with_context([&](const Driver& driver) {
    CUdevice handle = 0;
    CUcontext context = nullptr;
    cudaError_t status = device_handle(driver, device, &handle);
    if (status == cudaSuccess) status = primary_context(driver, device, &context);
    return status == cudaSuccess ? call(driver, context) : status;
  });
}

}  // namespace

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  if (driverVersion == nullptr) return record(cudaErrorInvalidValue);
  *driverVersion = 0;
  // Answers 0 without a driver, and a version also where there is no device.
  (void)driver().cuDriverGetVersion(driverVersion);
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  if (runtimeVersion == nullptr) return record(cudaErrorInvalidValue);
  *runtimeVersion = kRuntimeVersion;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return record(cudaErrorInvalidValue);
  *count = 0;
  return with_driver([&](const Driver& driver) { return driver.cuDeviceGetCount(count); });
}

cudaError_t cudaGetDevice(int* device) {
  return with_driver([&](const Driver& driver) {
    return device == nullptr ? cudaErrorInvalidValue : device_of_thread(driver, device);
  });
}

cudaError_t cudaSetDevice(int device) {
  return with_driver([&](const Driver& driver) { return switch_checked(driver, device); });
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
  constexpr unsigned int kFlagsAreValid = 0x01;
  return with_device(device, [&](const Driver& driver, CUdevice) {
    if ((flags & ~kFlagsAreValid) != 0) return cudaErrorInvalidValue;
    if ((flags & kFlagsAreValid) == 0) return cudaSuccess;
    return set_flags(driver, device, deviceFlags);
  });
}

cudaError_t cudaSetValidDevices(int* device_arr, int len) {
  return with_driver([&](const Driver& driver) {
    for (int i = 0; i < len; ++i) {
      CUdevice handle = 0;
      const cudaError_t status = device_handle(driver, device_arr[i], &handle);
      if (status != cudaSuccess) return status;
    }
    // A preference for the case that a device is busy, which the devices here never are.
    return cudaSuccess;
  });
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* prop) {
  return with_driver([&](const Driver& driver) { return choose(driver, device, prop); });
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return with_driver([&](const Driver& driver) {
    int device = 0;
    const cudaError_t status = device_of_thread(driver, &device);
    return status == cudaSuccess ? set_flags(driver, device, flags) : status;
  });
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return with_driver([&](const Driver& driver) { return get_flags(driver, flags); });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return with_driver([&](const Driver& driver) { return properties(driver, prop, device); });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return with_device(device, [&](const Driver& driver, CUdevice handle) {
    return driver.cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attr), handle);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return with_device(device, [&](const Driver& driver, CUdevice handle) {
    return driver.cuDeviceGetPCIBusId(pciBusId, len, handle);
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* pciBusId) {
  return with_driver(
      [&](const Driver& driver) { return driver.cuDeviceGetByPCIBusId(device, pciBusId); });
}

cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return with_device(device, [&](const Driver& driver, CUdevice handle) {
    CUdevice peer = 0;
    const cudaError_t status = device_handle(driver, peerDevice, &peer);
    return status == cudaSuccess ? driver.cuDeviceCanAccessPeer(canAccessPeer, handle, peer)
                                 : status;
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attr, int srcDevice,
                                      int dstDevice) {
  return with_device(srcDevice, [&](const Driver& driver, CUdevice source) {
    CUdevice destination = 0;
    const cudaError_t status = device_handle(driver, dstDevice, &destination);
    return status == cudaSuccess
               ? driver.cuDeviceGetP2PAttribute(value, static_cast<CUdevice_P2PAttribute>(attr),
                                                source, destination)
               : status;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  return with_peer(peerDevice, [&](const Driver& driver, CUcontext peer) {
    return driver.cuCtxEnablePeerAccess(peer, flags);
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice) {
  return with_peer(peerDevice, [&](const Driver& driver, CUcontext peer) {
    return driver.cuCtxDisablePeerAccess(peer);
  });
}

cudaError_t cudaDeviceSynchronize(void) {
  return with_context([](const Driver& driver) { return driver.cuCtxSynchronize(); });
}

cudaError_t cudaDeviceReset(void) {
  return with_driver([](const Driver& driver) {
    int device = 0;
    const cudaError_t status = device_of_thread(driver, &device);
    return status == cudaSuccess ? reset_device(driver, device) : status;
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return with_context([&](const Driver& driver) {
    return driver.cuCtxSetLimit(static_cast<CUlimit>(limit), value);
  });
}

cudaError_t cudaDeviceGetLimit(size_t* pValue, cudaLimit limit) {
  return with_context([&](const Driver& driver) {
    return driver.cuCtxGetLimit(pValue, static_cast<CUlimit>(limit));
  });
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache cacheConfig) {
  return with_context([&](const Driver& driver) {
    return driver.cuCtxSetCacheConfig(static_cast<CUfunc_cache>(cacheConfig));
  });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* pCacheConfig) {
  return with_context([&](const Driver& driver) {
    if (pCacheConfig == nullptr) return cudaErrorInvalidValue;
    CUfunc_cache found = CU_FUNC_CACHE_PREFER_NONE;
    const cudaError_t result = driver.cuCtxGetCacheConfig(&found);
    if (result == cudaSuccess) *pCacheConfig = static_cast<cudaFuncCache>(found);
    return result;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return with_context([&](const Driver& driver) {
    return driver.cuCtxGetStreamPriorityRange(leastPriority, greatestPriority);
  });
}

// No profiler can attach to this runtime, so switching one on or off has no effect, as it has none
// on a program that runs without one.
cudaError_t cudaProfilerStart(void) {
  return with_context([](const Driver&) { return cudaSuccess; });
}

cudaError_t cudaProfilerStop(void) {
  return with_context([](const Driver&) { return cudaSuccess; });
}

namespace {

cudaError_t entry_point(const Driver& driver, const char* symbol, void** function, int version,
                        unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return cudaErrorInvalidValue;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  const cudaError_t result = driver.cuGetProcAddress(symbol, function, version, flags, &found);
  if (status == nullptr) return result;
  *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  return result == cudaErrorSymbolNotFound ? cudaSuccess : result;
}

// 0 asks for the meaning of the null stream that the calling program was built with.
constexpr unsigned long long kLegacy = 1;
constexpr unsigned long long kPerThread = 2;

cudaError_t entry_point_for(const char* symbol, void** function, int version,
                            unsigned long long flags, unsigned long long default_flags,
                            cudaDriverEntryPointQueryResult* status) {
  return with_driver([&](const Driver& driver) {
    return entry_point(driver, symbol, function, version, flags == 0 ? default_flags : flags,
                       status);
  });
}

}  // namespace

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** funcPtr, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* driverStatus) {
  return entry_point_for(symbol, funcPtr, kRuntimeVersion, flags, kLegacy, driverStatus);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** funcPtr,
                                         unsigned long long flags,
                                         cudaDriverEntryPointQueryResult* driverStatus) {
  return entry_point_for(symbol, funcPtr, kRuntimeVersion, flags, kPerThread, driverStatus);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** funcPtr,
                                             unsigned int cudaVersion, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* driverStatus) {
  return entry_point_for(symbol, funcPtr, static_cast<int>(cudaVersion), flags, kLegacy,
                         driverStatus);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** funcPtr,
                                                  unsigned int cudaVersion,
                                                  unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* driverStatus) {
  return entry_point_for(symbol, funcPtr, static_cast<int>(cudaVersion), flags, kPerThread,
                         driverStatus);
}
