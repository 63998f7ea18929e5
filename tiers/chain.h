// SPDX-License-Identifier: Apache-2.0
// Chains of checkpoints: an increment, its parent, the parent's parent, and so on to a full one
// (docs/file-format.md). No file is touched.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tiers/manifest.h"
#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

// Checks that `parent`, found at the epoch that `child` names, is the child's parent, or the full
// checkpoint that the parent was merged into. `checksum`: of the body of the parent's manifest.
Status check_link(const Manifest& child, const Manifest& parent, uint64_t checksum);
// Checks that a manifest may have that many ancestors.
Status check_length(const Manifest& manifest, uint64_t ancestors);

// Returns the first piece and those after it in the same extent; at least one.
std::span<const PlacedExtent> leading_extent(std::span<const PlacedExtent> pieces);
// Returns the number of bytes, uncompressed, of the parts and compressed blocks that have to be
// read for the pieces, which are in the order of place_extents().
uint64_t read_bytes(std::span<const Manifest> chain, std::span<const PlacedExtent> pieces);

// Locates the newest bytes of each range of chain[0]; its parent is chain[1], and so on. Links need
// not have been checked.
Result<std::vector<PlacedExtent>> place_extents(const std::vector<Manifest>& chain);

}  // namespace gpusnap
