// The smallest thing that a snapshot says of its bytes: where they lay.
#pragma once

#include <cstdint>

namespace gpusnap {

// Some of a range's bytes.
struct Piece {
  uint32_t range = 0;   // index in Manifest::ranges
  uint64_t offset = 0;  // bytes from the range's start
  uint64_t size = 0;    // bytes
};

}  // namespace gpusnap
