// SPDX-License-Identifier: Apache-2.0
// The shards that nodes have of parts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tiers/levels/shard_store.h"

namespace gpusnap::levels {

// The shards' stores, by the nodes' numbers in GPUSNAP_PEERS. They outlive what uses them.
using Nodes = std::vector<ShardStore*>;

// The shards of one coding of a part.
struct PartCopies {
  ShardHeader about;                                 // its number is any
  std::map<uint32_t, std::vector<uint32_t>> shards;  // by number: nodes that have it

  // As many nodes may be lost as there are parity shards: all shards are there, each on a node of
  // its own.
  bool is_whole() const;
  bool is_recoverable() const { return shards.size() >= about.scheme.data; }
};

struct Catalogue {
  std::vector<PartCopies> parts;           // newest epoch first
  std::map<uint32_t, Status> unreachable;  // nodes, and why
};

// Asks all nodes at once for the shards of that store (store_key()) and job; empty: of all.
// `which`: asks these nodes alone; others are neither reachable nor unreachable.
Catalogue look_at(const Nodes& nodes, const std::string& store, const std::string& job,
                  std::span<const uint32_t> which);
Catalogue look_at(const Nodes& nodes, const std::string& store, const std::string& job);
// Puts together what nodes have said. Pure.
std::vector<PartCopies> put_together(
    const std::vector<std::pair<uint32_t, std::vector<ShardHeader>>>& said);

// Which part another one was made on, of one store and job. Pure. `parts` outlives it.
class Ancestry {
 public:
  explicit Ancestry(const std::vector<PartCopies>& parts);
  // Its best coding; null where it has none, or nobody has it.
  const PartCopies* parent_of(const PartCopies& part) const;

 private:
  std::map<std::pair<uint64_t, uint32_t>, std::vector<const PartCopies*>> by_place_;
};

// The copies of one checkpoint of a job, over its ranks: all of one run. Pure.
struct EpochCopies {
  uint64_t epoch = 0;
  std::vector<const PartCopies*> parts;  // by rank; of each its best coding, null: none
  LevelScheme scheme;
  bool is_whole = false;        // so is every part, and its ancestors
  bool is_recoverable = false;  // likewise
};
// The copies of one store and job, newest epoch first; several of an epoch that several runs have
// reached. They belong to `parts`.
std::vector<EpochCopies> epochs_of(const std::vector<PartCopies>& parts);

}  // namespace gpusnap::levels
