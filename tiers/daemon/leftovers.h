// Parts on this node's own devices, above all parts that are whole there and not in their store
// yet. Their programs and backends may be gone, and the machine may have restarted since.
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

// Parts whose block log says that all of them is there. A log that cannot be read is passed over:
// it is the backend's to say what is wrong with it.
std::vector<CheckpointText> leftovers_on(FileSystem& files, const std::vector<SsdFolder>& ssd);

// Removes copies of what was in a store and is not there any more, whoever made them.
void remove_stale_copies(FileSystem& files, const std::vector<SsdFolder>& ssd);

// Bytes that each job has there, by its folder's name in the store: what is on its way, and copies.
// `is_meant`: whether that store's jobs count.
std::map<std::string, uint64_t> space_on(
    FileSystem& files, const std::vector<SsdFolder>& ssd,
    const std::function<bool(const std::string& store)>& is_meant);

// Whether the store holds that part, or has gone on since: then it may have been removed again.
bool is_in_store(FileSystem& files, const CheckpointText& part);

}  // namespace gpusnap
