// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/node_set.h"

#include "tiers/levels/remote_store.h"
#include "tiers/levels/tcp.h"

namespace gpusnap::levels {

Result<std::unique_ptr<NodeSet>> NodeSet::open(FileSystem& files, const LevelSettings& settings,
                                               const std::string& ssd, RateLimit* limit) {
  std::unique_ptr<NodeSet> set(new NodeSet(files, settings, ssd));
  auto key = read_job_key(settings.key);
  if (!key.ok()) return key.status();
  set->key_ = key.value();
  const auto own = find_own(settings.peers, settings.port);
  if (own.ok()) set->own_ = own.value();
  if (!own.ok() && own.status().code() != Code::kNotFound) return own.status();
  for (uint32_t node = 0; node < settings.peers.size(); ++node) {
    if (set->own_ == node) {
      set->nodes_.push_back(&set->local_);
      continue;
    }
    set->others_.push_back(
        std::make_unique<RemoteStore>(settings.peers[node], set->key_, settings.encrypts, limit));
    set->nodes_.push_back(set->others_.back().get());
  }
  return set;
}

}  // namespace gpusnap::levels
