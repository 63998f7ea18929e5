// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/protocol.h"

#include <algorithm>

#include "tiers/levels/byte_coder.h"
#include "tiers/names.h"

namespace gpusnap::levels {

namespace {

constexpr size_t kLongestText = 1024;

Status wrong_message() {
  return {Code::kDamaged, "another node said something that makes no sense here"};
}

// Codes that a message may bring; anything else is a failure of the system.
Code code_of(uint8_t number) {
  const auto code = static_cast<Code>(number);
  switch (code) {
    case Code::kNotFound:
    case Code::kDamaged:
    case Code::kNewer:
    case Code::kNoSpace:
    case Code::kPermission:
    case Code::kBusy:
    case Code::kInvalid:
    case Code::kUnsupported:
      return code;
    default:
      return Code::kIo;
  }
}

Status decode_failure(std::span<const std::byte> body) {
  ByteReader reader(body);
  const Code code = code_of(reader.number<uint8_t>());
  std::string message = reader.text(kLongestText);
  if (!reader.is_whole()) return wrong_message();
  std::ranges::replace_if(
      message, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
  return {code, "another node: " + message};
}

}  // namespace

Status send(Channel& channel, Kind kind, std::span<const std::byte> body) {
  ByteWriter message;
  return channel.send(message.number(static_cast<uint8_t>(kind)).raw(body).bytes());
}

Status send_failure(Channel& channel, const Status& why) {
  ByteWriter body;
  body.number(static_cast<uint8_t>(why.code()));
  body.text(std::string_view(why.message()).substr(0, kLongestText));
  return send(channel, Kind::kFailed, body.bytes());
}

Result<Message> receive(Channel& channel) {
  const auto got = channel.receive();
  if (!got.ok()) return got.status();
  if (got->empty()) return wrong_message();
  const auto kind = static_cast<uint8_t>(got->front());
  if (kind < static_cast<uint8_t>(Kind::kPut) || kind > static_cast<uint8_t>(Kind::kFailed)) {
    return wrong_message();
  }
  const auto body = got->subspan(1);
  if (static_cast<Kind>(kind) == Kind::kFailed) return decode_failure(body);
  return Message{static_cast<Kind>(kind), body};
}

Result<std::span<const std::byte>> expect(Channel& channel, Kind kind) {
  const auto message = receive(channel);
  if (!message.ok()) return message.status();
  if (message->kind != kind) return wrong_message();
  return message->body;
}

std::vector<std::byte> encode_get(const PartId& part, const ShardKey& key) {
  ByteWriter writer;
  return writer.number(key.coding).number(key.number).raw(encode(part)).take();
}

Result<GetRequest> decode_get(std::span<const std::byte> body) {
  ByteReader reader(body);
  ShardKey key;
  key.coding = reader.number<uint64_t>();
  key.number = reader.number<uint32_t>();
  auto part = decode_part(reader.rest());
  if (!reader.ok() || !part.ok()) return wrong_message();
  return GetRequest{std::move(part.value()), key};
}

std::vector<std::byte> encode_remove(const PartId& part, uint64_t kept) {
  ByteWriter writer;
  return writer.number(kept).raw(encode(part)).take();
}

Result<RemoveRequest> decode_remove(std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto kept = reader.number<uint64_t>();
  auto part = decode_part(reader.rest());
  if (!reader.ok() || !part.ok()) return wrong_message();
  return RemoveRequest{std::move(part.value()), kept};
}

std::vector<std::byte> encode_list(const std::string& store, const std::string& job) {
  ByteWriter writer;
  return writer.text(store).text(job).take();
}

Result<ListRequest> decode_list(std::span<const std::byte> body) {
  ByteReader reader(body);
  ListRequest request;
  request.store = reader.text(kLongestText);
  request.job = reader.text(kLongestText);
  const bool is_store = request.store.empty() || is_job_folder(request.store);
  const bool is_job = request.job.empty() || is_job_folder(request.job);
  if (!reader.is_whole() || !is_store || !is_job) return wrong_message();
  return request;
}

}  // namespace gpusnap::levels
