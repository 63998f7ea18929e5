// SPDX-License-Identifier: Apache-2.0
// Parts on devices of this node, above all parts that are whole there and not in their store yet.
// Their programs and backends may have ended, and the machine may have restarted since.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tiers/backend/local_tiers.h"
#include "tiers/backend/message.h"
#include "tiers/file_system.h"
#include "tiers/placement/tier_settings.h"

namespace gpusnap {

// Returns the parts whose block log says that they are whole. Skips a log that cannot be read: the
// backend reports such a log.
std::vector<CheckpointText> leftovers_on(FileSystem& files, const std::vector<SsdFolder>& ssd);

// Removes copies of parts that were in a store and are not there any more.
void remove_stale_copies(FileSystem& files, const std::vector<SsdFolder>& ssd);

// Returns the bytes of each job on these devices, parts in flight and copies, by the name of its
// folder in the store. `is_meant`: returns whether jobs of that store count.
std::map<std::string, uint64_t> space_on(
    FileSystem& files, const std::vector<SsdFolder>& ssd,
    const std::function<bool(const std::string& store)>& is_meant);

// Returns whether the store holds that part or a later epoch; then the part may have been pruned.
bool is_in_store(FileSystem& files, const CheckpointText& part);

}  // namespace gpusnap
