// Which chunks of a checkpoint still lie on this node's own devices, as their block logs say.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/local_chunks.h"
#include "tiers/manifest.h"
#include "tiers/placement/tier_settings.h"

namespace gpusnap {

// Returns the local copies of the segments of these manifests, which all belong to one job in that
// store. Folders that cannot be read and logs that make no sense count as empty. Does not fail.
LocalChunks find_copies(FileSystem& files, const std::vector<SsdFolder>& ssd,
                        const std::string& store, const std::string& job,
                        std::span<const Manifest> chain);

}  // namespace gpusnap
