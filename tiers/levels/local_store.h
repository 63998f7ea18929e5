// SPDX-License-Identifier: Apache-2.0
// Shards on this node's SSD.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "tiers/file_system.h"
#include "tiers/levels/shard_store.h"

namespace gpusnap::levels {

// Several of one folder may exist at a time, in several processes.
class LocalStore final : public ShardStore {
 public:
  // `folder`: as shards_folder() gives it. `files` outlives it and what it gives.
  LocalStore(FileSystem& files, std::string folder);

  // Removes what writers that died have left. Nobody writes meanwhile.
  void tidy_up();

  Result<std::unique_ptr<ShardWriter>> put(const ShardHeader& header) override;
  Result<std::unique_ptr<ShardReader>> get(const PartId& part, const ShardKey& key) override;
  Result<std::vector<ShardHeader>> list(const std::string& store, const std::string& job) override;
  Status remove(const PartId& part, uint64_t kept) override;

 private:
  std::string folder_of(const PartId& part) const;
  template <class Visit>
  Status for_each_epoch(const std::string& store, const std::string& job, Visit visit);

  FileSystem& files_;
  const std::string folder_;
  std::atomic<uint64_t> next_{0};
};

// In a folder of GPUSNAP_SSD.
std::string shards_folder(const std::string& ssd_folder);

}  // namespace gpusnap::levels
