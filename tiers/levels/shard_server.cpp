// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/shard_server.h"

#include <utility>
#include <vector>

#include "tiers/levels/protocol.h"
#include "tiers/no_throw.h"

namespace gpusnap::levels {

namespace {

// A connection's, which its channel and the server both hold.
class SharedStream final : public ByteStream {
 public:
  explicit SharedStream(std::shared_ptr<TcpStream> stream) : stream_(std::move(stream)) {}
  Status write(std::span<const std::byte> bytes) override { return stream_->write(bytes); }
  Status read(std::span<std::byte> bytes) override { return stream_->read(bytes); }

 private:
  const std::shared_ptr<TcpStream> stream_;
};

Status answer(Channel& channel, const Status& done) {
  return done.ok() ? send(channel, Kind::kOk) : send_failure(channel, done);
}

// A shard that the store does not take is heard to its end: the answer comes after it.
Status take_shard(Channel& channel, ShardStore& store, std::span<const std::byte> body) {
  const auto header = decode_shard_header(body);
  if (!header.ok()) return header.status();
  auto writer = store.put(header.value());
  if (Status told = answer(channel, writer.status()); !told.ok()) return told;
  if (!writer.ok()) return {};
  Status taken;
  for (;;) {
    const auto message = receive(channel);
    if (!message.ok()) return message.status();
    if (message->kind == Kind::kEnd) break;
    if (message->kind != Kind::kBlock) return damaged("a shard came with something else in it");
    if (taken.ok()) taken = writer.value()->add(message->body);
  }
  if (taken.ok()) taken = writer.value()->commit();
  return answer(channel, taken);
}

Status give_shard(Channel& channel, ShardStore& store, std::span<const std::byte> body) {
  const auto request = decode_get(body);
  if (!request.ok()) return request.status();
  auto reader = store.get(request->part, request->key);
  if (!reader.ok()) return send_failure(channel, reader.status());
  const ShardHeader header = reader.value()->header();
  if (Status sent = send(channel, Kind::kOk, encode(header)); !sent.ok()) return sent;
  std::vector<std::byte> block(kUnitBytes);
  for (uint64_t i = 0; i < header.blocks(); ++i) {
    if (Status read = reader.value()->next(block); !read.ok()) return send_failure(channel, read);
    if (Status sent = send(channel, Kind::kBlock, block); !sent.ok()) return sent;
  }
  return send(channel, Kind::kEnd);
}

Status give_list(Channel& channel, ShardStore& store, std::span<const std::byte> body) {
  const auto request = decode_list(body);
  if (!request.ok()) return request.status();
  const auto found = store.list(request->store, request->job);
  if (!found.ok()) return send_failure(channel, found.status());
  for (const ShardHeader& header : found.value()) {
    if (Status sent = send(channel, Kind::kShard, encode(header)); !sent.ok()) return sent;
  }
  return send(channel, Kind::kEnd);
}

Status remove_part(Channel& channel, ShardStore& store, std::span<const std::byte> body) {
  const auto request = decode_remove(body);
  if (!request.ok()) return request.status();
  return answer(channel, store.remove(request->part, request->kept));
}

Status answer_one(Channel& channel, ShardStore& store) {
  const auto request = receive(channel);
  if (!request.ok()) return request.status();
  switch (request->kind) {
    case Kind::kPut:
      return take_shard(channel, store, request->body);
    case Kind::kGet:
      return give_shard(channel, store, request->body);
    case Kind::kList:
      return give_list(channel, store, request->body);
    case Kind::kRemove:
      return remove_part(channel, store, request->body);
    default:
      return damaged("another node asked for something that makes no sense");
  }
}

}  // namespace

Status answer_all(Channel& channel, ShardStore& store) {
  for (;;) {
    Status answered = answer_one(channel, store);
    if (!answered.ok()) return answered;
  }
}

Result<std::unique_ptr<ShardServer>> ShardServer::start(
    uint16_t port, ShardStore& store, const JobKey& key, bool encrypts,
    std::function<void(const std::string&)> warn) {
  auto listener = TcpListener::listen(port);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<ShardServer>(
      new ShardServer(std::move(listener.value()), store, key, encrypts, std::move(warn)));
}

ShardServer::ShardServer(std::unique_ptr<TcpListener> listener, ShardStore& store,
                         const JobKey& key, bool encrypts,
                         std::function<void(const std::string&)> warn)
    : listener_(std::move(listener)),
      store_(store),
      key_(key),
      encrypts_(encrypts),
      warn_(std::move(warn)),
      acceptor_([this] { accept_all(); }) {}

ShardServer::~ShardServer() {
  listener_->stop();
  acceptor_.join();
  for (const Connection& connection : connections_) connection.stream->shut_down();
  for (Connection& connection : connections_) connection.thread.join();
}

void ShardServer::accept_all() {
  while (std::shared_ptr<TcpStream> stream = listener_->accept()) {
    join_ended();
    if (connections_.size() >= kMostConnections) continue;
    Connection& connection = connections_.emplace_back();
    connection.stream = stream;
    connection.thread = std::thread([this, &connection] {
      (void)no_throw("serve another node", [&] {
        serve(connection.stream);
        return Status();
      });
      connection.stream->shut_down();
      connection.ended.store(true);
    });
  }
}

void ShardServer::join_ended() {
  std::erase_if(connections_, [](Connection& connection) {
    if (!connection.ended.load()) return false;
    connection.thread.join();
    return true;
  });
}

void ShardServer::serve(const std::shared_ptr<TcpStream>& stream) {
  auto channel = Channel::open(std::make_unique<SharedStream>(stream), Channel::Side::kServer, key_,
                               encrypts_);
  if (channel.ok()) {
    stream->wait_for(kLongestWork);
    (void)answer_all(*channel.value(), store_);
  } else if (channel.status().code() != Code::kIo && warn_) {
    warn_("a connection was refused: " + channel.status().message());
  }
}

}  // namespace gpusnap::levels
