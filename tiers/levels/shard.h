// SPDX-License-Identifier: Apache-2.0
// A shard: one of the coded pieces of one rank's part of a checkpoint, a file on a node's SSD.
//
//   <ssd>/gpusnap-<uid>/shards/<store key>/<job>/e<epoch>/r<rank>-<run>-<coding>-<number>.shard
//
//   header                     kShardHeaderBytes: magic, checksum, ShardHeader; the rest is zero
//   blocks, each               kUnitBytes of the shard, then 8 bytes: XXH3 64 of them, plus the
//                              block's number, so that a block in another's place is noticed
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/levels/level_settings.h"
#include "tiers/status.h"

namespace gpusnap::levels {

inline constexpr size_t kShardHeaderBytes = 4096;
// Bytes of a shard that are coded and checked together: a stripe of such blocks stays in the L2
// cache from its coding to its sending.
inline constexpr size_t kUnitBytes = 64 << 10;
// From one block of a stripe to the next in memory, while it is coded. At a distance of a power of
// two, all blocks' bytes of the same place would want the same few lines of the L1 and L2 caches.
inline constexpr size_t kBlockStride = kUnitBytes + 17 * 64;

// One rank's part of one checkpoint, wherever it is.
struct PartId {
  std::string store;  // store_key() of the store's folder
  std::string job;    // the folder's name
  uint64_t epoch = 0;
  uint32_t rank = 0;
  std::string run;
  auto operator<=>(const PartId&) const = default;
};

struct ShardHeader {
  PartId part;
  LevelScheme scheme;
  uint32_t number = 0;       // of the shard; data shards come first
  uint64_t image_bytes = 0;  // of the image (image.h) that was cut into shards
  // Which image that was: shards of two images of a part (it was merged meanwhile) do not mix, and
  // the same image gives the same shards again. Not 0.
  uint64_t coding = 0;
  std::string owner;  // name_of() the node that has made the part and repairs it
  // From the part's manifest.
  uint32_t ranks = 1;
  uint64_t parent = 0;
  int64_t cut_unix_ns = 0;
  uint64_t memory_bytes = 0;
  uint64_t job_run = 0;

  uint64_t stripe_bytes() const { return uint64_t{scheme.data} * kUnitBytes; }
  uint64_t blocks() const { return (image_bytes + stripe_bytes() - 1) / stripe_bytes(); }
  bool operator==(const ShardHeader&) const = default;
};

// Decodes messages: what encode() gives, and no more. The input may be anything: kDamaged where it
// makes no sense, and no field is a path or longer than it may be.
std::vector<std::byte> encode(const ShardHeader& header);
Result<ShardHeader> decode_shard_header(std::span<const std::byte> bytes);
// A file's header: exactly kShardHeaderBytes.
std::array<std::byte, kShardHeaderBytes> encode_shard_file_header(const ShardHeader& header);
Result<ShardHeader> decode_shard_file_header(std::span<const std::byte> bytes);

std::vector<std::byte> encode(const PartId& part);
Result<PartId> decode_part(std::span<const std::byte> bytes);

// Names a part.
struct ShardKey {
  uint64_t coding = 0;
  uint32_t number = 0;
};
std::string shard_name(const PartId& part, const ShardKey& key);
bool is_shard_name(std::string_view name);
// How the names of that part's shards, of one coding or (0) of all, begin.
std::string shard_prefix(const PartId& part, uint64_t coding);

uint64_t block_checksum(std::span<const std::byte> block, uint64_t number);

}  // namespace gpusnap::levels
