// SPDX-License-Identifier: Apache-2.0
// The way to the shards on all nodes of the job, as the settings say.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/levels/channel.h"
#include "tiers/levels/copies.h"
#include "tiers/levels/local_store.h"
#include "tiers/levels/rate_limit.h"

namespace gpusnap::levels {

// Thread-safe.
class NodeSet {
 public:
  // `settings` have no problem_of(). `ssd`: the folder of GPUSNAP_SSD that holds this node's
  // shards. `limit`: of what is sent and fetched; null: without a bound; outlives it. A tool may
  // run on a node that is none of the peers: it has no shards.
  static Result<std::unique_ptr<NodeSet>> open(FileSystem& files, const LevelSettings& settings,
                                               const std::string& ssd, RateLimit* limit);

  const Nodes& all() const { return nodes_; }
  std::optional<uint32_t> own() const { return own_; }  // this one's number
  std::string name(uint32_t node) const { return name_of(peers_[node]); }
  uint16_t port(uint32_t node) const { return peers_[node].port; }
  const JobKey& key() const { return key_; }
  LocalStore& local() { return local_; }

 private:
  NodeSet(FileSystem& files, const LevelSettings& settings, const std::string& ssd)
      : peers_(settings.peers), local_(files, shards_folder(ssd)) {}

  const std::vector<PeerAddress> peers_;
  JobKey key_;
  std::optional<uint32_t> own_;
  LocalStore local_;
  std::vector<std::unique_ptr<ShardStore>> others_;
  Nodes nodes_;
};

}  // namespace gpusnap::levels
