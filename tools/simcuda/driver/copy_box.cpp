// SPDX-License-Identifier: Apache-2.0
#include "tools/simcuda/driver/copy_box.h"

#include <algorithm>
#include <cstring>

namespace simcuda {
namespace {

__extension__ using WideSum = unsigned __int128;  // for sums and products that must not wrap

// Bytes from the first to the end of the last that an end of the box spans; 0 where that overflows.
uint64_t span_of(const CopyBox& box, const CopyEnd& end) {
  WideSum span = static_cast<WideSum>(end.slice) * (box.depth - 1) +
                 static_cast<WideSum>(end.pitch) * (box.height - 1) + box.width;
  return span >> 62 == 0 ? static_cast<uint64_t>(span) : 0;
}

// Where the box fits into an array. 1D layers are planes of one row each.
bool end_in_array(const CopyBox& box, const CopyCorner& corner, CopyEnd* end) {
  Driver* state = driver();
  if (state != nullptr) end->array = state->arrays.arrays.find(corner.array);
  if (end->array == nullptr) return false;
  const Image& image = end->array->image;
  const auto fits = [](uint64_t at, uint64_t size, uint64_t all) {
    return at <= all && size <= all - at;
  };
  end->pitch = image.pitch;
  end->slice = image.slice;
  end->x = corner.x;
  end->y = corner.y;
  end->z = corner.z;
  return fits(corner.x, box.width, image.row_bytes()) && fits(corner.y, box.height, image.height) &&
         fits(corner.z, box.depth, image.depth);
}

}  // namespace

CUresult locate(const Memory& memory, const Memory::Hold& hold, const CopyBox& box,
                const CopyEnd& end, LocatedEnd* located) {
  if (end.array != nullptr) {
    located->host = end.array->image.at(end.x, end.y, end.z);
    located->bytes = end.array->bytes;
    located->on_device = true;
    return CUDA_SUCCESS;
  }
  uint64_t span = span_of(box, end);
  if (span == 0 || end.address == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const Allocation* found = memory.find(hold, end.address)) {
    if (end.place == CopyPlace::kHost && !found->on_host()) return CUDA_ERROR_INVALID_VALUE;
    located->host = memory.resolve(hold, end.address, span);
    located->on_device = !found->on_host();
    located->device = found->device;
    return located->host == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  if (end.place == CopyPlace::kDevice || memory.is_device_address(hold, end.address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  located->host = reinterpret_cast<std::byte*>(end.address);
  located->pageable = true;
  return CUDA_SUCCESS;
}

CopyRows rows_of(const LocatedEnd& located, const CopyEnd& end) {
  CopyRows rows{located.host, end.pitch, end.slice};
  if (end.array == nullptr || end.array->image.tile.row == 0) return rows;
  rows.tiled = end.array->image;
  rows.x = end.x;
  rows.y = end.y;
  rows.z = end.z;
  return rows;
}

void move_rows(const CopyBox& box, const CopyRows& to, const CopyRows& from) {
  for (uint64_t z = 0; z < box.depth; ++z) {
    for (uint64_t y = 0; y < box.height; ++y) {
      uint64_t bytes = 0;
      for (uint64_t x = 0; x < box.width; x += bytes) {
        bytes = std::min({box.width - x, to.together(x), from.together(x)});
        std::memmove(to.at(x, y, z), from.at(x, y, z), bytes);
      }
    }
  }
}

bool end_of(const CopyBox& box, CopyCorner corner, CopyEnd* end) {
  switch (corner.type) {
    case CU_MEMORYTYPE_HOST:
      end->place = CopyPlace::kHost;
      end->address = reinterpret_cast<uint64_t>(corner.host);
      break;
    case CU_MEMORYTYPE_DEVICE:
      end->place = CopyPlace::kDevice;
      end->address = corner.device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      end->address = corner.device;
      break;
    case CU_MEMORYTYPE_ARRAY:
      return end_in_array(box, corner, end);
    default:
      return false;
  }
  if (corner.pitch == 0) corner.pitch = corner.x + box.width;
  if (corner.rows == 0) corner.rows = corner.y + box.height;
  if (corner.x > corner.pitch || box.width > corner.pitch - corner.x) return false;
  if (box.depth > 1 && (corner.y > corner.rows || box.height > corner.rows - corner.y))
    return false;
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (corner.pitch > kMost || corner.rows > kMost || corner.y > kMost || corner.z > kMost) {
    return false;
  }
  end->pitch = corner.pitch;
  WideSum slice = static_cast<WideSum>(corner.pitch) * corner.rows;
  WideSum offset = slice * corner.z + static_cast<WideSum>(corner.pitch) * corner.y + corner.x;
  if (slice >> 48 != 0 || offset >> 48 != 0) return false;
  end->slice = static_cast<uint64_t>(slice);
  end->address += static_cast<uint64_t>(offset);
  return true;
}

}  // namespace simcuda
