// SPDX-License-Identifier: Apache-2.0
// The interface to the shards of a node: this one or another one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/levels/shard.h"
#include "tiers/status.h"

namespace gpusnap::levels {

// Writes a shard block by block. Without commit() the destructor removes it. Used by one thread.
class ShardWriter {
 public:
  virtual ~ShardWriter() = default;
  // kUnitBytes.
  virtual Status add(std::span<const std::byte> block) = 0;
  // Commits the shard after header.blocks() blocks, durably. Replaces a shard of the same part,
  // coding and number.
  virtual Status commit() = 0;
};

// One thread.
class ShardReader {
 public:
  virtual ~ShardReader() = default;
  virtual const ShardHeader& header() const = 0;
  // Returns the next block, kUnitBytes. Returns kDamaged if its checksum is wrong.
  virtual Status next(std::span<std::byte> block) = 0;
};

// The shards of one node. Thread-safe. Its readers and writers may outlive it.
class ShardStore {
 public:
  virtual ~ShardStore() = default;
  virtual Result<std::unique_ptr<ShardWriter>> put(const ShardHeader& header) = 0;
  // Returns kNotFound if the shard does not exist.
  virtual Result<std::unique_ptr<ShardReader>> get(const PartId& part, const ShardKey& key) = 0;
  // Returns the headers of all whole shards of that store (store_key()) and job; empty: of all.
  // Skips shards whose file has a wrong length.
  virtual Result<std::vector<ShardHeader>> list(const std::string& store,
                                                const std::string& job) = 0;
  // Removes all shards of that part, except those of the coding `kept` (0: none), durably. Succeeds
  // if there are none.
  virtual Status remove(const PartId& part, uint64_t kept) = 0;
};

}  // namespace gpusnap::levels
