// SPDX-License-Identifier: Apache-2.0
// The box of bytes that a copy or set moves: rows of equal width at equal distances, from one place
// to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {

// Where the program said that memory is.
enum class CopyPlace : uint8_t { kHost, kDevice, kAny };

// Whether the host goes on when a copy or set is done, or at once.
enum class Wait : uint8_t { kSync, kAsync };

struct CopyBox {
  uint64_t width = 0;  // bytes
  uint64_t height = 1, depth = 1;
  bool empty() const { return width == 0 || height == 0 || depth == 0; }
  uint64_t bytes() const { return width * height * depth; }
};

// One end of a copy. Pitch and slice are the distances of rows and planes, in bytes.
struct CopyEnd {
  uint64_t address = 0;
  uint64_t pitch = 0, slice = 0;
  CopyPlace place = CopyPlace::kAny;
  // If the end is an array: the place in it, x in bytes.
  std::shared_ptr<const Array> array = nullptr;
  uint64_t x = 0, y = 0, z = 0;
};

// One end as the host sees it.
struct LocatedEnd {
  std::byte* host = nullptr;
  std::shared_ptr<const std::byte> bytes;  // keeps those of an array
  bool pageable = false;                   // not known to the driver
  bool on_device = false;                  // not host, pinned or managed memory
  int device = -1;                         // where that is known: not of an array
};

struct CopyRows {
  std::byte* data = nullptr;
  uint64_t pitch = 0, slice = 0;
  Image tiled{};  // has tiles where the box lies in some: there from x, y, z on
  uint64_t x = 0, y = 0, z = 0;

  std::byte* row(uint64_t y_, uint64_t z_) const { return data + z_ * slice + y_ * pitch; }
  std::byte* at(uint64_t x_, uint64_t y_, uint64_t z_) const {
    return tiled.tile.row == 0 ? row(y_, z_) + x_ : tiled.at(x + x_, y + y_, z + z_);
  }
  // Bytes of a row that lie side by side from there on.
  uint64_t together(uint64_t x_) const {
    return tiled.tile.row == 0 ? UINT64_MAX : tiled.tile.row - (x + x_) % tiled.tile.row;
  }
};

// The first byte and the pitches of one end of a 2D or 3D copy.
struct CopyCorner {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  uint64_t pitch, rows;  // rows of a plane
  uint64_t x, y, z;
};

// Where an end lies; an error where the program has no such memory.
CUresult locate(const Memory& memory, const Memory::Hold& hold, const CopyBox& box,
                const CopyEnd& end, LocatedEnd* located);
CopyRows rows_of(const LocatedEnd& located, const CopyEnd& end);
// Moves the bytes row by row.
void move_rows(const CopyBox& box, const CopyRows& to, const CopyRows& from);
// False where the box does not fit there.
bool end_of(const CopyBox& box, CopyCorner corner, CopyEnd* end);

}  // namespace simcuda
