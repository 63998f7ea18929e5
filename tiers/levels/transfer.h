// SPDX-License-Identifier: Apache-2.0
// Parts to shards on the nodes, and back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tiers/file_system.h"
#include "tiers/levels/copies.h"
#include "tiers/levels/image.h"

namespace gpusnap::levels {

// Whether to end early; any thread.
using Stop = std::function<bool()>;

struct ProtectRequest {
  PartPlace place;  // in the store
  PartId part;
  LevelScheme scheme;
  uint32_t owner = 0;      // number of this node
  std::string owner_name;  // as in GPUSNAP_PEERS
};
// Codes the part and puts each shard on its node, unless all of them are there already. Ok: every
// one of them is durable, and older codings of the part are gone. kNotFound where the part is not
// in the store, or it is another run's by now.
Status protect(FileSystem& files, const Nodes& nodes, const ProtectRequest& request,
               const Stop& stop);

// Makes the shards that are missing on their nodes from those that are there. `owner`: the number
// of the node whose part it is.
Status repair(const Nodes& nodes, const PartCopies& copies, uint32_t owner, const Stop& stop);

// Puts the part back into a store; the caller holds the job's lock. Shards that turn out to be
// unusable are left out as long as there are enough. `progress`: bytes done, and in all.
Status rebuild(FileSystem& files, const Nodes& nodes, const PartCopies& copies,
               const PartPlace& place,
               const std::function<void(uint64_t done, uint64_t total)>& progress);

}  // namespace gpusnap::levels
