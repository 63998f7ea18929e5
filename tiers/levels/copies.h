// SPDX-License-Identifier: Apache-2.0
// Finds out which nodes have which shards.
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

// The shard stores by the nodes' numbers in GPUSNAP_PEERS. They outlive their users.
using Nodes = std::vector<ShardStore*>;

// The shards of one coding of a part.
struct PartCopies {
  ShardHeader about;                                 // with the number of any of the shards
  std::map<uint32_t, std::vector<uint32_t>> shards;  // nodes that have the shard, by its number

  // Returns whether all shards exist, each on a different node, so that as many nodes may be lost
  // as there are parity shards.
  bool is_whole() const;
  bool is_recoverable() const { return shards.size() >= about.scheme.data; }
};

struct Catalogue {
  std::vector<PartCopies> parts;           // newest epoch first
  std::map<uint32_t, Status> unreachable;  // nodes, and why
};

// Asks all nodes at the same time for the shards of that store (store_key()) and job; empty: of
// all. `which`: the nodes to ask; others count neither as reachable nor as unreachable.
Catalogue look_at(const Nodes& nodes, const std::string& store, const std::string& job,
                  std::span<const uint32_t> which);
Catalogue look_at(const Nodes& nodes, const std::string& store, const std::string& job);
// Combines the answers of nodes. No I/O.
std::vector<PartCopies> put_together(
    const std::vector<std::pair<uint32_t, std::vector<ShardHeader>>>& said);

// Finds the parents of parts of one store and job. No I/O. `parts` outlives it.
class Ancestry {
 public:
  explicit Ancestry(const std::vector<PartCopies>& parts);
  // Returns the parent's best coding. Null: there is no parent, or no node has it.
  const PartCopies* parent_of(const PartCopies& part) const;

 private:
  std::map<std::pair<uint64_t, uint32_t>, std::vector<const PartCopies*>> by_place_;
};

// The copies of all ranks of one checkpoint of one run.
struct EpochCopies {
  uint64_t epoch = 0;
  std::vector<const PartCopies*> parts;  // the best coding by rank; null: none
  LevelScheme scheme;
  bool is_whole = false;        // every part and its ancestors are whole
  bool is_recoverable = false;  // every part and its ancestors are recoverable
};
// Returns the copies of one store and job, newest epoch first, with several entries for an epoch
// that several runs have reached. The entries point into `parts`.
std::vector<EpochCopies> epochs_of(const std::vector<PartCopies>& parts);

}  // namespace gpusnap::levels
