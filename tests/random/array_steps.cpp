// Arrays of words, of one dimension or two, some of them levels of mipmapped arrays; copies from
// and to them, and kernels that read them as textures and change them as surfaces.
#include <cstring>

#include "tests/random/caller.h"

namespace calls {

namespace {

constexpr size_t kMostArrays = 4;

// The side of a copy that is an array.
template <class Box>
void from_array(Box& box, CUarray array) {
  box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  box.srcArray = array;
}
template <class Box>
void to_array(Box& box, CUarray array) {
  box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  box.dstArray = array;
}

CUDA_TEXTURE_DESC points_of_whole_numbers() {
  CUDA_TEXTURE_DESC description{};
  for (CUaddress_mode& mode : description.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
  description.filterMode = CU_TR_FILTER_MODE_POINT;
  description.flags = CU_TRSF_READ_AS_INTEGER;
  return description;
}

}  // namespace

void Caller::array_step() {
  switch (draw_.below(10)) {
    case 0:
      if (arrays_.size() < kMostArrays) make_array();
      return;
    case 1:
      if (arrays_.size() > 1) drop_array(draw_.below(arrays_.size()));
      return;
    case 2:
      return fill_array();
    case 3:
      return copy_array_to_memory();
    case 4:
      return copy_array_from_memory();
    case 5:
      return copy_array_to_array();
    case 6:
      return look_at_array(pick_array());
    case 7:
      return surface_step();
    case 8:
      return texture_step();
    default:
      return line_texture_step();
  }
}

Caller::Array& Caller::make_array() {
  Array& array = arrays_.emplace_back();
  array.width = draw_.between(4, 90);
  array.height = draw_.chance(70) ? draw_.between(1, 40) : 0;
  array.surface = array.height != 0 && draw_.chance(60);
  auto order = std::make_unique<Memory>();
  order->size = array.bytes();
  array.order = order.get();
  others_.push_back(std::move(order));
  const unsigned flags = array.surface ? CUDA_ARRAY3D_SURFACE_LDST : 0;
  const CUDA_ARRAY3D_DESCRIPTOR shape{array.width, array.height, 0, CU_AD_FORMAT_UNSIGNED_INT32,
                                      1,           flags};
  const CUDA_ARRAY_DESCRIPTOR plain{array.width, array.height, CU_AD_FORMAT_UNSIGNED_INT32, 1};
  if (array.height != 0 && draw_.chance(30)) {
    make_levels(array);
  } else if (flags == 0 && draw_.chance(50)) {
    CHECK(cuArrayCreate_v2(&array.array, &plain));
  } else {
    CHECK(cuArray3DCreate_v2(&array.array, &shape));
  }
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array.array;
  const CUDA_TEXTURE_DESC points = points_of_whole_numbers();
  if (array.height != 0) CHECK(cuTexObjectCreate(&array.texture, &resource, &points, nullptr));
  if (array.surface) CHECK(cuSurfObjectCreate(&array.handle, &resource));
  // Nothing is read that was not written.
  CUDA_MEMCPY2D box{};
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = host_bytes(array.bytes()).data();
  box.srcPitch = box.WidthInBytes = array.width * 4;
  box.Height = array.rows();
  to_array(box, array.array);
  const CUstream stream = pick_stream();
  touch(*array.order, stream);
  IN_STREAM(cuMemcpy2DAsync_v2, stream, &box);
  return array;
}

// The last level of a mipmapped array.
void Caller::make_levels(Array& array) {
  const unsigned flags = array.surface ? CUDA_ARRAY3D_SURFACE_LDST : 0;
  const auto levels = static_cast<unsigned>(draw_.between(1, 2));
  const CUDA_ARRAY3D_DESCRIPTOR shape{array.width << (levels - 1),
                                      array.height << (levels - 1),
                                      0,
                                      CU_AD_FORMAT_UNSIGNED_INT32,
                                      1,
                                      flags};
  CHECK(cuMipmappedArrayCreate(&array.whole, &shape, levels));
  CHECK(cuMipmappedArrayGetLevel(&array.array, array.whole, levels - 1));
}

void Caller::drop_array(size_t at) {
  Array& array = arrays_[at];
  wait_for(*array.order);
  if (array.texture != 0) CHECK(cuTexObjectDestroy(array.texture));
  if (array.handle != 0) CHECK(cuSurfObjectDestroy(array.handle));
  CHECK(array.whole != nullptr ? cuMipmappedArrayDestroy(array.whole)
                               : cuArrayDestroy(array.array));
  drop(*array.order);
  arrays_.erase(arrays_.begin() + static_cast<std::ptrdiff_t>(at));
}

Caller::Array& Caller::pick_array() {
  return arrays_.empty() ? make_array() : arrays_[draw_.below(arrays_.size())];
}

// From the host, a part of it.
void Caller::fill_array() {
  Array& array = pick_array();
  if (array.height == 0 && draw_.chance(60)) return copy_line(array);
  const bool async = draw_.chance(60);
  const CUstream stream = async ? pick_stream() : pick_default();
  touch(*array.order, stream);
  CUDA_MEMCPY3D box{};
  const uint64_t first = draw_.below(array.width), row = draw_.below(array.rows());
  box.WidthInBytes = draw_.between(1, array.width - first) * 4;
  box.Height = draw_.between(1, array.rows() - row);
  box.Depth = 1;
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcPitch = box.WidthInBytes;
  box.srcHeight = box.Height;
  box.srcHost = host_bytes(box.srcPitch * box.Height).data();
  to_array(box, array.array);
  box.dstXInBytes = first * 4;
  box.dstY = row;
  if (async) return IN_STREAM(cuMemcpy3DAsync_v2, stream, &box);
  AT_ONCE(cuMemcpy3D_v2, stream, &box);
}

// The copies that know arrays of one dimension only.
void Caller::copy_line(Array& array) {
  const uint64_t first = draw_.below(array.width) * 4;
  const uint64_t size = draw_.between(1, array.width - first / 4) * 4;
  const CUstream stream = pick_default();
  touch(*array.order, stream);
  const void* bytes = host_bytes(size).data();
  if (draw_.chance(50)) {
    return IN_STREAM(cuMemcpyHtoAAsync_v2, stream, array.array, first, bytes, size);
  }
  AT_ONCE(cuMemcpyHtoA_v2, stream, array.array, first, bytes, size);
}

void Caller::copy_array_to_memory() {
  Array& array = pick_array();
  const Part to = pick_part(pick_memory());
  const bool async = draw_.chance(60);
  const CUstream stream = async && array.height != 0 ? pick_stream() : pick_default();
  touch(*array.order, stream);
  touch(*to.memory, stream);
  if (array.height == 0) {
    return AT_ONCE(cuMemcpyAtoD_v2, stream, to.address, array.array, 0,
                   std::min<uint64_t>(to.size, array.bytes()));
  }
  CUDA_MEMCPY2D box{};
  from_array(box, array.array);
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = to.address;
  box.WidthInBytes = std::min<uint64_t>(array.width * 4, to.size);
  box.dstPitch = box.WidthInBytes;
  box.Height = std::min<uint64_t>(array.height, to.size / box.dstPitch);
  if (async) return IN_STREAM(cuMemcpy2DAsync_v2, stream, &box);
  AT_ONCE(cuMemcpy2D_v2, stream, &box);
}

void Caller::copy_array_from_memory() {
  Array& array = pick_array();
  const Part from = pick_part(pick_memory());
  const bool async = draw_.chance(60);
  const CUstream stream = async && array.height != 0 ? pick_stream() : pick_default();
  touch(*array.order, stream);
  touch(*from.memory, stream);
  if (array.height == 0) {
    return AT_ONCE(cuMemcpyDtoA_v2, stream, array.array, 0, from.address,
                   std::min<uint64_t>(from.size, array.bytes()));
  }
  CUDA_MEMCPY2D box{};
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = from.address;
  to_array(box, array.array);
  box.WidthInBytes = std::min<uint64_t>(array.width * 4, from.size);
  box.srcPitch = box.WidthInBytes;
  box.Height = std::min<uint64_t>(array.height, from.size / box.srcPitch);
  if (async) return IN_STREAM(cuMemcpy2DAsync_v2, stream, &box);
  AT_ONCE(cuMemcpy2DUnaligned_v2, stream, &box);
}

void Caller::copy_array_to_array() {
  Array &from = pick_array(), &to = pick_array();
  if (&from == &to) return;
  const bool lines = from.height == 0 && to.height == 0;
  const CUstream stream = lines ? pick_default() : pick_stream();
  touch(*from.order, stream);
  touch(*to.order, stream);
  const uint64_t width = std::min(from.width, to.width) * 4;
  if (lines) return AT_ONCE(cuMemcpyAtoA_v2, stream, to.array, 0, from.array, 0, width);
  CUDA_MEMCPY3D box{};
  from_array(box, from.array);
  to_array(box, to.array);
  box.WidthInBytes = width;
  box.Height = std::min(from.rows(), to.rows());
  box.Depth = 1;
  IN_STREAM(cuMemcpy3DAsync_v2, stream, &box);
}

// At once, or by a letter.
void Caller::look_at_array(Array& array) {
  const bool async = draw_.chance(50);
  const CUstream stream = async ? pick_stream() : pick_default();
  touch(*array.order, stream);
  std::vector<unsigned char> bytes(array.bytes());
  Letter* const letter = async ? &new_letter(array.bytes(), stream) : nullptr;
  unsigned char* const to = async ? letter->bytes : bytes.data();
  CUDA_MEMCPY2D box{};
  from_array(box, array.array);
  box.dstMemoryType = CU_MEMORYTYPE_HOST;
  box.dstHost = to;
  box.dstPitch = box.WidthInBytes = array.width * 4;
  box.Height = array.rows();
  if (!async) {
    if (array.height == 0) {
      AT_ONCE(cuMemcpyAtoH_v2, stream, to, array.array, 0, bytes.size());
    } else {
      AT_ONCE(cuMemcpy2D_v2, stream, &box);
    }
    return see(bytes.data(), bytes.size());
  }
  if (array.height == 0) {
    IN_STREAM(cuMemcpyAtoHAsync_v2, stream, to, array.array, 0, array.bytes());
  } else {
    IN_STREAM(cuMemcpy2DAsync_v2, stream, &box);
  }
  CHECK(cuEventCreate(&letter->sent, CU_EVENT_DEFAULT));
  CHECK(cuEventRecord(letter->sent, stream));
}

void Caller::surface_step() {
  Array& array = pick_array();
  if (!array.surface) return;
  need_library();
  const CUstream stream = pick_stream();
  const auto width = static_cast<unsigned>(array.width),
             height = static_cast<unsigned>(array.height);
  const unsigned value = draw_.word();
  touch(*array.order, stream);
  Memory& memory = pick_memory();
  if (memory.size < 8 || memory.address % 8 != 0 || draw_.chance(50)) {
    return launch_handle(kernel_of_library("change_surface"), stream, array.bytes() / 4,
                         array.handle, width, height, value);
  }
  auto& bytes = host_bytes(8);
  std::memcpy(bytes.data(), &array.handle, 8);
  touch(memory, stream);
  IN_STREAM(cuMemcpyHtoDAsync_v2, stream, memory.address, bytes.data(), 8);
  if (draw_.chance(50)) wait_for(stream);
  touch(memory, stream);
  touch(*array.order, stream);
  launch_handle(kernel_of_library("change_surface_behind"), stream, array.bytes() / 4,
                memory.address, width, height, value);
  // A handle may be another one in another run, and must not come into what the program computes.
  IN_STREAM(cuMemsetD8Async, stream, memory.address, static_cast<unsigned char>(3), 8);
}

void Caller::texture_step() {
  Array& array = pick_array();
  if (array.texture == 0) return;
  need_library();
  const CUstream stream = pick_stream();
  const Part to = pick_part(pick_memory());
  const auto count = static_cast<unsigned>(std::min<uint64_t>(to.words(), array.bytes() / 4));
  touch(*array.order, stream);
  touch(*to.memory, stream);
  launch_handle(kernel_of_library("read_texture"), stream, count, array.texture,
                static_cast<unsigned>(array.width), to.address, count);
}

// A texture of linear memory, of this step alone. It must begin at a multiple of the device's
// alignment; whether memory of the program does depends on its addresses in this run.
void Caller::line_texture_step() {
  constexpr uint64_t kAlignment = 512;
  const auto [from, to] = pick_two();
  if (from.memory == nullptr) return;
  need_library();
  Memory& line = own_memory(from.size + kAlignment);
  const CUdeviceptr start = (line.address + kAlignment - 1) / kAlignment * kAlignment;
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {start, CU_AD_FORMAT_UNSIGNED_INT32, 1, from.size};
  const CUDA_TEXTURE_DESC points = points_of_whole_numbers();
  CUtexObject texture = 0;
  CHECK(cuTexObjectCreate(&texture, &resource, &points, nullptr));
  const CUstream stream = pick_stream();
  touch(*from.memory, stream);
  touch(*to.memory, stream);
  IN_STREAM(cuMemcpyDtoDAsync_v2, stream, start, from.address, from.size);
  const unsigned count = std::min(to.words(), from.words());
  launch_handle(kernel_of_library("read_line"), stream, count, texture, to.address, count);
  wait_for(stream);
  CHECK(cuTexObjectDestroy(texture));
  drop(line);
}

}  // namespace calls
