// Memory: device, pinned, managed, and what can be asked about it.
#include <algorithm>

#include "tools/simcuda/runtime/context.h"
#include "tools/simcuda/runtime/registry.h"

using namespace simcuda::runtime;

namespace {

constexpr int kNoDevice = -2;  // what the public headers call cudaInvalidDeviceId

CUdeviceptr device_address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
void* pointer_to(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// An allocation of no bytes succeeds and gives the null pointer, in every form.
template <class Allocate>
cudaError_t allocate(void** result, size_t size, const Allocate& call) {
  if (result == nullptr) return cudaErrorInvalidValue;
  CUdeviceptr address = 0;
  const cudaError_t status = size == 0 ? cudaSuccess : call(&address);
  if (status == cudaSuccess) *result = pointer_to(address);
  return status;
}

cudaError_t allocate_rows(const Driver& driver, void** result, size_t* pitch, size_t width,
                          size_t rows) {
  if (pitch == nullptr) return cudaErrorInvalidValue;
  constexpr unsigned int kWidestElement = 16;
  return allocate(result, std::min(width, rows), [&](CUdeviceptr* address) {
    return driver.cuMemAllocPitch(address, pitch, width, rows, kWidestElement);
  });
}

cudaError_t host_alloc(const Driver& driver, void** result, size_t size, unsigned int flags) {
  if (result == nullptr) return cudaErrorInvalidValue;
  if (size != 0) return driver.cuMemHostAlloc(result, size, flags);
  *result = nullptr;
  return cudaSuccess;
}

cudaMemoryType memory_type(unsigned int type, unsigned int managed) {
  if (managed != 0) return cudaMemoryTypeManaged;
  if (type == CU_MEMORYTYPE_HOST) return cudaMemoryTypeHost;
  if (type == CU_MEMORYTYPE_DEVICE) return cudaMemoryTypeDevice;
  return cudaMemoryTypeUnregistered;
}

cudaError_t pointer_attributes(const Driver& driver, cudaPointerAttributes* result,
                               const void* pointer) {
  if (result == nullptr) return cudaErrorInvalidValue;
  unsigned int type = 0;
  unsigned int managed = 0;
  int device = kNoDevice;
  CUdeviceptr on_device = 0;
  void* on_host = nullptr;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                  CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &managed, &device, &on_device, &on_host};
  const cudaError_t status =
      driver.cuPointerGetAttributes(std::size(wanted), wanted, values, device_address(pointer));
  if (status != cudaSuccess) return status;
  *result = {};
  result->type = memory_type(type, managed);
  if (result->type == cudaMemoryTypeUnregistered) {
    result->device = kNoDevice;
    result->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  result->device = device;
  result->devicePointer = pointer_to(on_device);
  result->hostPointer = result->type == cudaMemoryTypeDevice ? nullptr : on_host;
  return cudaSuccess;
}

CUmemLocation driver_location(cudaMemLocation location) {
  CUmemLocation result = {};
  result.type = static_cast<CUmemLocationType>(location.type);
  result.id = location.id;
  return result;
}

cudaError_t symbol_address(const Driver& driver, const void* symbol, void** result) {
  if (result == nullptr) return cudaErrorInvalidValue;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const cudaError_t status = registry().find_variable(driver, symbol, &address, &bytes);
  if (status == cudaSuccess) *result = pointer_to(address);
  return status;
}

}  // namespace

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  return with_context([&](const Driver& driver) {
    return allocate(devPtr, size,
                    [&](CUdeviceptr* address) { return driver.cuMemAlloc(address, size); });
  });
}

cudaError_t cudaFree(void* devPtr) {
  return with_context([&](const Driver& driver) {
    return devPtr == nullptr ? cudaSuccess : driver.cuMemFree(device_address(devPtr));
  });
}

cudaError_t cudaMallocHost(void** ptr, size_t size) {
  return with_context([&](const Driver& driver) { return host_alloc(driver, ptr, size, 0); });
}

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  return with_context([&](const Driver& driver) { return host_alloc(driver, pHost, size, flags); });
}

cudaError_t cudaFreeHost(void* ptr) {
  return with_context([&](const Driver& driver) {
    return ptr == nullptr ? cudaSuccess : driver.cuMemFreeHost(ptr);
  });
}

cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int flags) {
  return with_context(
      [&](const Driver& driver) { return driver.cuMemHostRegister(ptr, size, flags); });
}

cudaError_t cudaHostUnregister(void* ptr) {
  return with_context([&](const Driver& driver) { return driver.cuMemHostUnregister(ptr); });
}

cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags) {
  return with_context([&](const Driver& driver) {
    if (pDevice == nullptr) return cudaErrorInvalidValue;
    CUdeviceptr address = 0;
    const cudaError_t status = driver.cuMemHostGetDevicePointer(&address, pHost, flags);
    if (status == cudaSuccess) *pDevice = pointer_to(address);
    return status;
  });
}

cudaError_t cudaHostGetFlags(unsigned int* pFlags, void* pHost) {
  return with_context(
      [&](const Driver& driver) { return driver.cuMemHostGetFlags(pFlags, pHost); });
}

cudaError_t cudaMallocManaged(void** devPtr, size_t size, unsigned int flags) {
  return with_context([&](const Driver& driver) {
    if (size == 0) return cudaErrorInvalidValue;
    return allocate(devPtr, size, [&](CUdeviceptr* address) {
      return driver.cuMemAllocManaged(address, size, flags);
    });
  });
}

cudaError_t cudaMallocPitch(void** devPtr, size_t* pitch, size_t width, size_t height) {
  return with_context(
      [&](const Driver& driver) { return allocate_rows(driver, devPtr, pitch, width, height); });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pitchedDevPtr, cudaExtent extent) {
  return with_context([&](const Driver& driver) {
    if (pitchedDevPtr == nullptr) return cudaErrorInvalidValue;
    cudaPitchedPtr result = {nullptr, 0, extent.width, extent.height};
    const cudaError_t status = allocate_rows(driver, &result.ptr, &result.pitch, extent.width,
                                             extent.height * extent.depth);
    if (status == cudaSuccess) *pitchedDevPtr = result;
    return status;
  });
}

CUDART_BOTH_STREAMS(cudaMallocAsync, _ptsz, (void** devPtr, size_t size, cudaStream_t hStream),
                    allocate(devPtr, size, [&](CUdeviceptr* address) {
                      return streams.cuMemAllocAsync(address, size, hStream);
                    }))

CUDART_BOTH_STREAMS(cudaFreeAsync, _ptsz, (void* devPtr, cudaStream_t hStream),
                    devPtr == nullptr ? cudaSuccess
                                      : streams.cuMemFreeAsync(device_address(devPtr), hStream))

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return with_context([&](const Driver& driver) { return driver.cuMemGetInfo(free, total); });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  return with_context(
      [&](const Driver& driver) { return pointer_attributes(driver, attributes, ptr); });
}

cudaError_t cudaMemAdvise(const void* devPtr, size_t count, cudaMemoryAdvise advice,
                          cudaMemLocation location) {
  return with_context([&](const Driver& driver) {
    return driver.cuMemAdvise(device_address(devPtr), count, static_cast<CUmem_advise>(advice),
                              driver_location(location));
  });
}

CUDART_BOTH_STREAMS(cudaMemPrefetchAsync, _ptsz,
                    (const void* devPtr, size_t count, cudaMemLocation location, unsigned int flags,
                     cudaStream_t stream),
                    streams.cuMemPrefetchAsync(device_address(devPtr), count,
                                               driver_location(location), flags, stream))

CUDART_BOTH_STREAMS(cudaMemPrefetchBatchAsync, _ptsz,
                    (void** dptrs, size_t* sizes, size_t count, cudaMemLocation* prefetchLocs,
                     size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                     cudaStream_t stream),
                    streams.cuMemPrefetchBatchAsync(reinterpret_cast<CUdeviceptr*>(dptrs), sizes,
                                                    count,
                                                    reinterpret_cast<CUmemLocation*>(prefetchLocs),
                                                    prefetchLocIdxs, numPrefetchLocs, flags,
                                                    stream))

CUDART_BOTH_STREAMS(cudaMemDiscardBatchAsync, _ptsz,
                    (void** dptrs, size_t* sizes, size_t count, unsigned long long flags,
                     cudaStream_t stream),
                    streams.cuMemDiscardBatchAsync(reinterpret_cast<CUdeviceptr*>(dptrs), sizes,
                                                   count, flags, stream))

CUDART_BOTH_STREAMS(
    cudaMemDiscardAndPrefetchBatchAsync, _ptsz,
    (void** dptrs, size_t* sizes, size_t count, cudaMemLocation* prefetchLocs,
     size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
     cudaStream_t stream),
    streams.cuMemDiscardAndPrefetchBatchAsync(reinterpret_cast<CUdeviceptr*>(dptrs), sizes, count,
                                              reinterpret_cast<CUmemLocation*>(prefetchLocs),
                                              prefetchLocIdxs, numPrefetchLocs, flags, stream))

cudaError_t cudaMemRangeGetAttribute(void* data, size_t dataSize, cudaMemRangeAttribute attribute,
                                     const void* devPtr, size_t count) {
  return with_context([&](const Driver& driver) {
    return driver.cuMemRangeGetAttribute(data, dataSize,
                                         static_cast<CUmem_range_attribute>(attribute),
                                         device_address(devPtr), count);
  });
}

cudaError_t cudaMemRangeGetAttributes(void** data, size_t* dataSizes,
                                      cudaMemRangeAttribute* attributes, size_t numAttributes,
                                      const void* devPtr, size_t count) {
  return with_context([&](const Driver& driver) {
    return driver.cuMemRangeGetAttributes(data, dataSizes,
                                          reinterpret_cast<CUmem_range_attribute*>(attributes),
                                          numAttributes, device_address(devPtr), count);
  });
}

cudaError_t cudaGetSymbolAddress(void** devPtr, const void* symbol) {
  return with_context([&](const Driver& driver) { return symbol_address(driver, symbol, devPtr); });
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  return with_context([&](const Driver& driver) {
    if (size == nullptr) return cudaErrorInvalidValue;
    CUdeviceptr address = 0;
    return registry().find_variable(driver, symbol, &address, size);
  });
}
