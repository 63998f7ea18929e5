// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/groups.h"

#include <algorithm>

namespace gpusnap::levels {

std::vector<uint32_t> holders(uint32_t owner, uint32_t nodes, const LevelScheme& scheme) {
  const uint32_t shards = scheme.shards();
  const uint32_t groups = nodes / shards;
  const uint32_t group = std::min(owner / shards, groups - 1);
  const uint32_t first = group * shards;
  const uint32_t size = group + 1 == groups ? nodes - first : shards;
  std::vector<uint32_t> found;
  found.reserve(shards);
  for (uint32_t shard = 0; shard < shards; ++shard) {
    found.push_back(first + (owner - first + shard) % size);
  }
  return found;
}

}  // namespace gpusnap::levels
