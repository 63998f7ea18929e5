// SPDX-License-Identifier: Apache-2.0
#include "tiers/block_extents.h"

#include <cstdint>
#include <utility>

#include "tiers/checksum.h"

namespace gpusnap {

std::vector<Extent> describe_block(std::span<const Piece> pieces, std::span<const std::byte> bytes,
                                   Form form) {
  std::vector<Extent> extents;
  extents.reserve(pieces.size());
  uint64_t within = 0;
  for (const Piece& piece : pieces) {
    Extent extent;
    extent.range = piece.range;
    extent.offset = piece.offset;
    extent.size = piece.size;
    extent.within = within;
    const auto of_piece = bytes.subspan(within, piece.size);
    if (form == Form::kStored) extent.parts.resize(Extent::parts_in(piece.offset, piece.size));
    if (extent.parts.size() <= 1) {
      extent.parts.clear();
      extent.checksum = checksum(of_piece);
    }
    for (size_t i = 0; i < extent.parts.size(); ++i) {
      const Extent::Part part = extent.part(i);
      extent.parts[i] = checksum(of_piece.subspan(part.begin, part.end - part.begin));
    }
    extents.push_back(std::move(extent));
    within += piece.size;
  }
  return extents;
}

}  // namespace gpusnap
