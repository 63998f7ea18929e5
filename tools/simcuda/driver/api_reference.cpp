// Texture and surface references: what a module's code names, and the program binds to memory and
// arrays. To kernels each is an object like any other, whose handle is the reference's address.

#include <algorithm>
#include <utility>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

constexpr unsigned kOverrideFormat = 1;  // CU_TRSA_OVERRIDE_FORMAT
constexpr uint64_t kAddressAlign = 512;

// Sets the texture that kernels launched from now on fetch from.
void bind(Driver& state, const TextureReference& reference) {
  if (reference.object == 0) return;  // of no module
  CUDA_RESOURCE_DESC resource = reference.resource;
  if (resource.resType == CU_RESOURCE_TYPE_LINEAR) {
    resource.res.linear.format = reference.format;
    resource.res.linear.numChannels = reference.channels;
  }
  TextureObject texture;
  const bool bound =
      reference.bound && describe_texture(state, reference.context, resource, reference.description,
                                          &texture) == CUDA_SUCCESS;
  if (bound) {
    state.arrays.put(reference.object, std::move(texture));
  } else {
    state.arrays.remove(reference.object);
  }
}

// body(TextureReference&) changes it.
template <class Body>
CUresult change(CUtexref handle, Body&& body) {
  return in_context([&](Driver& state, Context&) {
    const auto reference = state.texture_references.find(handle);
    if (!reference) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(reference->mutex);
    const auto result = static_cast<CUresult>(body(*reference));
    if (result == CUDA_SUCCESS) bind(state, *reference);
    return result;
  });
}

template <class Body>
CUresult ask(CUtexref handle, Body&& body) {
  return in_context([&](Driver& state, Context&) {
    const auto reference = state.texture_references.find(handle);
    if (!reference) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(reference->mutex);
    return static_cast<CUresult>(body(*reference));
  });
}

// Null names nothing any more.
CUresult bind_to(TextureReference& reference, const CUDA_RESOURCE_DESC& resource, bool bound) {
  reference.resource = resource;
  reference.bound = bound;
  return CUDA_SUCCESS;
}

template <class References, class Handle>
CUresult find_in(CUmodule module_handle, const char* name, const References Module::*references,
                 Handle* out) {
  return in_context([&](Driver& state, Context&) {
    const auto module = state.modules.find(module_handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto found = ((*module).*references).find(std::string_view(name));
    if (found == ((*module).*references).end()) return CUDA_ERROR_NOT_FOUND;
    *out = found->second;
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace simcuda

using simcuda::ask;
using simcuda::bind_to;
using simcuda::change;
using simcuda::Context;
using simcuda::Driver;
using simcuda::in_context;
using simcuda::Module;
using simcuda::TextureReference;

CUresult cuModuleGetTexRef(CUtexref* reference, CUmodule module, const char* name) {
  return simcuda::find_in(module, name, &Module::textures, reference);
}

CUresult cuModuleGetSurfRef(CUsurfref* reference, CUmodule module, const char* name) {
  return simcuda::find_in(module, name, &Module::surfaces, reference);
}

CUresult cuTexRefCreate(CUtexref* out) {
  return in_context([&](Driver& state, Context& context) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto reference = std::make_shared<TextureReference>();
    reference->context = context.handle();
    *out = state.texture_references.reserve();
    state.texture_references.insert(*out, std::move(reference));
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefDestroy(CUtexref handle) {
  return in_context([&](Driver& state, Context&) {
    const auto reference = state.texture_references.find(handle);
    // A module's goes with it.
    if (!reference || reference->object != 0) return CUDA_ERROR_INVALID_VALUE;
    state.texture_references.remove(handle);
    return CUDA_SUCCESS;
  });
}

// The code's own references are there for its kernels anyway.
CUresult cuParamSetTexRef(CUfunction function, int, CUtexref handle) {
  return in_context([&](Driver& state, Context&) {
    if (!state.functions.find(function)) return CUDA_ERROR_INVALID_HANDLE;
    return state.texture_references.find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuTexRefSetArray(CUtexref reference, CUarray array, unsigned flags) {
  return change(reference, [&](TextureReference& changed) {
    if (flags != simcuda::kOverrideFormat) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    return bind_to(changed, resource, array != nullptr);
  });
}

CUresult cuTexRefSetMipmappedArray(CUtexref reference, CUmipmappedArray array, unsigned flags) {
  return change(reference, [&](TextureReference& changed) {
    if (flags != simcuda::kOverrideFormat) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    resource.res.mipmap.hMipmappedArray = array;
    return bind_to(changed, resource, array != nullptr);
  });
}

// From an aligned address on: the program is told how far its own is behind that.
CUresult cuTexRefSetAddress_v2(size_t* offset, CUtexref reference, CUdeviceptr address,
                               size_t size) {
  return change(reference, [&](TextureReference& changed) {
    const size_t behind = address % simcuda::kAddressAlign;
    if (behind != 0 && offset == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (offset != nullptr) *offset = behind;
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = address - behind;
    resource.res.linear.sizeInBytes = size + behind;
    return bind_to(changed, resource, address != 0);
  });
}

CUresult cuTexRefSetAddress2D_v3(CUtexref reference, const CUDA_ARRAY_DESCRIPTOR* descriptor,
                                 CUdeviceptr address, size_t pitch) {
  return change(reference, [&](TextureReference& changed) {
    if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    resource.res.pitch2D = {address,           descriptor->Format, descriptor->NumChannels,
                            descriptor->Width, descriptor->Height, pitch};
    return bind_to(changed, resource, address != 0);
  });
}

// For memory in one dimension: arrays and rows have a format of their own.
CUresult cuTexRefSetFormat(CUtexref reference, CUarray_format format, int channels) {
  return change(reference, [&](TextureReference& changed) {
    simcuda::TexelFormat texel;
    if (channels < 0 || !simcuda::texel_format(format, static_cast<unsigned>(channels), &texel)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    changed.format = format;
    changed.channels = static_cast<unsigned>(channels);
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetAddressMode(CUtexref reference, int dimension, CUaddress_mode mode) {
  return change(reference, [&](TextureReference& changed) {
    if (dimension < 0 || dimension > 2 || mode > CU_TR_ADDRESS_MODE_BORDER) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    changed.description.addressMode[dimension] = mode;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetFilterMode(CUtexref reference, CUfilter_mode mode) {
  return change(reference, [&](TextureReference& changed) {
    if (mode > CU_TR_FILTER_MODE_LINEAR) return CUDA_ERROR_INVALID_VALUE;
    changed.description.filterMode = mode;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref reference, CUfilter_mode mode) {
  return change(reference, [&](TextureReference& changed) {
    if (mode > CU_TR_FILTER_MODE_LINEAR) return CUDA_ERROR_INVALID_VALUE;
    changed.description.mipmapFilterMode = mode;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref reference, float bias) {
  return change(reference, [&](TextureReference& changed) {
    changed.description.mipmapLevelBias = bias;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref reference, float least, float greatest) {
  return change(reference, [&](TextureReference& changed) {
    changed.description.minMipmapLevelClamp = least;
    changed.description.maxMipmapLevelClamp = greatest;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref reference, unsigned most) {
  return change(reference, [&](TextureReference& changed) {
    if (most > 1) return CUDA_ERROR_NOT_SUPPORTED;
    changed.description.maxAnisotropy = most;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetBorderColor(CUtexref reference, float* color) {
  return change(reference, [&](TextureReference& changed) {
    if (color == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::copy_n(color, 4, changed.description.borderColor);
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetFlags(CUtexref reference, unsigned flags) {
  return change(reference, [&](TextureReference& changed) {
    if ((flags & ~(CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES)) != 0) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    changed.description.flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefGetArray(CUarray* array, CUtexref reference) {
  return ask(reference, [&](const TextureReference& asked) {
    const bool is_array = asked.bound && asked.resource.resType == CU_RESOURCE_TYPE_ARRAY;
    if (array == nullptr || !is_array) return CUDA_ERROR_INVALID_VALUE;
    *array = asked.resource.res.array.hArray;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefGetFlags(unsigned* flags, CUtexref reference) {
  return ask(reference, [&](const TextureReference& asked) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = asked.description.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuSurfRefSetArray(CUsurfref handle, CUarray array_handle, unsigned flags) {
  return in_context([&](Driver& state, Context& context) {
    const auto reference = state.surface_references.find(handle);
    const auto array = state.arrays.arrays.find(array_handle);
    if (!reference || !array || flags != 0 ||
        (array->descriptor.Flags & CUDA_ARRAY3D_SURFACE_LDST) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array_handle;
    state.arrays.put(reference->object, simcuda::SurfaceObject{context.handle(), resource, array});
    return CUDA_SUCCESS;
  });
}

CUresult cuSurfRefGetArray(CUarray* array, CUsurfref handle) {
  return in_context([&](Driver& state, Context&) {
    const auto reference = state.surface_references.find(handle);
    simcuda::SurfaceObject surface;
    if (array == nullptr || !reference || !state.arrays.find_surface(reference->object, &surface)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *array = surface.resource.res.array.hArray;
    return CUDA_SUCCESS;
  });
}
