// SPDX-License-Identifier: Apache-2.0
// Shards of another node, which its gpusnapd serves.
#pragma once

#include <memory>

#include "tiers/levels/channel.h"
#include "tiers/levels/rate_limit.h"
#include "tiers/levels/shard_store.h"

namespace gpusnap::levels {

// A connection for each operation, writer and reader.
class RemoteStore final : public ShardStore {
 public:
  // `limit`: what is put and got passes there; null: without a bound; outlives it and what it
  // gives.
  RemoteStore(PeerAddress peer, const JobKey& key, bool encrypts, RateLimit* limit);

  Result<std::unique_ptr<ShardWriter>> put(const ShardHeader& header) override;
  Result<std::unique_ptr<ShardReader>> get(const PartId& part, const ShardKey& key) override;
  Result<std::vector<ShardHeader>> list(const std::string& store, const std::string& job) override;
  Status remove(const PartId& part, uint64_t kept) override;

 private:
  Result<std::unique_ptr<Channel>> connect() const;

  const PeerAddress peer_;
  const JobKey key_;
  const bool encrypts_;
  RateLimit* const limit_;
};

}  // namespace gpusnap::levels
