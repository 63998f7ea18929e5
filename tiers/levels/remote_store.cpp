// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/remote_store.h"

#include <algorithm>
#include <utility>

#include "tiers/levels/protocol.h"
#include "tiers/levels/tcp.h"

namespace gpusnap::levels {

namespace {

class RemoteWriter final : public ShardWriter {
 public:
  RemoteWriter(std::unique_ptr<Channel> channel, RateLimit* limit)
      : channel_(std::move(channel)), limit_(limit) {}

  Status start(const ShardHeader& header) {
    if (Status sent = send(*channel_, Kind::kPut, encode(header)); !sent.ok()) return sent;
    return expect(*channel_, Kind::kOk).status();
  }

  Status add(std::span<const std::byte> block) override {
    const uint64_t before = channel_->sent_bytes();
    // Bytes around a block are paid with the next one.
    if (limit_ != nullptr) limit_->pass(block.size() + std::exchange(unpaid_, 0));
    Status sent = send(*channel_, Kind::kBlock, block);
    unpaid_ = channel_->sent_bytes() - before -
              std::min(channel_->sent_bytes() - before, uint64_t{block.size()});
    return sent;
  }

  Status commit() override {
    if (Status sent = send(*channel_, Kind::kEnd); !sent.ok()) return sent;
    return expect(*channel_, Kind::kOk).status();
  }

 private:
  const std::unique_ptr<Channel> channel_;
  RateLimit* const limit_;
  uint64_t unpaid_ = 0;
};

class RemoteReader final : public ShardReader {
 public:
  RemoteReader(std::unique_ptr<Channel> channel, ShardHeader header, RateLimit* limit)
      : channel_(std::move(channel)), header_(std::move(header)), limit_(limit) {}

  const ShardHeader& header() const override { return header_; }

  Status next(std::span<std::byte> block) override {
    if (limit_ != nullptr) limit_->pass(block.size());
    const auto got = expect(*channel_, Kind::kBlock);
    if (!got.ok()) return got.status();
    if (got->size() != block.size()) return damaged("another node sent a block of another size");
    std::ranges::copy(got.value(), block.begin());
    return {};
  }

 private:
  const std::unique_ptr<Channel> channel_;
  const ShardHeader header_;
  RateLimit* const limit_;
};

}  // namespace

RemoteStore::RemoteStore(PeerAddress peer, const JobKey& key, bool encrypts, RateLimit* limit)
    : peer_(std::move(peer)), key_(key), encrypts_(encrypts), limit_(limit) {}

Result<std::unique_ptr<Channel>> RemoteStore::connect() const {
  auto stream = TcpStream::connect(peer_);
  if (!stream.ok()) return stream.status();
  TcpStream* const tcp = stream.value().get();
  auto channel = Channel::open(std::move(stream.value()), Channel::Side::kClient, key_, encrypts_);
  if (!channel.ok()) {
    return Status(channel.status().code(), name_of(peer_) + ": " + channel.status().message());
  }
  tcp->wait_for(kLongestWork);
  return channel;
}

Result<std::unique_ptr<ShardWriter>> RemoteStore::put(const ShardHeader& header) {
  auto channel = connect();
  if (!channel.ok()) return channel.status();
  auto writer = std::make_unique<RemoteWriter>(std::move(channel.value()), limit_);
  if (Status started = writer->start(header); !started.ok()) return started;
  return std::unique_ptr<ShardWriter>(std::move(writer));
}

Result<std::unique_ptr<ShardReader>> RemoteStore::get(const PartId& part, const ShardKey& key) {
  auto channel = connect();
  if (!channel.ok()) return channel.status();
  Status sent = send(*channel.value(), Kind::kGet, encode_get(part, key));
  if (!sent.ok()) return sent;
  const auto body = expect(*channel.value(), Kind::kOk);
  if (!body.ok()) return body.status();
  auto header = decode_shard_header(body.value());
  if (!header.ok()) return header.status();
  if (header->part != part || header->number != key.number || header->coding != key.coding) {
    return damaged("another node sent another shard than it was asked for");
  }
  return std::unique_ptr<ShardReader>(std::make_unique<RemoteReader>(
      std::move(channel.value()), std::move(header.value()), limit_));
}

Result<std::vector<ShardHeader>> RemoteStore::list(const std::string& store,
                                                   const std::string& job) {
  auto channel = connect();
  if (!channel.ok()) return channel.status();
  if (Status sent = send(*channel.value(), Kind::kList, encode_list(store, job)); !sent.ok()) {
    return sent;
  }
  std::vector<ShardHeader> found;
  for (;;) {
    const auto message = receive(*channel.value());
    if (!message.ok()) return message.status();
    if (message->kind == Kind::kEnd) return found;
    auto header = decode_shard_header(message->body);
    if (message->kind != Kind::kShard || !header.ok()) {
      return damaged("another node listed something that is no shard");
    }
    found.push_back(std::move(header.value()));
  }
}

Status RemoteStore::remove(const PartId& part, uint64_t kept) {
  auto channel = connect();
  if (!channel.ok()) return channel.status();
  Status sent = send(*channel.value(), Kind::kRemove, encode_remove(part, kept));
  if (!sent.ok()) return sent;
  return expect(*channel.value(), Kind::kOk).status();
}

}  // namespace gpusnap::levels
