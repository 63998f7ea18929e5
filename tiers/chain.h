// SPDX-License-Identifier: Apache-2.0
// Chains of checkpoints: an increment, its parent, the parent's parent, and so on to a full one.
// Knows nothing of files. docs/file-format.md says what a chain must be like.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tiers/manifest.h"
#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

// Whether `parent`, found under the epoch that `child` names, is what the child was made on, or
// what that was merged into. `checksum`: of the body of the parent's manifest.
Status check_link(const Manifest& child, const Manifest& parent, uint64_t checksum);
// Whether a manifest may have so many ancestors.
Status check_length(const Manifest& manifest, uint64_t ancestors);

// The first piece and those behind it that lie in the same extent; at least one.
std::span<const PlacedExtent> leading_extent(std::span<const PlacedExtent> pieces);
// Bytes, as they were on the device, of the parts and compressed blocks that have to be read for
// the pieces, which are in the order of place_extents().
uint64_t read_bytes(std::span<const Manifest> chain, std::span<const PlacedExtent> pieces);

// Where the newest bytes of each range of chain[0] are; its parent is chain[1], and so on. Links
// need not have been checked.
Result<std::vector<PlacedExtent>> place_extents(const std::vector<Manifest>& chain);

}  // namespace gpusnap
