// SPDX-License-Identifier: Apache-2.0
// Decides which shards are removed: those of parts that the store has pruned.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/levels/copies.h"

namespace gpusnap::levels {

// A part's epoch, rank and run.
using StoredParts = std::set<std::tuple<uint64_t, uint32_t, std::string>>;
// Returns the parts whose manifests are in the job's folder; none if the folder is not there. Fails
// if a manifest cannot be read.
Result<StoredParts> parts_in_store(FileSystem& files, const std::string& job_folder,
                                   const std::string& job);

// Returns the parts of one store and job, newest first, that the store does not have any more
// although it has at least `keep` newer whole parts of the same rank. A store that has lost its
// files has no newer parts, so nothing is removed. `keep` 0: nothing is removed. No I/O.
std::vector<PartId> superfluous(const std::vector<PartCopies>& parts, const StoredParts& stored,
                                uint64_t keep);

}  // namespace gpusnap::levels
