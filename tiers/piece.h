// SPDX-License-Identifier: Apache-2.0
// The smallest thing that a snapshot says of its bytes: where they lay.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpusnap {

// Some of a range's bytes.
struct Piece {
  uint32_t range = 0;   // index in Manifest::ranges
  uint64_t offset = 0;  // bytes from the range's start
  uint64_t size = 0;    // bytes
};

// Returns whether the pieces describe `bytes` bytes, one piece after the other. No piece is empty.
inline bool are_bytes_of(std::span<const Piece> pieces, uint64_t bytes) {
  uint64_t left = bytes;
  for (const Piece& piece : pieces) {
    if (piece.size == 0 || piece.size > left) return false;
    left -= piece.size;
  }
  return left == 0 && bytes != 0;
}

// Joins neighbouring pieces. Without that, scattered zones would make a manifest large.
inline std::vector<Piece> merged(std::span<const Piece> pieces) {
  std::vector<Piece> all;
  all.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    if (!all.empty() && all.back().range == piece.range && piece.size > 0 &&
        all.back().offset + all.back().size == piece.offset) {
      all.back().size += piece.size;
    } else {
      all.push_back(piece);
    }
  }
  return all;
}

}  // namespace gpusnap
