// The arguments of our kernels: read by the host's code and, compiled for the device, by zones.cu.
#pragma once

#include <cstdint>

namespace gpusnap {

// Memory whose zones are to be hashed, at a device address. Its size need not be a multiple of a
// zone: the last zone is then shorter.
struct ZoneSpan {
  uint64_t address;
  uint64_t size;   // bytes
  uint64_t first;  // the number of its first zone; its others follow
};

// Bytes to be copied from one device address to another.
struct ZonePiece {
  uint64_t from;
  uint64_t to;
  uint64_t size;  // bytes
};

// XXH3 has another form for inputs of up to kShortZone bytes. A zone that is so short is hashed as
// if zeros followed it, kPaddedZone bytes in all.
inline constexpr uint64_t kShortZone = 240;
inline constexpr uint64_t kPaddedZone = 256;

}  // namespace gpusnap
