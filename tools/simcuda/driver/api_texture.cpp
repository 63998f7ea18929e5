// Texture and surface objects.

#include <cstring>
#include <utility>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

constexpr size_t kMostElements = size_t{1} << 28;
constexpr uint64_t kLinearAlign = 512;
constexpr uint64_t kPitchAlign = 32;

CUresult sampler_of(const CUDA_TEXTURE_DESC& description, Sampler* sampler) {
  constexpr unsigned kKnown = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                              CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION;
  if ((description.flags & ~kKnown) != 0 || description.maxAnisotropy > 1) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  for (int d = 0; d < 3; ++d) {
    if (description.addressMode[d] > CU_TR_ADDRESS_MODE_BORDER) return CUDA_ERROR_INVALID_VALUE;
    sampler->mode[d] = static_cast<AddressMode>(description.addressMode[d]);
  }
  if (description.filterMode > CU_TR_FILTER_MODE_LINEAR ||
      description.mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  sampler->linear = description.filterMode == CU_TR_FILTER_MODE_LINEAR;
  sampler->linear_levels = description.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  sampler->normalized = (description.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  sampler->as_integer = (description.flags & CU_TRSF_READ_AS_INTEGER) != 0;
  sampler->level_bias = description.mipmapLevelBias;
  sampler->least_level = description.minMipmapLevelClamp;
  sampler->greatest_level = description.maxMipmapLevelClamp;
  std::memcpy(sampler->border, description.borderColor, sizeof sampler->border);
  return CUDA_SUCCESS;
}

// Device memory as an image, read in rows.
CUresult image_of_memory(Driver& state, const CUDA_RESOURCE_DESC& resource, Image* image) {
  const bool linear = resource.resType == CU_RESOURCE_TYPE_LINEAR;
  const auto& row = resource.res.linear;
  const auto& rows = resource.res.pitch2D;
  if (!texel_format(linear ? row.format : rows.format, linear ? row.numChannels : rows.numChannels,
                    &image->format)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t width = linear ? row.sizeInBytes / image->format.bytes() : rows.width;
  const size_t height = linear ? 1 : rows.height;
  image->address = linear ? row.devPtr : rows.devPtr;
  if (width == 0 || height == 0 || width > kMostElements || height > kMostElements ||
      image->address % kLinearAlign != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  image->dimensions = linear ? 1 : 2;
  image->width = static_cast<uint32_t>(width);
  image->height = static_cast<uint32_t>(height);
  image->pitch = linear ? image->row_bytes() : rows.pitchInBytes;
  if (!linear && (image->pitch % kPitchAlign != 0 || image->pitch < image->row_bytes() ||
                  image->pitch > (uint64_t{1} << 32))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  image->slice = image->pitch * height;
  auto hold = state.memory.hold();
  return state.memory.resolve(hold, image->address, image->span()) != nullptr
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

// Binds the texture to its resource; `image` becomes its shape.
CUresult bind(Driver& state, TextureObject* texture, Image* image) {
  const CUDA_RESOURCE_DESC& resource = texture->resource;
  if (resource.resType == CU_RESOURCE_TYPE_ARRAY) {
    auto array = state.arrays.arrays.find(resource.res.array.hArray);
    if (!array) return CUDA_ERROR_INVALID_VALUE;
    *image = array->image;
    texture->levels.push_back(array);
    return CUDA_SUCCESS;
  }
  if (resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    auto array = state.arrays.mipmapped.find(resource.res.mipmap.hMipmappedArray);
    if (!array) return CUDA_ERROR_INVALID_VALUE;
    *image = array->levels.front()->image;
    texture->levels.assign(array->levels.begin(), array->levels.end());
    return CUDA_SUCCESS;
  }
  if (resource.resType != CU_RESOURCE_TYPE_LINEAR && resource.resType != CU_RESOURCE_TYPE_PITCH2D) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult bad = image_of_memory(state, resource, &texture->memory); bad != CUDA_SUCCESS) {
    return bad;
  }
  *image = texture->memory;
  if (resource.resType == CU_RESOURCE_TYPE_LINEAR) texture->sampler.linear = false;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult describe_texture(Driver& state, CUcontext context, const CUDA_RESOURCE_DESC& resource,
                          const CUDA_TEXTURE_DESC& description, TextureObject* out) {
  TextureObject texture;
  texture.context = context;
  texture.resource = resource;
  texture.description = description;
  if (resource.flags != 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = sampler_of(description, &texture.sampler);
  Image image;
  if (result == CUDA_SUCCESS) result = bind(state, &texture, &image);
  if (result != CUDA_SUCCESS) return result;
  const Sampler& sampler = texture.sampler;
  // Where a direction meets a face is told from 0 to 1.
  if (image.cube && !sampler.normalized) return CUDA_ERROR_NOT_SUPPORTED;
  // Integers are not filtered, and have no border but zero.
  bool border = false;
  for (float part : sampler.border) border = border || part != 0;
  if (!gives_floats(image.format, sampler)) {
    if (sampler.linear) return CUDA_ERROR_INVALID_VALUE;
    if (border) return CUDA_ERROR_NOT_SUPPORTED;
  }
  *out = std::move(texture);
  return CUDA_SUCCESS;
}

namespace {

// body(const TextureObject&)
template <class Body>
CUresult with_texture(CUtexObject handle, Body&& body) {
  return in_context([&](Driver& state, Context&) {
    TextureObject texture;
    if (!state.arrays.find(handle, &texture)) return CUDA_ERROR_INVALID_VALUE;
    return static_cast<CUresult>(body(texture));
  });
}

}  // namespace
}  // namespace simcuda

using simcuda::Context;
using simcuda::Driver;
using simcuda::in_context;
using simcuda::TextureObject;
using simcuda::with_texture;

CUresult cuTexObjectCreate(CUtexObject* object, const CUDA_RESOURCE_DESC* resource,
                           const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  return in_context([&](Driver& state, Context& context) {
    if (object == nullptr || resource == nullptr || texture == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (view != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    simcuda::TextureObject made;
    const CUresult result =
        simcuda::describe_texture(state, context.handle(), *resource, *texture, &made);
    if (result == CUDA_SUCCESS) *object = state.arrays.add(std::move(made));
    return result;
  });
}

CUresult cuTexObjectDestroy(CUtexObject object) {
  return in_context([&](Driver& state, Context&) {
    return state.arrays.remove(object) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUtexObject object) {
  return with_texture(object, [&](const TextureObject& texture) {
    if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *resource = texture.resource;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* description, CUtexObject object) {
  return with_texture(object, [&](const TextureObject& texture) {
    if (description == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *description = texture.description;
    return CUDA_SUCCESS;
  });
}

// No texture has a view of its own.
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC*, CUtexObject object) {
  return with_texture(object, [](const TextureObject&) { return CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuSurfObjectCreate(CUsurfObject* object, const CUDA_RESOURCE_DESC* resource) {
  return in_context([&](Driver& state, Context& context) {
    if (object == nullptr || resource == nullptr || resource->flags != 0 ||
        resource->resType != CU_RESOURCE_TYPE_ARRAY) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto array = state.arrays.arrays.find(resource->res.array.hArray);
    if (!array || (array->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *object = state.arrays.add(simcuda::SurfaceObject{context.handle(), *resource, array});
    return CUDA_SUCCESS;
  });
}

CUresult cuSurfObjectDestroy(CUsurfObject object) {
  return in_context([&](Driver& state, Context&) {
    return state.arrays.remove_surface(object) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUsurfObject object) {
  return in_context([&](Driver& state, Context&) {
    simcuda::SurfaceObject surface;
    if (resource == nullptr || !state.arrays.find_surface(object, &surface)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *resource = surface.resource;
    return CUDA_SUCCESS;
  });
}
