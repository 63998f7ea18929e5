// SPDX-License-Identifier: Apache-2.0
// Messages between backends over a channel: requests, each answered before the next one.
// A message is one byte, its kind, and a body that depends on the kind.
//
//   put      kPut(header), kOk; kBlock(bytes)..., kEnd; kOk when the shard is durable
//   get      kGet(part, key); kOk(header), kBlock(bytes)..., kEnd
//   list     kList(store, job); kShard(header)..., kEnd
//   remove   kRemove(part, kept coding), kOk
//
// kFailed(code, message) in place of an answer, or of the rest of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tiers/levels/channel.h"
#include "tiers/levels/shard.h"
#include "tiers/status.h"

namespace gpusnap::levels {

enum class Kind : uint8_t { kPut = 1, kGet, kList, kRemove, kBlock, kEnd, kOk, kShard, kFailed };

Status send(Channel& channel, Kind kind, std::span<const std::byte> body = {});
Status send_failure(Channel& channel, const Status& why);

struct Message {
  Kind kind = Kind::kEnd;
  std::span<const std::byte> body;  // until the next one is received
};
// Returns a failure that the other side reports as the failure of this call.
Result<Message> receive(Channel& channel);
// Receives the next message, which must be of that kind, and returns its body.
Result<std::span<const std::byte>> expect(Channel& channel, Kind kind);

std::vector<std::byte> encode_get(const PartId& part, const ShardKey& key);
struct GetRequest {
  PartId part;
  ShardKey key;
};
Result<GetRequest> decode_get(std::span<const std::byte> body);

std::vector<std::byte> encode_remove(const PartId& part, uint64_t kept);
struct RemoveRequest {
  PartId part;
  uint64_t kept = 0;
};
Result<RemoveRequest> decode_remove(std::span<const std::byte> body);

std::vector<std::byte> encode_list(const std::string& store, const std::string& job);
struct ListRequest {
  std::string store;
  std::string job;
};
Result<ListRequest> decode_list(std::span<const std::byte> body);

}  // namespace gpusnap::levels
