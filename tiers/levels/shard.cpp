// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/shard.h"

#include <algorithm>
#include <cstdio>

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/levels/byte_coder.h"
#include "tiers/names.h"

namespace gpusnap::levels {

namespace {

constexpr std::string_view kMagic = "GPUSNAPX";
constexpr uint32_t kVersion = 2;  // the first had no job_run
constexpr std::string_view kSuffix = ".shard";
constexpr size_t kLongestName = 255;

bool is_key(std::string_view text) {
  return text.size() == 16 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

void put(ByteWriter& writer, const PartId& part) {
  writer.text(part.store).text(part.job).number(part.epoch).number(part.rank).text(part.run);
}

PartId take_part(ByteReader& reader) {
  PartId part;
  part.store = reader.text(kLongestName);
  part.job = reader.text(kLongestName);
  part.epoch = reader.number<uint64_t>();
  part.rank = reader.number<uint32_t>();
  part.run = reader.text(kLongestName);
  return part;
}

bool is_part(const PartId& part) {
  constexpr uint64_t kMostEpoch = 999'999'999'999'999'999;  // that a folder's name can have
  return is_key(part.store) && is_job_folder(part.job) && is_run(part.run) &&
         part.epoch <= kMostEpoch;
}

bool makes_sense(const ShardHeader& header) {
  constexpr uint64_t kMostImage = uint64_t{1} << 60;
  const LevelScheme& scheme = header.scheme;
  return is_part(header.part) && scheme.data >= 1 && scheme.data <= kMostDataShards &&
         scheme.parity >= 1 && scheme.parity <= kMostParityShards &&
         header.number < scheme.shards() && header.image_bytes > 0 &&
         header.image_bytes <= kMostImage && header.coding != 0 && !header.owner.empty() &&
         parse_peer(header.owner).has_value() && header.ranks >= 1 &&
         header.part.rank < header.ranks &&
         header.parent < std::max<uint64_t>(header.part.epoch, 1);
}

ShardHeader take_header(ByteReader& reader) {
  ShardHeader header;
  header.part = take_part(reader);
  header.scheme.data = reader.number<uint32_t>();
  header.scheme.parity = reader.number<uint32_t>();
  header.number = reader.number<uint32_t>();
  header.image_bytes = reader.number<uint64_t>();
  header.coding = reader.number<uint64_t>();
  header.owner = reader.text(kLongestName + 16);
  header.ranks = reader.number<uint32_t>();
  header.parent = reader.number<uint64_t>();
  header.cut_unix_ns = reader.number<int64_t>();
  header.memory_bytes = reader.number<uint64_t>();
  if (!reader.rest().empty()) header.job_run = reader.number<uint64_t>();
  return header;
}

}  // namespace

std::vector<std::byte> encode(const ShardHeader& header) {
  ByteWriter writer;
  put(writer, header.part);
  writer.number(header.scheme.data).number(header.scheme.parity).number(header.number);
  writer.number(header.image_bytes).number(header.coding).text(header.owner);
  writer.number(header.ranks).number(header.parent).number(header.cut_unix_ns);
  writer.number(header.memory_bytes).number(header.job_run);
  return writer.take();
}

Result<ShardHeader> decode_shard_header(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  ShardHeader header = take_header(reader);
  if (!reader.is_whole() || !makes_sense(header)) return damaged("a shard's header makes no sense");
  return header;
}

std::array<std::byte, kShardHeaderBytes> encode_shard_file_header(const ShardHeader& header) {
  const std::vector<std::byte> body = encode(header);
  ByteWriter writer;
  writer.raw(std::as_bytes(std::span(kMagic))).number(kVersion);
  writer.number(static_cast<uint32_t>(body.size())).number(checksum(body)).raw(body);
  std::array<std::byte, kShardHeaderBytes> bytes{};
  std::ranges::copy(writer.bytes(), bytes.begin());
  return bytes;
}

Result<ShardHeader> decode_shard_file_header(std::span<const std::byte> bytes) {
  const auto magic = std::as_bytes(std::span(kMagic));
  if (bytes.size() != kShardHeaderBytes || !std::ranges::equal(bytes.first(magic.size()), magic)) {
    return damaged("it is no shard");
  }
  ByteReader reader(bytes.subspan(magic.size()));
  const auto version = reader.number<uint32_t>();
  if (version == 0 || version > kVersion) {
    return Status(Code::kNewer, "it is a shard of version " + std::to_string(version));
  }
  const auto size = reader.number<uint32_t>();
  const auto sum = reader.number<uint64_t>();
  if (size > reader.rest().size()) return damaged("a shard's header makes no sense");
  const auto body = reader.rest().first(size);
  if (checksum(body) != sum) return damaged("the checksum of a shard's header is wrong");
  return decode_shard_header(body);
}

std::vector<std::byte> encode(const PartId& part) {
  ByteWriter writer;
  put(writer, part);
  return writer.take();
}

Result<PartId> decode_part(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  PartId part = take_part(reader);
  if (!reader.is_whole() || !is_part(part)) return damaged("a part's name makes no sense");
  return part;
}

std::string shard_prefix(const PartId& part, uint64_t coding) {
  char text[18] = "";
  if (coding != 0) {
    (void)std::snprintf(text, sizeof text, "%016llx-", static_cast<unsigned long long>(coding));
  }
  return "r" + std::to_string(part.rank) + "-" + part.run + "-" + text;
}

std::string shard_name(const PartId& part, const ShardKey& key) {
  return shard_prefix(part, key.coding) + std::to_string(key.number) + std::string(kSuffix);
}

bool is_shard_name(std::string_view name) {
  return name.starts_with('r') && name.ends_with(kSuffix);
}

uint64_t block_checksum(std::span<const std::byte> block, uint64_t number) {
  return checksum(block) + number;
}

}  // namespace gpusnap::levels
