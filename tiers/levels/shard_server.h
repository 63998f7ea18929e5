// SPDX-License-Identifier: Apache-2.0
// Serves the shards on this node to the other nodes of the job.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "tiers/levels/channel.h"
#include "tiers/levels/shard_store.h"
#include "tiers/levels/tcp.h"

namespace gpusnap::levels {

// A thread for each connection, kMostConnections at most: more are closed at once.
class ShardServer {
 public:
  static constexpr size_t kMostConnections = 128;
  // `store` outlives it. `warn`: one line for each connection that was refused; any thread.
  static Result<std::unique_ptr<ShardServer>> start(uint16_t port, ShardStore& store,
                                                    const JobKey& key, bool encrypts,
                                                    std::function<void(const std::string&)> warn);
  ~ShardServer();  // ends all connections
  ShardServer(const ShardServer&) = delete;
  ShardServer& operator=(const ShardServer&) = delete;

  uint16_t port() const { return listener_->port(); }

 private:
  struct Connection {
    std::thread thread;
    std::shared_ptr<TcpStream> stream;
    std::atomic<bool> ended{false};
  };

  ShardServer(std::unique_ptr<TcpListener> listener, ShardStore& store, const JobKey& key,
              bool encrypts, std::function<void(const std::string&)> warn);
  void accept_all();
  void join_ended();
  void serve(const std::shared_ptr<TcpStream>& stream);

  const std::unique_ptr<TcpListener> listener_;
  ShardStore& store_;
  const JobKey key_;
  const bool encrypts_;
  const std::function<void(const std::string&)> warn_;
  std::list<Connection> connections_;  // the acceptor's, as long as it runs
  std::thread acceptor_;
};

// Answers requests until the channel ends. (Without sockets, for tests.)
Status answer_all(Channel& channel, ShardStore& store);

}  // namespace gpusnap::levels
