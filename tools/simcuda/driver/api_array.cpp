// Arrays: made, taken away, and asked about. Copies are in api_copy.cpp.

#include <algorithm>
#include <utility>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/sparse.h"

namespace simcuda {
namespace {

constexpr uint64_t kRowAlign = 32;
constexpr size_t kMostElements = size_t{1} << 27;  // along one dimension
constexpr uint64_t kMostBytes = uint64_t{1} << 40;

// The faces of cube maps are layers, too.
bool has_layers(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  return (descriptor.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
}

// Six square faces, or several times these.
bool is_cube(const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
  const bool several = (wanted.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  return wanted.Width == wanted.Height && wanted.Depth != 0 &&
         (several ? wanted.Depth % 6 == 0 : wanted.Depth == 6);
}

// The shape that a descriptor asks for; CUDA_SUCCESS where there can be one.
CUresult shape_of(const CUDA_ARRAY3D_DESCRIPTOR& wanted, Image* image) {
  constexpr unsigned kKnown = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                              CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                              CUDA_ARRAY3D_SPARSE;
  constexpr unsigned kSparseCube = CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_SPARSE;
  if ((wanted.Flags & ~kKnown) != 0 || (wanted.Flags & kSparseCube) == kSparseCube) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  image->layered = has_layers(wanted);
  image->cube = (wanted.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  if (image->cube && !is_cube(wanted)) return CUDA_ERROR_INVALID_VALUE;
  if (!texel_format(wanted.Format, wanted.NumChannels, &image->format) || wanted.Width == 0 ||
      std::max({wanted.Width, wanted.Height, wanted.Depth}) > kMostElements ||
      (image->layered ? wanted.Depth == 0 : wanted.Depth != 0 && wanted.Height == 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  image->dimensions = wanted.Height == 0 ? 1 : wanted.Depth == 0 || image->layered ? 2 : 3;
  image->width = static_cast<uint32_t>(wanted.Width);
  image->height = static_cast<uint32_t>(std::max<size_t>(wanted.Height, 1));
  image->depth = static_cast<uint32_t>(std::max<size_t>(wanted.Depth, 1));
  image->pitch = round_up(image->row_bytes(), kRowAlign);
  if (image->height > kMostBytes / image->pitch) return CUDA_ERROR_INVALID_VALUE;
  image->slice = image->pitch * image->height;
  return image->depth > kMostBytes / image->slice ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool is_sparse(const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
  return (wanted.Flags & CUDA_ARRAY3D_SPARSE) != 0;
}

// `image` lies in `bytes`.
std::shared_ptr<Array> insert_array(Driver& state, Context& context,
                                    const CUDA_ARRAY3D_DESCRIPTOR& wanted, const Image& image,
                                    std::shared_ptr<std::byte> bytes) {
  auto array = std::make_shared<Array>();
  array->image = image;
  array->bytes = std::move(bytes);
  array->context = context.handle();
  array->descriptor = wanted;
  array->handle = state.arrays.arrays.reserve();
  state.arrays.arrays.insert(array->handle, array);
  return array;
}

CUresult make_array(Driver& state, Context& context, const CUDA_ARRAY3D_DESCRIPTOR& wanted,
                    std::shared_ptr<Array>* made) {
  Image image;
  if (CUresult bad = shape_of(wanted, &image); bad != CUDA_SUCCESS) return bad;
  auto bytes = state.memory.allocate_hidden(context.device(), image.slice * image.depth);
  if (!bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  image.host = bytes.get();
  *made = insert_array(state, context, wanted, image, std::move(bytes));
  return CUDA_SUCCESS;
}

// The shape of the next level: half of each dimension, but at least one element.
CUDA_ARRAY3D_DESCRIPTOR halved(CUDA_ARRAY3D_DESCRIPTOR descriptor) {
  const auto half = [](size_t size) { return size == 0 ? 0 : std::max<size_t>(size / 2, 1); };
  descriptor.Width = half(descriptor.Width);
  descriptor.Height = half(descriptor.Height);
  if (!has_layers(descriptor)) descriptor.Depth = half(descriptor.Depth);
  return descriptor;
}

bool is_single(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  return descriptor.Width == 1 && descriptor.Height <= 1 &&
         (has_layers(descriptor) || descriptor.Depth <= 1);
}

// All levels lie in one object. Levels that would be smaller than one element are not made.
CUresult make_sparse(Driver& state, Context& context, CUDA_ARRAY3D_DESCRIPTOR shape, unsigned count,
                     std::vector<std::shared_ptr<Array>>* levels,
                     std::shared_ptr<SparseArray>* made) {
  std::vector<CUDA_ARRAY3D_DESCRIPTOR> shapes;
  std::vector<Image> images;
  for (unsigned level = 0; level < count; ++level) {
    Image image;
    if (CUresult bad = shape_of(shape, &image); bad != CUDA_SUCCESS) return bad;
    if (image.dimensions == 1) return CUDA_ERROR_INVALID_VALUE;
    shapes.push_back(shape);
    images.push_back(image);
    if (is_single(shape)) break;
    shape = halved(shape);
  }
  *made = SparseArray::make(&images);
  if (*made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  for (size_t i = 0; i < images.size(); ++i) {
    const std::shared_ptr<std::byte> bytes(*made, (*made)->data());
    levels->push_back(insert_array(state, context, shapes[i], images[i], bytes));
  }
  return CUDA_SUCCESS;
}

CUresult may_allocate(Driver& state) {
  if (CUresult bad = state.captures.check_unsafe(); bad != CUDA_SUCCESS) return bad;
  return state.faults.strike(FaultPoint::kAllocation) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult create(CUarray* handle, const CUDA_ARRAY3D_DESCRIPTOR* wanted) {
  return in_context([&](Driver& state, Context& context) {
    if (handle == nullptr || wanted == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = may_allocate(state);
    if (result != CUDA_SUCCESS) return result;
    if (is_sparse(*wanted)) {
      std::vector<std::shared_ptr<Array>> levels;
      std::shared_ptr<SparseArray> sparse;
      result = make_sparse(state, context, *wanted, 1, &levels, &sparse);
      if (result != CUDA_SUCCESS) return result;
      levels.front()->sparse = std::move(sparse);
      *handle = levels.front()->handle;
      return CUDA_SUCCESS;
    }
    std::shared_ptr<Array> array;
    result = make_array(state, context, *wanted, &array);
    if (result == CUDA_SUCCESS) *handle = array->handle;
    return result;
  });
}

// Levels that would be smaller than one element are not made.
CUresult create_levels(Driver& state, Context& context, CUDA_ARRAY3D_DESCRIPTOR shape,
                       unsigned count, MipmappedArray* made) {
  if (is_sparse(shape)) {
    const CUresult result = make_sparse(state, context, shape, count, &made->levels, &made->sparse);
    for (const auto& level : made->levels) level->is_level = true;
    return result;
  }
  for (unsigned level = 0; level < count; ++level) {
    std::shared_ptr<Array> array;
    CUresult result = make_array(state, context, shape, &array);
    if (result != CUDA_SUCCESS) {
      for (const auto& there : made->levels) state.arrays.arrays.remove(there->handle);
      return result;
    }
    array->is_level = true;
    made->levels.push_back(std::move(array));
    if (is_single(shape)) break;
    shape = halved(shape);
  }
  return CUDA_SUCCESS;
}

// body(const Array&)
template <class Body>
CUresult with_array(CUarray handle, Body&& body) {
  return in_context([&](Driver& state, Context&) {
    auto array = state.arrays.arrays.find(handle);
    return array ? static_cast<CUresult>(body(*array)) : CUDA_ERROR_INVALID_HANDLE;
  });
}

}  // namespace
}  // namespace simcuda

using simcuda::Array;
using simcuda::Context;
using simcuda::Driver;
using simcuda::in_context;
using simcuda::with_array;

CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  if (descriptor == nullptr) return simcuda::create(array, nullptr);
  const CUDA_ARRAY3D_DESCRIPTOR wanted{descriptor->Width,  descriptor->Height,      0,
                                       descriptor->Format, descriptor->NumChannels, 0};
  return simcuda::create(array, &wanted);
}

CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  return simcuda::create(array, descriptor);
}

// Waits for all that is queued, as frees do.
CUresult cuArrayDestroy(CUarray handle) {
  return in_context([&](Driver& state, Context& context) {
    if (CUresult bad = state.captures.check_unsafe(); bad != CUDA_SUCCESS) return bad;
    auto array = state.arrays.arrays.find(handle);
    if (!array || array->is_level) return CUDA_ERROR_INVALID_HANDLE;
    state.wait_for_all();
    state.arrays.arrays.remove(handle);
    return context.error();
  });
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* descriptor, CUarray handle) {
  return with_array(handle, [&](const Array& array) {
    if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR& known = array.descriptor;
    *descriptor = {known.Width, known.Height, known.Format, known.NumChannels};
    return CUDA_SUCCESS;
  });
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray handle) {
  return with_array(handle, [&](const Array& array) {
    if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *descriptor = array.descriptor;
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                unsigned levels) {
  return in_context([&](Driver& state, Context& context) {
    if (array == nullptr || descriptor == nullptr || levels == 0) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult bad = simcuda::may_allocate(state); bad != CUDA_SUCCESS) return bad;
    auto made = std::make_shared<simcuda::MipmappedArray>();
    made->context = context.handle();
    CUresult result = simcuda::create_levels(state, context, *descriptor, levels, made.get());
    if (result != CUDA_SUCCESS) return result;
    *array = state.arrays.mipmapped.reserve();
    state.arrays.mipmapped.insert(*array, std::move(made));
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayGetLevel(CUarray* level, CUmipmappedArray array, unsigned number) {
  return in_context([&](Driver& state, Context&) {
    auto found = state.arrays.mipmapped.find(array);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    if (level == nullptr || number >= found->levels.size()) return CUDA_ERROR_INVALID_VALUE;
    *level = found->levels[number]->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return in_context([&](Driver& state, Context& context) {
    if (CUresult bad = state.captures.check_unsafe(); bad != CUDA_SUCCESS) return bad;
    auto found = state.arrays.mipmapped.find(array);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    state.wait_for_all();
    state.arrays.mipmapped.remove(array);
    for (const auto& level : found->levels) state.arrays.arrays.remove(level->handle);
    return context.error();
  });
}
