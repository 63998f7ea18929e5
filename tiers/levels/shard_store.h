// SPDX-License-Identifier: Apache-2.0
// Where shards are: on this node, or on another one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/levels/shard.h"
#include "tiers/status.h"

namespace gpusnap::levels {

// A shard that is being written, block by block. Destroyed before commit() it leaves nothing. One
// thread.
class ShardWriter {
 public:
  virtual ~ShardWriter() = default;
  // kUnitBytes.
  virtual Status add(std::span<const std::byte> block) = 0;
  // After header.blocks() blocks: the shard is whole and durable at return, in place of one of the
  // same part, coding and number.
  virtual Status commit() = 0;
};

// One thread.
class ShardReader {
 public:
  virtual ~ShardReader() = default;
  virtual const ShardHeader& header() const = 0;
  // The next one: kUnitBytes. kDamaged where it is not what was written.
  virtual Status next(std::span<std::byte> block) = 0;
};

// The shards of one node. Thread-safe; what it gives outlives it.
class ShardStore {
 public:
  virtual ~ShardStore() = default;
  virtual Result<std::unique_ptr<ShardWriter>> put(const ShardHeader& header) = 0;
  // kNotFound where it is not there.
  virtual Result<std::unique_ptr<ShardReader>> get(const PartId& part, const ShardKey& key) = 0;
  // Headers of all whole shards of that store (store_key()) and job; empty: of all. A shard whose
  // file has another length than it should is none.
  virtual Result<std::vector<ShardHeader>> list(const std::string& store,
                                                const std::string& job) = 0;
  // All of that part but those of the coding `kept` (0: none is), durably. Ok where there is none.
  virtual Status remove(const PartId& part, uint64_t kept) = 0;
};

}  // namespace gpusnap::levels
