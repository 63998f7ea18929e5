// SPDX-License-Identifier: Apache-2.0
// The description of a block in a manifest.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tiers/format.h"
#include "tiers/manifest.h"
#include "tiers/piece.h"

namespace gpusnap {

// Returns the extents of a block, without their place in a file. Uncompressed bytes can be read in
// parts: a restore does not read parts that a later increment replaces. A compressed block is read
// as a whole. `pieces`: describe `bytes`, one after the other.
std::vector<Extent> describe_block(std::span<const Piece> pieces, std::span<const std::byte> bytes,
                                   Form form);

}  // namespace gpusnap
