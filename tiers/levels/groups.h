// SPDX-License-Identifier: Apache-2.0
// Which nodes hold the shards of which node. Pure.
//
// Nodes are divided, in their order, into groups of as many nodes as a part has shards; nodes that
// are left over belong to the last group. A node's shards go round its group, the first one to
// itself. With groups, fewer sets of nodes are fatal together than with one ring over all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "tiers/levels/level_settings.h"

namespace gpusnap::levels {

// The holders of the shards of a part that node `owner` has made, by shard; each another node.
// Needs owner < nodes and scheme.shards() <= nodes.
std::vector<uint32_t> holders(uint32_t owner, uint32_t nodes, const LevelScheme& scheme);

}  // namespace gpusnap::levels
