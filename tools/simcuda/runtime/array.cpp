// Arrays, texture objects and surface objects. Their handles are the driver's own.
#include <algorithm>
#include <iterator>

#include "tools/simcuda/runtime/array_format.h"
#include "tools/simcuda/runtime/context.h"

using namespace simcuda::runtime;

namespace {

CUarray driver_array(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}
CUmipmappedArray driver_levels(cudaMipmappedArray_const_t array) {
  return reinterpret_cast<CUmipmappedArray>(const_cast<cudaMipmappedArray_t>(array));
}

// One, two or four channels of the same size.
bool driver_format(const cudaChannelFormatDesc& desc, CUarray_format* format, unsigned* channels) {
  const int bits[] = {desc.x, desc.y, desc.z, desc.w};
  *channels = 0;
  for (const int b : bits) {
    if (b != 0 && b != desc.x) return false;
    *channels += b != 0 ? 1 : 0;
  }
  const CUarray_format formats[3][3] = {
      {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32},
      {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32},
      {CU_AD_FORMAT_MAX, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT}};
  const int size = desc.x == 8 ? 0 : desc.x == 16 ? 1 : desc.x == 32 ? 2 : -1;
  if (size < 0 || desc.f > cudaChannelFormatKindFloat || *channels == 3) return false;
  *format = formats[desc.f][size];
  return *format != CU_AD_FORMAT_MAX;
}

cudaChannelFormatDesc runtime_format(CUarray_format format, unsigned channels) {
  const int bits = static_cast<int>(channel_bytes(format) * 8);
  const bool is_float = format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT;
  const bool is_signed = format >= CU_AD_FORMAT_SIGNED_INT8 && format <= CU_AD_FORMAT_SIGNED_INT32;
  return {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 2 ? bits : 0,
          is_float    ? cudaChannelFormatKindFloat
          : is_signed ? cudaChannelFormatKindSigned
                      : cudaChannelFormatKindUnsigned};
}

// The flags of both APIs are the same.
cudaError_t describe(const cudaChannelFormatDesc* desc, const cudaExtent& extent, unsigned flags,
                     CUDA_ARRAY3D_DESCRIPTOR* wanted) {
  *wanted = {extent.width, extent.height, extent.depth, CU_AD_FORMAT_FLOAT, 1, flags};
  if (desc == nullptr) return cudaErrorInvalidValue;
  return driver_format(*desc, &wanted->Format, &wanted->NumChannels)
             ? cudaSuccess
             : cudaErrorInvalidChannelDescriptor;
}

cudaError_t create(const Driver& driver, cudaArray_t* array, const cudaChannelFormatDesc* desc,
                   const cudaExtent& extent, unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR wanted;
  if (array == nullptr) return cudaErrorInvalidValue;
  const cudaError_t status = describe(desc, extent, flags, &wanted);
  if (status != cudaSuccess) return status;
  return driver.cuArray3DCreate(reinterpret_cast<CUarray*>(array), &wanted);
}

cudaError_t driver_resource(const cudaResourceDesc* from, CUDA_RESOURCE_DESC* to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  *to = {};
  to->resType = static_cast<CUresourcetype>(from->resType);
  to->flags = from->flags;
  switch (from->resType) {
    case cudaResourceTypeArray:
      to->res.array.hArray = driver_array(from->res.array.array);
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      to->res.mipmap.hMipmappedArray = driver_levels(from->res.mipmap.mipmap);
      return cudaSuccess;
    case cudaResourceTypeLinear: {
      const auto& memory = from->res.linear;
      to->res.linear.devPtr = reinterpret_cast<CUdeviceptr>(memory.devPtr);
      to->res.linear.sizeInBytes = memory.sizeInBytes;
      return driver_format(memory.desc, &to->res.linear.format, &to->res.linear.numChannels)
                 ? cudaSuccess
                 : cudaErrorInvalidChannelDescriptor;
    }
    case cudaResourceTypePitch2D: {
      const auto& memory = from->res.pitch2D;
      to->res.pitch2D.devPtr = reinterpret_cast<CUdeviceptr>(memory.devPtr);
      to->res.pitch2D.width = memory.width;
      to->res.pitch2D.height = memory.height;
      to->res.pitch2D.pitchInBytes = memory.pitchInBytes;
      return driver_format(memory.desc, &to->res.pitch2D.format, &to->res.pitch2D.numChannels)
                 ? cudaSuccess
                 : cudaErrorInvalidChannelDescriptor;
    }
  }
  return cudaErrorInvalidValue;
}

cudaResourceDesc runtime_resource(const CUDA_RESOURCE_DESC& from) {
  cudaResourceDesc to = {};
  to.resType = static_cast<cudaResourceType>(from.resType);
  to.flags = from.flags;
  if (from.resType == CU_RESOURCE_TYPE_ARRAY) {
    to.res.array.array = reinterpret_cast<cudaArray_t>(from.res.array.hArray);
  } else if (from.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    to.res.mipmap.mipmap = reinterpret_cast<cudaMipmappedArray_t>(from.res.mipmap.hMipmappedArray);
  } else if (from.resType == CU_RESOURCE_TYPE_LINEAR) {
    const auto& memory = from.res.linear;
    to.res.linear.devPtr = reinterpret_cast<void*>(memory.devPtr);
    to.res.linear.desc = runtime_format(memory.format, memory.numChannels);
    to.res.linear.sizeInBytes = memory.sizeInBytes;
  } else {
    const auto& memory = from.res.pitch2D;
    to.res.pitch2D.devPtr = reinterpret_cast<void*>(memory.devPtr);
    to.res.pitch2D.desc = runtime_format(memory.format, memory.numChannels);
    to.res.pitch2D.width = memory.width;
    to.res.pitch2D.height = memory.height;
    to.res.pitch2D.pitchInBytes = memory.pitchInBytes;
  }
  return to;
}

CUDA_TEXTURE_DESC driver_texture(const cudaTextureDesc& from) {
  constexpr unsigned kSrgb = 0x10, kSeamless = 0x40;
  CUDA_TEXTURE_DESC to = {};
  for (int d = 0; d < 3; ++d) {
    to.addressMode[d] = static_cast<CUaddress_mode>(from.addressMode[d]);
  }
  to.filterMode = static_cast<CUfilter_mode>(from.filterMode);
  if (from.readMode == cudaReadModeElementType) to.flags |= CU_TRSF_READ_AS_INTEGER;
  if (from.normalizedCoords != 0) to.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  if (from.sRGB != 0) to.flags |= kSrgb;
  if (from.disableTrilinearOptimization != 0) to.flags |= CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  if (from.seamlessCubemap != 0) to.flags |= kSeamless;
  to.maxAnisotropy = from.maxAnisotropy;
  to.mipmapFilterMode = static_cast<CUfilter_mode>(from.mipmapFilterMode);
  to.mipmapLevelBias = from.mipmapLevelBias;
  to.minMipmapLevelClamp = from.minMipmapLevelClamp;
  to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
  std::copy(std::begin(from.borderColor), std::end(from.borderColor), to.borderColor);
  return to;
}

cudaTextureDesc runtime_texture(const CUDA_TEXTURE_DESC& from) {
  cudaTextureDesc to = {};
  for (int d = 0; d < 3; ++d) {
    to.addressMode[d] = static_cast<cudaTextureAddressMode>(from.addressMode[d]);
  }
  to.filterMode = static_cast<cudaTextureFilterMode>(from.filterMode);
  to.readMode = (from.flags & CU_TRSF_READ_AS_INTEGER) != 0 ? cudaReadModeElementType
                                                            : cudaReadModeNormalizedFloat;
  to.normalizedCoords = (from.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0 ? 1 : 0;
  to.maxAnisotropy = from.maxAnisotropy;
  to.mipmapFilterMode = static_cast<cudaTextureFilterMode>(from.mipmapFilterMode);
  to.mipmapLevelBias = from.mipmapLevelBias;
  to.minMipmapLevelClamp = from.minMipmapLevelClamp;
  to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
  to.disableTrilinearOptimization =
      (from.flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0 ? 1 : 0;
  std::copy(std::begin(from.borderColor), std::end(from.borderColor), to.borderColor);
  return to;
}

}  // namespace

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}

cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, size_t width,
                            size_t height, unsigned int flags) {
  return with_context([&](const Driver& driver) {
    return create(driver, array, desc, {width, height, 0}, flags);
  });
}

cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                              cudaExtent extent, unsigned int flags) {
  return with_context(
      [&](const Driver& driver) { return create(driver, array, desc, extent, flags); });
}

cudaError_t cudaFreeArray(cudaArray_t array) {
  return with_context([&](const Driver& driver) {
    return array == nullptr ? cudaSuccess : driver.cuArrayDestroy(driver_array(array));
  });
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* mipmappedArray,
                                     const cudaChannelFormatDesc* desc, cudaExtent extent,
                                     unsigned int numLevels, unsigned int flags) {
  return with_context([&](const Driver& driver) {
    CUDA_ARRAY3D_DESCRIPTOR wanted;
    if (mipmappedArray == nullptr) return cudaErrorInvalidValue;
    const cudaError_t status = describe(desc, extent, flags, &wanted);
    if (status != cudaSuccess) return status;
    return driver.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(mipmappedArray),
                                         &wanted, numLevels);
  });
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t* levelArray,
                                       cudaMipmappedArray_const_t mipmappedArray,
                                       unsigned int level) {
  return with_context([&](const Driver& driver) {
    return driver.cuMipmappedArrayGetLevel(reinterpret_cast<CUarray*>(levelArray),
                                           driver_levels(mipmappedArray), level);
  });
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray) {
  return with_context([&](const Driver& driver) {
    return mipmappedArray == nullptr
               ? cudaSuccess
               : driver.cuMipmappedArrayDestroy(driver_levels(mipmappedArray));
  });
}

cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned int* flags,
                             cudaArray_t array) {
  return with_context([&](const Driver& driver) {
    CUDA_ARRAY3D_DESCRIPTOR known = {};
    const cudaError_t status = driver.cuArray3DGetDescriptor(&known, driver_array(array));
    if (status != cudaSuccess) return status;
    if (desc != nullptr) *desc = runtime_format(known.Format, known.NumChannels);
    if (extent != nullptr) *extent = {known.Width, known.Height, known.Depth};
    if (flags != nullptr) *flags = known.Flags;
    return cudaSuccess;
  });
}

cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
  return cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(array));
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* pTexObject,
                                    const cudaResourceDesc* pResDesc,
                                    const cudaTextureDesc* pTexDesc,
                                    const cudaResourceViewDesc* pResViewDesc) {
  return with_context([&](const Driver& driver) {
    CUDA_RESOURCE_DESC resource;
    if (pTexDesc == nullptr) return cudaErrorInvalidValue;
    if (pResViewDesc != nullptr) return cudaErrorNotSupported;
    const cudaError_t status = driver_resource(pResDesc, &resource);
    if (status != cudaSuccess) return status;
    const CUDA_TEXTURE_DESC texture = driver_texture(*pTexDesc);
    return driver.cuTexObjectCreate(pTexObject, &resource, &texture, nullptr);
  });
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texObject) {
  return with_context([&](const Driver& driver) { return driver.cuTexObjectDestroy(texObject); });
}

cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* pResDesc,
                                             cudaTextureObject_t texObject) {
  return with_context([&](const Driver& driver) {
    CUDA_RESOURCE_DESC resource = {};
    if (pResDesc == nullptr) return cudaErrorInvalidValue;
    const cudaError_t status = driver.cuTexObjectGetResourceDesc(&resource, texObject);
    if (status == cudaSuccess) *pResDesc = runtime_resource(resource);
    return status;
  });
}

cudaError_t cudaGetTextureObjectTextureDesc(cudaTextureDesc* pTexDesc,
                                            cudaTextureObject_t texObject) {
  return with_context([&](const Driver& driver) {
    CUDA_TEXTURE_DESC texture = {};
    if (pTexDesc == nullptr) return cudaErrorInvalidValue;
    const cudaError_t status = driver.cuTexObjectGetTextureDesc(&texture, texObject);
    if (status == cudaSuccess) *pTexDesc = runtime_texture(texture);
    return status;
  });
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* pSurfObject,
                                    const cudaResourceDesc* pResDesc) {
  return with_context([&](const Driver& driver) {
    CUDA_RESOURCE_DESC resource;
    const cudaError_t status = driver_resource(pResDesc, &resource);
    if (status != cudaSuccess) return status;
    return driver.cuSurfObjectCreate(pSurfObject, &resource);
  });
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject) {
  return with_context([&](const Driver& driver) { return driver.cuSurfObjectDestroy(surfObject); });
}

cudaError_t cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* pResDesc,
                                             cudaSurfaceObject_t surfObject) {
  return with_context([&](const Driver& driver) {
    CUDA_RESOURCE_DESC resource = {};
    if (pResDesc == nullptr) return cudaErrorInvalidValue;
    const cudaError_t status = driver.cuSurfObjectGetResourceDesc(&resource, surfObject);
    if (status == cudaSuccess) *pResDesc = runtime_resource(resource);
    return status;
  });
}
