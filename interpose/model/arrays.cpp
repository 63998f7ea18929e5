#include "interpose/model/arrays.h"

#include <algorithm>
#include <utility>

namespace gpusnap {

namespace {
constexpr uint64_t kRowAlign = 32;
constexpr uint64_t kLevelAlign = 512;
constexpr unsigned kMostLevels = 1u << 8;  // in the key of a level's handle

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The size of one channel; 0: not a format that is known.
uint64_t channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

bool has_layers(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return (shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
}

// Half of each dimension, as CUDA has the next level of a mipmapped array.
CUDA_ARRAY3D_DESCRIPTOR halved(CUDA_ARRAY3D_DESCRIPTOR shape) {
  const auto half = [](size_t size) { return size == 0 ? 0 : std::max<size_t>(size / 2, 1); };
  shape.Width = half(shape.Width);
  shape.Height = half(shape.Height);
  if (!has_layers(shape)) shape.Depth = half(shape.Depth);
  return shape;
}

bool is_single(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return shape.Width <= 1 && shape.Height <= 1 && (has_layers(shape) || shape.Depth <= 1);
}
}  // namespace

std::string Arrays::not_followed(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  constexpr unsigned kFollowed = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                 CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                                 CUDA_ARRAY3D_SPARSE;
  if (channel_bytes(shape.Format) == 0) {
    return "an array of format " + std::to_string(static_cast<unsigned>(shape.Format));
  }
  if ((shape.Flags & ~kFollowed) != 0) {
    return "an array that is mapped later or shared with graphics";
  }
  return {};
}

void Arrays::add(CUarray array, const CUDA_ARRAY3D_DESCRIPTOR& shape, CUcontext context) {
  Array fresh;
  fresh.handle = array;
  fresh.context = context;
  by_handle_[array] = {count_ + 1, 0};
  add(std::move(fresh), shape, 1);
}

void Arrays::add(CUmipmappedArray array, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels,
                 CUcontext context) {
  Array fresh;
  fresh.mipmapped = array;
  fresh.context = context;
  by_mipmapped_[array] = count_ + 1;
  add(std::move(fresh), shape, std::max(levels, 1u));
}

void Arrays::add(Array array, CUDA_ARRAY3D_DESCRIPTOR shape, unsigned levels) {
  if ((shape.Flags & CUDA_ARRAY3D_SPARSE) != 0) levels = 0;
  for (unsigned number = 0; number < levels; ++number) {
    Level level;
    level.width = shape.Width * channel_bytes(shape.Format) * shape.NumChannels;
    level.height = std::max<size_t>(shape.Height, 1);
    level.depth = std::max<size_t>(shape.Depth, 1);
    level.pitch = round_up(level.width, kRowAlign);
    level.offset = array.bytes;
    array.levels.push_back(level);
    array.bytes = round_up(level.offset + level.pitch * level.height * level.depth, kLevelAlign);
    if (is_single(shape)) break;
    shape = halved(shape);
  }
  arrays_.emplace(++count_, std::move(array));
}

void Arrays::add_level(CUarray handle, CUmipmappedArray array, unsigned level) {
  const auto found = by_mipmapped_.find(array);
  if (found != by_mipmapped_.end()) by_handle_[handle] = {found->second, level};
}

void Arrays::remove(CUarray array) {
  const auto found = by_handle_.find(array);
  if (found != by_handle_.end()) retire(found->second.number);
}

void Arrays::remove(CUmipmappedArray array) {
  const auto found = by_mipmapped_.find(array);
  if (found != by_mipmapped_.end()) retire(found->second);
}

void Arrays::retire(uint32_t number) {
  const auto found = arrays_.find(number);
  if (found == arrays_.end()) return;
  if (found->second.copy.address != 0) {
    retired_.emplace_back(found->second.context, found->second.copy);
  }
  arrays_.erase(found);
  std::erase_if(by_handle_, [&](const auto& entry) { return entry.second.number == number; });
  std::erase_if(by_mipmapped_, [&](const auto& entry) { return entry.second == number; });
}

uint64_t Arrays::known(CUarray array) const {
  const auto found = by_handle_.find(array);
  if (found == by_handle_.end()) return 0;
  return uint64_t{found->second.number} * kMostLevels + found->second.level;
}

uint64_t Arrays::known(CUmipmappedArray array) const {
  const auto found = by_mipmapped_.find(array);
  return found == by_mipmapped_.end() ? 0 : uint64_t{found->second} * kMostLevels;
}

uint32_t Arrays::number_of(CUarray array) const {
  const auto found = by_handle_.find(array);
  return found == by_handle_.end() ? 0 : found->second.number;
}

uint32_t Arrays::number_of(CUmipmappedArray array) const {
  const auto found = by_mipmapped_.find(array);
  return found == by_mipmapped_.end() ? 0 : found->second;
}

Status Arrays::make_copies() {
  for (const auto& [context, copy] : std::exchange(retired_, {})) {
    memory_.erase(copy.address);
    const CurrentContext current(driver_, context);
    unmap_memory(driver_, copy);
  }
  for (auto& [number, array] : arrays_) {
    if (array.copy.address != 0 || array.levels.empty()) continue;
    if (Status status = make_copy(number, array); !status.ok()) return status;
  }
  return {};
}

Status Arrays::make_copy(uint32_t number, Array& array) {
  const CurrentContext current(driver_, array.context);
  CUdevice device = 0;
  (void)driver_.cuCtxGetDevice(&device);
  const Result<uint64_t> granularity = mapping_granularity(driver_, device);
  if (!granularity.ok()) return granularity.status();
  auto copy = map_memory(driver_, device, round_up(array.bytes, granularity.value()), 0);
  if (!copy.ok()) {
    return {Code::kNoSpace, "an array cannot be saved without as much device memory for a copy: " +
                                copy.status().message()};
  }
  MemoryRange range;
  range.address = copy.value().address;
  range.size = array.bytes;
  range.kind = MemoryKind::kArray;
  range.identity.ordinal = number;
  range.context = reinterpret_cast<uint64_t>(array.context);
  if (!memory_.insert(std::move(range))) {
    unmap_memory(driver_, copy.value());
    return {Code::kUnsupported, "the driver gave an address twice"};
  }
  array.copy = copy.value();
  return {};
}

CUresult Arrays::copy_level(Direction direction, const Array& array, size_t number,
                            CUstream stream) const {
  const Level& level = array.levels[number];
  CUarray handle = array.handle;
  if (handle == nullptr) {
    const CUresult found =
        driver_.cuMipmappedArrayGetLevel(&handle, array.mipmapped, static_cast<unsigned>(number));
    if (found != CUDA_SUCCESS) return found;
  }
  CUDA_MEMCPY3D copy{};
  copy.WidthInBytes = level.width;
  copy.Height = level.height;
  copy.Depth = level.depth;
  const bool from_array = direction == Direction::kToCopies;
  (from_array ? copy.srcMemoryType : copy.dstMemoryType) = CU_MEMORYTYPE_ARRAY;
  (from_array ? copy.srcArray : copy.dstArray) = handle;
  (from_array ? copy.dstMemoryType : copy.srcMemoryType) = CU_MEMORYTYPE_DEVICE;
  (from_array ? copy.dstDevice : copy.srcDevice) = array.copy.address + level.offset;
  (from_array ? copy.dstPitch : copy.srcPitch) = level.pitch;
  (from_array ? copy.dstHeight : copy.srcHeight) = level.height;
  return driver_.cuMemcpy3DAsync_v2(&copy, stream);
}

Status Arrays::move(Direction direction, CUcontext context, CUstream stream) {
  if (driver_.cuMemcpy3DAsync_v2 == nullptr || driver_.cuMipmappedArrayGetLevel == nullptr) {
    return {Code::kUnsupported, "this driver has no copies of arrays"};
  }
  CUresult result = CUDA_SUCCESS;
  for (const auto& [number, array] : arrays_) {
    if (array.context != context) continue;
    for (size_t level = 0; level < array.levels.size() && result == CUDA_SUCCESS; ++level) {
      result = copy_level(direction, array, level, stream);
    }
  }
  const CUresult done = driver_.cuStreamSynchronize(stream);
  if (result == CUDA_SUCCESS) result = done;
  if (result == CUDA_SUCCESS) return {};
  return {Code::kIo, std::string("copying arrays: ") + error_name(driver_, result)};
}

std::vector<CUcontext> Arrays::contexts() const {
  std::vector<CUcontext> all;
  for (const auto& [number, array] : arrays_) {
    if (std::ranges::find(all, array.context) == all.end()) all.push_back(array.context);
  }
  return all;
}

uint64_t Arrays::copy_of(uint32_t number, uint64_t size) const {
  const auto found = arrays_.find(number);
  return found != arrays_.end() && found->second.bytes == size ? found->second.copy.address : 0;
}

uint64_t Arrays::own_bytes(CUcontext context) const {
  const CurrentContext current(driver_, context);
  CUdevice device = 0;
  (void)driver_.cuCtxGetDevice(&device);
  uint64_t bytes = 0;
  const auto add = [&](const MappedMemory& copy) {
    if (copy.address != 0 && copy.device == device) bytes += copy.size;
  };
  for (const auto& [number, array] : arrays_) add(array.copy);
  for (const auto& [owner, copy] : retired_) add(copy);
  return bytes;
}

std::vector<MappedMemory> Arrays::take_copies(std::optional<CUcontext> context) {
  std::vector<MappedMemory> taken;
  for (auto& [number, array] : arrays_) {
    if ((context && array.context != *context) || array.copy.address == 0) continue;
    taken.push_back(std::exchange(array.copy, {}));
  }
  std::erase_if(retired_, [&](const auto& entry) {
    if (context && entry.first != *context) return false;
    taken.push_back(entry.second);
    return true;
  });
  for (const MappedMemory& copy : taken) memory_.erase(copy.address);
  return taken;
}

std::vector<MappedMemory> Arrays::forget_context(CUcontext context) {
  std::vector<MappedMemory> taken = take_copies(context);
  std::vector<uint32_t> gone;
  for (const auto& [number, array] : arrays_) {
    if (array.context == context) gone.push_back(number);
  }
  for (const uint32_t number : gone) retire(number);
  return taken;
}

}  // namespace gpusnap
