// SPDX-License-Identifier: Apache-2.0
// Codes parts into shards on the nodes, and restores parts from shards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tiers/file_system.h"
#include "tiers/levels/copies.h"
#include "tiers/levels/image.h"

namespace gpusnap::levels {

// Returns whether to end early. Any thread.
using Stop = std::function<bool()>;

struct ProtectRequest {
  PartPlace place;  // in the store
  PartId part;
  LevelScheme scheme;
  uint32_t owner = 0;      // number of this node
  std::string owner_name;  // as in GPUSNAP_PEERS
};
// Codes the part and puts each shard on its node, unless all of them are there already. After
// success all shards are durable, and older codings of the part are removed. Returns kNotFound if
// the part is not in the store, or belongs to another run by now.
Status protect(FileSystem& files, const Nodes& nodes, const ProtectRequest& request,
               const Stop& stop);

// Computes missing shards from existing ones and puts them on their nodes. `owner`: the number of
// the node that made the part.
Status repair(const Nodes& nodes, const PartCopies& copies, uint32_t owner, const Stop& stop);

// Puts the part back into a store. The caller holds the job's lock. Skips unusable shards as long
// as there are enough others. `progress`: bytes done, and bytes in all.
Status rebuild(FileSystem& files, const Nodes& nodes, const PartCopies& copies,
               const PartPlace& place,
               const std::function<void(uint64_t done, uint64_t total)>& progress);

}  // namespace gpusnap::levels
