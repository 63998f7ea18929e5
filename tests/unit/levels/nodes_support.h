// SPDX-License-Identifier: Apache-2.0
// A store with checkpoints, and nodes with shards that can go down, be wiped, or fail at some
// operation.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fault_file_system.h"
#include "support.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/levels/local_store.h"
#include "tiers/levels/transfer.h"

namespace gpusnap::levels::test {

using gpusnap::test::FaultFileSystem;
using gpusnap::test::Job;
using gpusnap::test::LocalBackend;

inline constexpr const char* kShards = "/ssd/shards";

// One node's SSD, and the way to it.
class Node final : public ShardStore {
 public:
  Node() : files_(std::make_unique<FaultFileSystem>()) { start(); }

  // Operations from now on until it goes down.
  void goes_down_after(uint64_t operations) { left_ = operations; }
  bool is_up() const { return left_ > 0; }
  void comes_back() { left_ = UINT64_MAX; }
  // Bytes that were not synced are forgotten.
  void crashes(uint64_t seed) {
    store_.reset();
    files_->crash(seed);
    start();
  }
  void is_wiped() {
    store_.reset();
    files_ = std::make_unique<FaultFileSystem>();
    start();
  }
  FaultFileSystem& files() { return *files_; }

  Result<std::unique_ptr<ShardWriter>> put(const ShardHeader& header) override {
    if (!takes_one()) return down();
    auto writer = store_->put(header);
    if (!writer.ok()) return writer.status();
    return std::unique_ptr<ShardWriter>(std::make_unique<Writer>(*this, std::move(writer.value())));
  }
  Result<std::unique_ptr<ShardReader>> get(const PartId& part, const ShardKey& key) override {
    if (!takes_one()) return down();
    auto reader = store_->get(part, key);
    if (!reader.ok()) return reader.status();
    return std::unique_ptr<ShardReader>(std::make_unique<Reader>(*this, std::move(reader.value())));
  }
  Result<std::vector<ShardHeader>> list(const std::string& store, const std::string& job) override {
    if (!takes_one()) return down();
    return store_->list(store, job);
  }
  Status remove(const PartId& part, uint64_t kept) override {
    return takes_one() ? store_->remove(part, kept) : down();
  }

 private:
  class Writer final : public ShardWriter {
   public:
    Writer(Node& node, std::unique_ptr<ShardWriter> writer)
        : node_(node), writer_(std::move(writer)) {}
    Status add(std::span<const std::byte> block) override {
      return node_.takes_one() ? writer_->add(block) : down();
    }
    Status commit() override { return node_.takes_one() ? writer_->commit() : down(); }

   private:
    Node& node_;
    const std::unique_ptr<ShardWriter> writer_;
  };
  class Reader final : public ShardReader {
   public:
    Reader(Node& node, std::unique_ptr<ShardReader> reader)
        : node_(node), reader_(std::move(reader)) {}
    const ShardHeader& header() const override { return reader_->header(); }
    Status next(std::span<std::byte> block) override {
      return node_.takes_one() ? reader_->next(block) : down();
    }

   private:
    Node& node_;
    const std::unique_ptr<ShardReader> reader_;
  };

  static Status down() { return {Code::kIo, "the node is down"}; }
  bool takes_one() {
    if (left_ == 0) return false;
    if (left_ != UINT64_MAX) --left_;
    return left_ > 0;
  }
  void start() {
    store_ = std::make_unique<LocalStore>(*files_, kShards);
    store_->tidy_up();
  }

  std::unique_ptr<FaultFileSystem> files_;
  std::unique_ptr<LocalStore> store_;
  uint64_t left_ = UINT64_MAX;
};

// A job's checkpoints 1 to `epochs` in a store; nobody writes there any more.
class SomeStore {
 public:
  // `chained`: each but the first one is an increment of the one before.
  explicit SomeStore(uint64_t epochs, Job job = {}, bool chained = false) : job_(std::move(job)) {
    LocalBackend backend(files_);
    const auto journal = gpusnap::test::open_journal(backend, job_);
    for (uint64_t epoch = 1; epoch <= epochs; ++epoch) {
      const Status taken = gpusnap::test::take_checkpoint(backend, job_, epoch, journal.get(),
                                                          chained ? epoch - 1 : 0);
      EXPECT_TRUE(taken.ok()) << taken.message();
    }
    backend.wait_for_checkpoints();
  }

  FaultFileSystem& files() { return files_; }
  const Job& job() const { return job_; }
  PartPlace place(uint64_t epoch) const { return {"/pfs/demo", "demo", epoch, 0}; }
  PartId part(uint64_t epoch) const { return {store_key("/pfs"), "demo", epoch, 0, job_.run}; }
  ProtectRequest request(uint64_t epoch, const LevelScheme& scheme, uint32_t owner) const {
    return {place(epoch), part(epoch), scheme, owner, "node" + std::to_string(owner) + ":7000"};
  }

  // Whether a store into which the part was put back has it, all of it, and nothing else.
  ::testing::AssertionResult came_back(const FaultFileSystem& other, uint64_t epoch) const {
    const std::string folder = "/pfs/demo/e" + std::to_string(epoch) + "/";
    for (const std::string& path : files_.paths()) {
      if (!path.starts_with(folder)) continue;
      if (!other.exists(path) || other.content(path) != files_.content(path)) {
        return ::testing::AssertionFailure() << path << " is missing, or another file";
      }
    }
    const std::string journal = "/pfs/demo/" + gpusnap::test::journal_name(job_);
    for (const std::string& path : other.paths()) {
      if (path == journal) {
        const auto whole = files_.content(path);
        const auto leading = other.content(path);
        if (!std::equal(leading.begin(), leading.end(), whole.begin())) {
          return ::testing::AssertionFailure() << "the journal is another one";
        }
      } else if (!path.starts_with(folder)) {
        return ::testing::AssertionFailure() << path << " was left";
      }
    }
    if (!other.exists(journal)) return ::testing::AssertionFailure() << "there is no journal";
    return ::testing::AssertionSuccess();
  }

 private:
  FaultFileSystem files_;
  Job job_;
};

inline Nodes pointers_to(std::vector<std::unique_ptr<Node>>& nodes) {
  Nodes pointers;
  for (const auto& node : nodes) pointers.push_back(node.get());
  return pointers;
}

inline std::vector<std::unique_ptr<Node>> make_nodes(size_t count) {
  std::vector<std::unique_ptr<Node>> nodes;
  for (size_t i = 0; i < count; ++i) nodes.push_back(std::make_unique<Node>());
  return nodes;
}

inline bool never() {
  return false;
}

}  // namespace gpusnap::levels::test
