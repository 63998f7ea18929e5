// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/shared_pieces.h"

#include <algorithm>
#include <string_view>

namespace gpusnap {
namespace {

// A piece by where it is compared and where it lies.
struct Stretch {
  uint64_t begin = 0;  // position
  uint64_t end = 0;
  uint64_t epoch = 0;
  std::string_view file;
  uint64_t block = 0;  // where its block begins in the file; 0: it is in none
  uint64_t byte = 0;   // its first byte, in the block or else in the file

  bool is_same_bytes(const Stretch& other) const {
    return epoch == other.epoch && file == other.file && block == other.block &&
           byte - begin == other.byte - other.begin;
  }
};

Stretch stretch_of(const PiecesOfChain& of, const PlacedExtent& piece) {
  const Manifest& manifest = of.chain[piece.member];
  const Extent& extent = manifest.extents[piece.extent];
  const bool is_block = extent.form != Form::kStored;
  Stretch stretch;
  stretch.begin = of.position(piece.range, piece.offset);
  stretch.end = stretch.begin + piece.size;
  stretch.epoch = manifest.epoch;
  stretch.file = manifest.segments[extent.segment].file;
  stretch.block = is_block ? extent.segment_offset : 0;
  stretch.byte = piece.within + (is_block ? extent.within : extent.segment_offset);
  return stretch;
}

}  // namespace

std::vector<PlacedExtent> without_shared(const PiecesOfChain& one, const PiecesOfChain& other) {
  std::vector<Stretch> there;
  there.reserve(other.pieces.size());
  for (const PlacedExtent& piece : other.pieces) there.push_back(stretch_of(other, piece));
  std::ranges::sort(there, {}, &Stretch::begin);
  std::vector<PlacedExtent> left;
  for (const PlacedExtent& piece : one.pieces) {
    const Stretch here = stretch_of(one, piece);
    const auto add = [&](uint64_t begin, uint64_t end) {
      if (begin >= end) return;
      PlacedExtent part = piece;
      part.offset += begin - here.begin;
      part.within += begin - here.begin;
      part.size = end - begin;
      left.push_back(part);
    };
    uint64_t at = here.begin;
    auto next = std::ranges::upper_bound(there, at, {}, &Stretch::end);
    for (; next != there.end() && next->begin < here.end; ++next) {
      if (!next->is_same_bytes(here)) continue;
      add(at, std::min(next->begin, here.end));
      at = std::max(at, std::min(next->end, here.end));
    }
    add(at, here.end);
  }
  return left;
}

}  // namespace gpusnap
