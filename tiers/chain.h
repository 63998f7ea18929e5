// Chains of checkpoints: an increment, its parent, the parent's parent, and so on to a full one.
// Knows nothing of files. docs/file-format.md says what a chain must be like.
#pragma once

#include <cstdint>
#include <vector>

#include "tiers/manifest.h"
#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

// Whether `parent`, found under the epoch that `child` names, is what the child was made on.
// `checksum`: of the body of the parent's manifest.
Status check_link(const Manifest& child, const Manifest& parent, uint64_t checksum);

// Where the newest bytes of each range of chain[0] are; its parent is chain[1], and so on. Links
// need not have been checked.
Result<std::vector<PlacedExtent>> place_extents(const std::vector<Manifest>& chain);

}  // namespace gpusnap
