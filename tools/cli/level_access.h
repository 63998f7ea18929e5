// SPDX-License-Identifier: Apache-2.0
// The shards of checkpoints on the nodes of a job, as the tool sees them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "interpose/services/settings.h"
#include "tiers/levels/copies.h"
#include "tiers/store.h"

namespace gpusnap {

// The copies that other nodes have of one checkpoint.
struct LevelCopies {
  std::string job;  // its folder
  uint64_t epoch = 0;
  std::map<uint32_t, std::string> runs;  // by rank: which process wrote its part
  LevelScheme scheme;
  bool is_whole = false;        // as many nodes may be lost as there are parity shards
  bool is_recoverable = false;  // it can be put back
  int64_t cut_unix_ns = 0;
  uint64_t memory_bytes = 0;
};
// `job`: as a user says it; empty: all. Several of an epoch that several runs have reached. Nothing
// where GPUSNAP_LEVELS is not set; nodes that cannot be asked are warned of.
std::vector<LevelCopies> copies_on_nodes(const Settings& settings, const Store& store,
                                         const std::string& job);

// Puts back what the store has lost of that checkpoint, if nodes have it. `id`: "job@epoch",
// "job@latest" or "job". Says in a line what it does, and what goes wrong; whoever calls goes on
// and finds in the store what there is.
void bring_back_from_nodes(const Settings& settings, const std::string& id);

// Removes shards of checkpoints that the store has pruned. `keep`: as many newer ones have to be
// there and whole.
void prune_shards(const Settings& settings, const Store& store, const std::string& job,
                  uint64_t keep);

}  // namespace gpusnap
