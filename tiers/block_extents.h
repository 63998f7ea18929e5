// SPDX-License-Identifier: Apache-2.0
// How a manifest describes a block.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tiers/format.h"
#include "tiers/manifest.h"
#include "tiers/piece.h"

namespace gpusnap {

// The extents of a block, all but where they lie in a file. Bytes that are stored as they are can
// be read in parts: an increment that replaces some of them spares a restore the reading of these.
// A compressed block is read as a whole. `pieces`: of `bytes`, one after the other.
std::vector<Extent> describe_block(std::span<const Piece> pieces, std::span<const std::byte> bytes,
                                   Form form);

}  // namespace gpusnap
