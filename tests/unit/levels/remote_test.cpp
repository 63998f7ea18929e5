// SPDX-License-Identifier: Apache-2.0
// Shards over TCP, on this machine.
#include <gtest/gtest.h>

#include <mutex>
#include <random>

#include "nodes_support.h"
#include "tests/support/becomes.h"
#include "tiers/levels/remote_store.h"
#include "tiers/levels/shard_server.h"

namespace gpusnap::levels::test {
namespace {

JobKey job_key(unsigned char byte) {
  JobKey key;
  key.bytes.fill(byte);
  return key;
}

// A node that is served, and the way to it.
struct Served {
  Served(const JobKey& key, const JobKey& client_key, bool encrypts) {
    auto started = ShardServer::start(0, node, key, encrypts, [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      said.push_back(line);
    });
    EXPECT_TRUE(started.ok()) << started.status().message();
    server = std::move(started.value());
    store = std::make_unique<RemoteStore>(PeerAddress{"127.0.0.1", server->port()}, client_key,
                                          encrypts, nullptr);
  }
  std::vector<std::string> heard() {
    const std::lock_guard lock(mutex);
    return said;
  }
  Node node;
  std::mutex mutex;
  std::vector<std::string> said;
  std::unique_ptr<ShardServer> server;
  std::unique_ptr<RemoteStore> store;
};

TEST(Remote, PartsGoToOtherNodesAndComeBack) {
  SomeStore store(1);
  for (const bool encrypts : {false, true}) {
    std::vector<std::unique_ptr<Served>> served;
    Nodes nodes;
    for (int i = 0; i < 3; ++i) {
      served.push_back(std::make_unique<Served>(job_key(1), job_key(1), encrypts));
      nodes.push_back(served.back()->store.get());
    }
    const Status done = protect(store.files(), nodes, store.request(1, {2, 1}, 0), never);
    ASSERT_TRUE(done.ok()) << done.message();
    served[1]->server.reset();
    const Catalogue catalogue = look_at(nodes, {}, {});
    ASSERT_EQ(catalogue.parts.size(), 1U);
    EXPECT_EQ(catalogue.unreachable.size(), 1U);
    FaultFileSystem other;
    uint64_t last = 0;
    const Status rebuilt = rebuild(other, nodes, catalogue.parts.front(), store.place(1),
                                   [&](uint64_t now, uint64_t total) {
                                     EXPECT_GE(now, last);
                                     EXPECT_LE(now, total);
                                     last = now;
                                   });
    ASSERT_TRUE(rebuilt.ok()) << rebuilt.message();
    EXPECT_EQ(last, catalogue.parts.front().about.image_bytes);
    EXPECT_TRUE(store.came_back(other, 1));
    EXPECT_TRUE(nodes[0]->remove(store.part(1), 0).ok());
    EXPECT_EQ(look_at(nodes, {}, {}).parts.front().shards.size(), 1U);
  }
}

TEST(Remote, AForeignKeyIsRefusedByName) {
  SomeStore store(1);
  Served good(job_key(1), job_key(1), false);
  Served foreign(job_key(1), job_key(2), false);
  const Nodes nodes{good.store.get(), foreign.store.get()};
  const Status done = protect(store.files(), nodes, store.request(1, {1, 1}, 0), never);
  EXPECT_EQ(done.code(), Code::kPermission) << done.message();
  EXPECT_TRUE(foreign.node.files().paths().empty());
  EXPECT_TRUE(becomes([&] { return !foreign.heard().empty(); }));
  EXPECT_NE(foreign.heard().front().find("key"), std::string::npos);
}

TEST(Remote, AnswersWhatIsNotThere) {
  SomeStore store(1);
  Served served(job_key(1), job_key(1), false);
  EXPECT_EQ(served.store->get(store.part(1), {1, 0}).status().code(), Code::kNotFound);
  EXPECT_TRUE(served.store->remove(store.part(1), 0).ok());
  EXPECT_TRUE(served.store->list({}, {}).value().empty());
}

TEST(Remote, ADeviceThatFailsIsTold) {
  SomeStore store(1);
  Served good(job_key(1), job_key(1), false);
  Served full(job_key(1), job_key(1), false);
  FaultFileSystem::Fault fault;
  fault.failure = Status(Code::kNoSpace, "no space");
  fault.persists = true;
  full.node.files().inject(fault);
  const Nodes nodes{good.store.get(), full.store.get()};
  const Status done = protect(store.files(), nodes, store.request(1, {1, 1}, 0), never);
  EXPECT_EQ(done.code(), Code::kNoSpace) << done.message();
}

// Anything that a node with the key may say is answered or ends the connection, and nothing else.
TEST(Remote, ANodeThatTalksNonsenseDoesNoHarm) {
  std::mt19937_64 random(3);
  Served served(job_key(1), job_key(1), false);
  for (int i = 0; i < 60; ++i) {
    auto stream = TcpStream::connect({"127.0.0.1", served.server->port()});
    ASSERT_TRUE(stream.ok());
    auto channel =
        Channel::open(std::move(stream.value()), Channel::Side::kClient, job_key(1), false);
    ASSERT_TRUE(channel.ok()) << channel.status().message();
    for (int k = 0; k < 3; ++k) {
      std::vector<std::byte> nonsense(random() % 60);
      for (std::byte& byte : nonsense) byte = static_cast<std::byte>(random());
      if (!nonsense.empty()) nonsense[0] = static_cast<std::byte>(random() % 12);
      (void)channel.value()->send(nonsense);
    }
  }
  EXPECT_TRUE(served.store->list({}, {}).ok());
}

TEST(Remote, OwnAddressesAreFound) {
  const std::vector<PeerAddress> peers{{"198.51.100.1", 7000}, {"127.0.0.1", 7000}};
  EXPECT_EQ(find_own(peers, 0).value(), 1U);
  const std::vector<PeerAddress> two{{"127.0.0.1", 7000}, {"127.0.0.1", 7001}};
  EXPECT_EQ(find_own(two, 0).status().code(), Code::kInvalid);
  EXPECT_EQ(find_own(two, 7001).value(), 1U);
  EXPECT_EQ(find_own({{"198.51.100.1", 7000}}, 0).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace gpusnap::levels::test
