// Textures are fetched from, surfaces read and written, lane by lane.
#include "tools/simcuda/machine/texture.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <string>

#include "tools/simcuda/images.h"
#include "tools/simcuda/machine/warp.h"

// Conversions of halves, for any processor.
#define SIMCUDA_ISA formats
#include "tools/simcuda/machine/half_bits.h"

namespace simcuda {
namespace {

template <class T>
T lane_value(const WarpView& w, int32_t slot, uint32_t lane) {
  T value{};
  if (slot == kNoSlot) return value;
  const std::byte* base = (slot < 0 ? w.constants : w.registers) + slot;
  std::memcpy(&value, base + size_t{lane} * sizeof(T), sizeof(T));
  return value;
}

uint64_t lane_bits(const WarpView& w, int32_t slot, uint32_t bits, uint32_t lane) {
  if (bits == 16) return lane_value<uint16_t>(w, slot, lane);
  if (bits == 32) return lane_value<uint32_t>(w, slot, lane);
  return lane_value<uint64_t>(w, slot, lane);
}

void set_lane(WarpView& w, int32_t slot, uint32_t bits, uint32_t lane, uint64_t value) {
  if (slot == kNoSlot) return;
  std::memcpy(w.registers + slot + size_t{lane} * (bits / 8), &value, bits / 8);
}

bool fail(WarpView& view, uint32_t lane, AccessFault fault, std::string reason) {
  auto& warp = static_cast<Warp&>(view);
  warp.fault = fault;
  warp.fault_lane = lane;
  warp.fault_reason = std::move(reason);
  return false;
}

// Where the bytes of an image in device memory are; null where not all of it is there.
std::byte* find_bytes(const WarpView& w, const Image& image) {
  const Extent* end = w.extents + w.extent_count;
  const Extent* after = std::upper_bound(w.extents, end, image.address,
                                         [](uint64_t a, const Extent& e) { return a < e.address; });
  if (after == w.extents) return nullptr;
  const Extent& extent = *(after - 1);
  const uint64_t offset = image.address - extent.address;
  if (offset > extent.size || image.span() > extent.size - offset) return nullptr;
  return extent.host + offset;
}

// The texture of one lane's handle. Lanes mostly share one, so what was found is kept.
class Textures {
 public:
  explicit Textures(const WarpView& w) : w_(w) {}
  const Texture* find(uint64_t handle) {
    if (known_ && handle == handle_) return found_;
    known_ = true;
    handle_ = handle;
    found_ = w_.images == nullptr ? nullptr : w_.images->texture(handle);
    if (found_ == nullptr || found_->levels.empty()) return found_ = nullptr;
    if (found_->levels.front().host != nullptr) return found_;
    located_ = *found_;
    located_.levels.front().host = find_bytes(w_, located_.levels.front());
    return found_ = located_.levels.front().host == nullptr ? nullptr : &located_;
  }

 private:
  const WarpView& w_;
  bool known_ = false;
  uint64_t handle_ = 0;
  const Texture* found_ = nullptr;
  Texture located_;
};

Coordinates coordinates(const WarpView& w, const TextureSite& site, const Texture& texture,
                        uint32_t lane) {
  const auto layer = lane_value<uint32_t>(w, site.layer, lane);
  float at[3] = {};
  for (uint32_t d = 0; d < site.dimensions; ++d) at[d] = lane_value<float>(w, site.at[d], lane);
  if (site.cube) return on_face(texture.levels.front(), at, layer);
  return {{at[0], at[1], at[2]}, layer};
}

Texel sampled(const WarpView& w, const TextureSite& site, const Texture& texture, uint32_t lane) {
  const Coordinates where = coordinates(w, site, texture, lane);
  if (site.level_from == LevelFrom::kGiven) {
    return sample(texture, where, lane_value<float>(w, site.level, lane));
  }
  if (site.level_from == LevelFrom::kBase) return sample(texture, where, 0);
  float dx[3] = {};
  float dy[3] = {};
  for (uint32_t d = 0; d < site.dimensions; ++d) {
    dx[d] = lane_value<float>(w, site.dx[d], lane);
    dy[d] = lane_value<float>(w, site.dy[d], lane);
  }
  return sample(texture, where, level_of(texture, dx, dy));
}

Texel fetched(const WarpView& w, const TextureSite& site, const Texture& texture, uint32_t lane) {
  if (site.op == TextureOp::kSample) return sampled(w, site, texture, lane);
  if (site.op == TextureOp::kGather) {
    return gather(texture, coordinates(w, site, texture, lane), site.component);
  }
  int32_t at[3] = {};
  for (uint32_t d = 0; d < site.dimensions; ++d) at[d] = lane_value<int32_t>(w, site.at[d], lane);
  return fetch(texture, at, lane_value<uint32_t>(w, site.layer, lane),
               lane_value<int32_t>(w, site.level, lane));
}

uint32_t answer(ImageQuery query, const Image& image, uint32_t levels, bool normalized) {
  switch (query) {
    case ImageQuery::kWidth:
      return image.width;
    case ImageQuery::kHeight:
      return image.dimensions > 1 ? image.height : 0;
    case ImageQuery::kDepth:
      return image.dimensions > 2 ? image.depth : 0;
    case ImageQuery::kArraySize:
      return image.cube ? image.depth / 6 : image.layered ? image.depth : 0;
    case ImageQuery::kLevels:
      return levels;
    case ImageQuery::kNormalized:
      return normalized ? 1 : 0;
  }
  return 0;
}

bool run_texture(WarpView& w, const TextureSite& site, uint32_t mask) {
  Textures textures(w);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(left));
    const Texture* texture = textures.find(lane_value<uint64_t>(w, site.handle, lane));
    if (texture == nullptr) {
      return fail(w, lane, AccessFault::kOutOfBounds,
                  "there is no such texture, or what it is of is gone");
    }
    if (site.op == TextureOp::kQuery) {
      const auto last = static_cast<int32_t>(texture->levels.size() - 1);
      const int32_t level = std::clamp(lane_value<int32_t>(w, site.level, lane), 0, last);
      const uint32_t value =
          answer(site.query, texture->levels[static_cast<size_t>(level)],
                 static_cast<uint32_t>(texture->levels.size()), texture->sampler.normalized);
      set_lane(w, site.values[0], 32, lane, value);
      continue;
    }
    const Texel texel = fetched(w, site, *texture, lane);
    for (uint32_t c = 0; c < 4; ++c) set_lane(w, site.values[c], 32, lane, texel.bits[c]);
    ++w.traffic->device_sectors;
  }
  if (site.resident != kNoSlot) {
    uint32_t resident = lane_value<uint32_t>(w, site.resident, 0) | mask;
    std::memcpy(w.registers + site.resident, &resident, sizeof resident);
  }
  return true;
}

// The place in a surface of one lane's access.
enum class Reach : uint8_t { kInside, kOutside, kMisaligned };

Reach reach(const WarpView& w, const TextureSite& site, const Image& image, uint32_t bytes,
            uint32_t lane, std::byte** place) {
  int64_t at[3] = {0, 0, 0};
  for (uint32_t d = 0; d < site.dimensions; ++d) at[d] = lane_value<int32_t>(w, site.at[d], lane);
  if (site.layer != kNoSlot) at[2] = lane_value<uint32_t>(w, site.layer, lane);
  if (site.formatted) at[0] *= image.format.bytes();
  if (at[0] % static_cast<int64_t>(bytes) != 0) return Reach::kMisaligned;
  const int64_t most[3] = {static_cast<int64_t>(image.row_bytes()) - bytes,
                           int64_t{image.height} - 1, int64_t{image.depth} - 1};
  bool outside = most[0] < 0;
  for (uint32_t d = 0; d < 3 && !outside; ++d) {
    const int64_t inside = std::clamp<int64_t>(at[d], 0, most[d]);
    outside = site.edge != SurfaceEdge::kClamp && inside != at[d];
    at[d] = inside / (d == 0 ? bytes : 1) * (d == 0 ? bytes : 1);
  }
  if (outside) return Reach::kOutside;
  *place = image.at(static_cast<uint64_t>(at[0]), static_cast<uint64_t>(at[1]),
                    static_cast<uint64_t>(at[2]));
  return Reach::kInside;
}

uint16_t half_bits(float value) {
  return formats::narrowed<formats::F16>(value, Rounding::kNearest);
}

// Converts a value as a formatted store to a channel does.
uint32_t in_channel(const TexelFormat& format, uint32_t value) {
  const uint32_t bits = format.channel_bytes * 8;
  switch (format.kind) {
    case TexelKind::kUnsigned:
      return bits == 32 ? value : std::min(value, (1u << bits) - 1);
    case TexelKind::kSigned: {
      if (bits == 32) return value;
      const int32_t most = (1 << (bits - 1)) - 1;
      return static_cast<uint32_t>(std::clamp(static_cast<int32_t>(value), -most - 1, most));
    }
    case TexelKind::kHalf:
      return half_bits(std::bit_cast<float>(value));
    case TexelKind::kFloat:
      break;
  }
  return value;
}

template <class T, class S>
T reduced(AtomicOp op, bool is_signed, T old, T value) {
  const bool less = is_signed ? static_cast<S>(value) < static_cast<S>(old) : value < old;
  switch (op) {
    case AtomicOp::kMin:
      return less ? value : old;
    case AtomicOp::kMax:
      return less ? old : value;
    case AtomicOp::kAnd:
      return old & value;
    case AtomicOp::kOr:
      return old | value;
    default:
      return old + value;
  }
}

template <class T, class S>
void reduce(std::byte* place, const TextureSite& site, bool is_signed, T value) {
  std::atomic_ref<T> word(*reinterpret_cast<T*>(place));
  T old = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, reduced<T, S>(site.reduction, is_signed, old, value),
                                     std::memory_order_relaxed)) {
  }
}

void access(WarpView& w, const TextureSite& site, const Image& image, uint32_t lane,
            std::byte* place) {
  const TexelFormat& format = image.format;
  const uint32_t count =
      site.formatted ? std::min(site.value_count, format.channels) : site.value_count;
  const uint32_t bytes = site.formatted ? format.channel_bytes : site.bytes;
  for (uint32_t v = 0; v < count; ++v) {
    std::byte* at = place + size_t{v} * bytes;
    if (site.op == TextureOp::kLoad) {
      uint64_t value = 0;
      std::memcpy(&value, at, bytes);
      set_lane(w, site.values[v], site.value_bits, lane, value);
      continue;
    }
    uint64_t value = lane_bits(w, site.values[v], site.value_bits, lane);
    if (site.op == TextureOp::kStore) {
      if (site.formatted) value = in_channel(format, static_cast<uint32_t>(value));
      std::memcpy(at, &value, bytes);
    } else {
      const bool is_signed = site.formatted ? format.kind == TexelKind::kSigned : site.is_signed;
      bytes == 8 ? reduce<uint64_t, int64_t>(at, site, is_signed, value)
                 : reduce<uint32_t, int32_t>(at, site, is_signed, static_cast<uint32_t>(value));
    }
  }
}

bool run_surface(WarpView& w, const TextureSite& site, uint32_t mask) {
  const Surface* surface = nullptr;
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(left));
    const auto handle = lane_value<uint64_t>(w, site.handle, lane);
    if (surface == nullptr || surface->handle != handle) {
      surface = w.images == nullptr ? nullptr : w.images->surface(handle);
    }
    if (surface == nullptr || surface->gone) {
      return fail(w, lane, AccessFault::kOutOfBounds,
                  "there is no such surface, or its array is gone");
    }
    const Image& image = surface->image;
    if (site.op == TextureOp::kQuery) {
      set_lane(w, site.values[0], 32, lane, answer(site.query, image, 1, false));
      continue;
    }
    if (site.op == TextureOp::kReduce && site.formatted && image.format.bytes() != 4) {
      return fail(w, lane, AccessFault::kMisaligned,
                  "a formatted reduction needs elements of one 32-bit channel");
    }
    const uint32_t bytes = site.formatted ? image.format.bytes() : site.bytes * site.value_count;
    std::byte* place = nullptr;
    const Reach reached = reach(w, site, image, bytes, lane, &place);
    if (reached == Reach::kMisaligned) {
      return fail(w, lane, AccessFault::kMisaligned,
                  "misaligned access of " + std::to_string(bytes) + " bytes to a surface");
    }
    if (reached == Reach::kInside) {
      access(w, site, image, lane, place);
      ++w.traffic->device_sectors;
    } else if (site.edge == SurfaceEdge::kTrap) {
      return fail(w, lane, AccessFault::kOutOfBounds, "access out of bounds of a surface");
    } else if (site.op == TextureOp::kLoad) {
      for (uint32_t v = 0; v < site.value_count; ++v) {
        set_lane(w, site.values[v], site.value_bits, lane, 0);
      }
    }
  }
  return true;
}

bool run_site(WarpView& view, const Op& op, uint32_t mask) {
  const auto& site = *reinterpret_cast<const TextureSite*>(op.immediate);
  return site.surface ? run_surface(view, site, mask) : run_texture(view, site, mask);
}

}  // namespace

Handler texture_handler() {
  return run_site;
}

}  // namespace simcuda
