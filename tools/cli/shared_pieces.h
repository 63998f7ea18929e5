// SPDX-License-Identifier: Apache-2.0
// Bytes that two checkpoints of a job have in common because they are the same bytes of the same
// file: of an increment and what it builds on most are. They need not be read to be equal.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tiers/manifest.h"
#include "tiers/store.h"

namespace gpusnap {

// Pieces of one checkpoint, and what they are pieces of.
struct PiecesOfChain {
  std::span<const Manifest> chain;
  std::span<const PlacedExtent> pieces;
  // Where a byte of a range is compared: the same place for the byte of the other checkpoint.
  std::function<uint64_t(uint32_t range, uint64_t offset)> position;
};

// The pieces of `one` without what `other` has from the same place of the same file; in their
// order. Both are of the same job and store, and none of their bytes has two positions.
std::vector<PlacedExtent> without_shared(const PiecesOfChain& one, const PiecesOfChain& other);

}  // namespace gpusnap
