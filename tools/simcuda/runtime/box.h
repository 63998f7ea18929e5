// Copies of boxes, as the driver takes them.
#pragma once

#include <algorithm>

#include "tools/simcuda/runtime/array_format.h"
#include "tools/simcuda/runtime/driver_api.h"

namespace simcuda::runtime {

// One side of a 2D or 3D copy as the driver wants it said: the kind of memory and its address.
struct Side {
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  CUdeviceptr device = 0;
  void* host = nullptr;
};

inline Side side(const void* pointer, bool known, bool on_device) {
  if (!known) return {CU_MEMORYTYPE_UNIFIED, reinterpret_cast<CUdeviceptr>(pointer), nullptr};
  if (on_device) return {CU_MEMORYTYPE_DEVICE, reinterpret_cast<CUdeviceptr>(pointer), nullptr};
  return {CU_MEMORYTYPE_HOST, 0, const_cast<void*>(pointer)};
}

inline bool is_kind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

inline Side source_side(const void* pointer, cudaMemcpyKind kind) {
  return side(pointer, kind != cudaMemcpyDefault,
              kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
}

inline Side destination_side(const void* pointer, cudaMemcpyKind kind) {
  return side(pointer, kind != cudaMemcpyDefault,
              kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice);
}

// Bytes of an element of an array; 1 where there is none.
inline cudaError_t element_bytes(const Driver& driver, cudaArray_t array, size_t* bytes) {
  *bytes = 1;
  if (array == nullptr) return cudaSuccess;
  CUDA_ARRAY3D_DESCRIPTOR known = {};
  const cudaError_t status =
      driver.cuArray3DGetDescriptor(&known, reinterpret_cast<CUarray>(array));
  if (status == cudaSuccess) *bytes = channel_bytes(known.Format) * known.NumChannels;
  return status;
}

// The copy that the program asks for. With an array, widths and its own positions are counted in
// its elements.
inline cudaError_t box_of(const Driver& driver, const cudaMemcpy3DParms* p, CUDA_MEMCPY3D* out) {
  if (p == nullptr) return cudaErrorInvalidValue;
  size_t source_element = 1;
  size_t destination_element = 1;
  cudaError_t status = element_bytes(driver, p->srcArray, &source_element);
  if (status == cudaSuccess) status = element_bytes(driver, p->dstArray, &destination_element);
  if (status != cudaSuccess) return status;
  if (p->srcArray != nullptr && p->dstArray != nullptr && source_element != destination_element) {
    return cudaErrorInvalidValue;
  }
  if (!is_kind(p->kind)) return cudaErrorInvalidMemcpyDirection;
  const Side source = source_side(p->srcPtr.ptr, p->kind);
  const Side destination = destination_side(p->dstPtr.ptr, p->kind);
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = p->srcPos.x * source_element;
  box.srcY = p->srcPos.y;
  box.srcZ = p->srcPos.z;
  box.srcMemoryType = source.type;
  box.srcHost = source.host;
  box.srcDevice = source.device;
  box.srcPitch = p->srcPtr.pitch;
  box.srcHeight = p->srcPtr.ysize;
  box.dstXInBytes = p->dstPos.x * destination_element;
  box.dstY = p->dstPos.y;
  box.dstZ = p->dstPos.z;
  box.dstMemoryType = destination.type;
  box.dstHost = destination.host;
  box.dstDevice = destination.device;
  box.dstPitch = p->dstPtr.pitch;
  box.dstHeight = p->dstPtr.ysize;
  if (p->srcArray != nullptr) {
    box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    box.srcArray = reinterpret_cast<CUarray>(p->srcArray);
  }
  if (p->dstArray != nullptr) {
    box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    box.dstArray = reinterpret_cast<CUarray>(p->dstArray);
  }
  box.WidthInBytes = p->extent.width * std::max(source_element, destination_element);
  box.Height = p->extent.height;
  box.Depth = p->extent.depth;
  *out = box;
  return cudaSuccess;
}

}  // namespace simcuda::runtime
