// SPDX-License-Identifier: Apache-2.0
// Two nodes of a job in one process: what gpusnapd does with what its backend commits.
#include "tiers/levels/service.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "nodes_support.h"
#include "tests/support/becomes.h"
#include "tiers/levels/remote_store.h"
#include "tiers/levels/tcp.h"

namespace gpusnap::levels::test {
namespace {

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    key_ = std::filesystem::temp_directory_path() / ("levels-" + std::to_string(::getpid()));
    std::ofstream(key_) << std::string(32, 'k');
    ::chmod(key_.c_str(), 0600);
    for (int i = 0; i < 2; ++i) {
      // Free just now; nobody takes it meanwhile but by chance.
      const auto listener = TcpListener::listen(0);
      settings_.peers.push_back({"127.0.0.1", listener.value()->port()});
    }
    settings_.scheme = LevelScheme{1, 1};
    settings_.key = key_;
  }
  ~ServiceTest() override {
    services_[0].reset();
    services_[1].reset();
    std::filesystem::remove(key_);
  }

  FileSystem& files(size_t node) { return node == 0 ? store_.files() : other_; }

  void start(size_t node) {
    LevelService::Options options;
    options.settings = settings_;
    options.settings.port = settings_.peers[node].port;
    options.ssd = "/ssd";
    options.look_every = std::chrono::milliseconds(100);
    options.warn = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      said_.push_back(line);
    };
    auto service = LevelService::start(files(node), std::move(options));
    ASSERT_TRUE(service.ok()) << service.status().message();
    services_[node] = std::move(service.value());
  }
  void stop(size_t node) { services_[node].reset(); }

  CheckpointText text(uint64_t epoch) const {
    CheckpointText text;
    text.store = "/pfs";
    text.job = "demo";
    text.run = store_.job().run;
    text.epoch = epoch;
    return text;
  }

  // As a node sees it whose files these are.
  bool is_whole(uint64_t epoch) {
    LocalStore first(store_.files(), shards_folder("/ssd"));
    LocalStore second(other_, shards_folder("/ssd"));
    const Catalogue catalogue = look_at({&first, &second}, {}, {});
    return std::ranges::any_of(catalogue.parts, [&](const PartCopies& part) {
      return part.about.part.epoch == epoch && part.is_whole();
    });
  }
  bool has_any(uint64_t epoch) {
    LocalStore first(store_.files(), shards_folder("/ssd"));
    LocalStore second(other_, shards_folder("/ssd"));
    const Catalogue catalogue = look_at({&first, &second}, {}, {});
    return std::ranges::any_of(
        catalogue.parts, [&](const PartCopies& part) { return part.about.part.epoch == epoch; });
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  SomeStore store_{4};
  FaultFileSystem other_;
  std::filesystem::path key_;
  LevelSettings settings_;
  std::unique_ptr<LevelService> services_[2];
  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(ServiceTest, WhatIsCommittedIsProtected) {
  start(0);
  start(1);
  services_[0]->committed(text(1));
  services_[0]->settled(text(1));
  EXPECT_TRUE(becomes([&] { return is_whole(1); }));
  EXPECT_TRUE(becomes([&] { return !services_[0]->is_busy(); }));
  EXPECT_TRUE(said().empty());
}

TEST_F(ServiceTest, ABackendThatFollowsProtectsWhatWasNoted) {
  start(1);
  {
    start(0);
    services_[0]->committed(text(2));
    stop(0);
  }
  start(0);
  EXPECT_TRUE(becomes([&] { return is_whole(2); }));
}

TEST_F(ServiceTest, ANodeThatIsAwayIsWaitedFor) {
  start(0);
  services_[0]->committed(text(1));
  services_[0]->settled(text(1));
  EXPECT_TRUE(becomes([&] { return !said().empty(); }));
  EXPECT_NE(said().front().find("not protected yet"), std::string::npos);
  EXPECT_FALSE(is_whole(1));
  start(1);
  EXPECT_TRUE(becomes([&] { return is_whole(1); }));
}

TEST_F(ServiceTest, ANodeThatComesBackEmptyGetsItsShardsAgain) {
  start(0);
  start(1);
  services_[0]->committed(text(1));
  services_[0]->settled(text(1));
  ASSERT_TRUE(becomes([&] { return is_whole(1); }));
  stop(1);
  for (const std::string& path : other_.paths()) other_.erase(path);
  EXPECT_FALSE(is_whole(1));
  start(1);
  EXPECT_TRUE(becomes([&] { return is_whole(1); }));
}

// Its own parts too, which it knows from the others.
TEST_F(ServiceTest, ANodeThatLostItsStoreAndItsSsdIsMadeWhole) {
  start(0);
  start(1);
  services_[0]->committed(text(1));
  services_[0]->settled(text(1));
  ASSERT_TRUE(becomes([&] { return is_whole(1); }));
  stop(0);
  for (const std::string& path : store_.files().paths()) store_.files().erase(path);
  start(0);
  EXPECT_TRUE(becomes([&] { return is_whole(1); }));
}

TEST_F(ServiceTest, WhatTheStoreHasPrunedGoes) {
  start(0);
  start(1);
  CheckpointText newest = text(4);
  newest.keep = 1;
  services_[0]->committed(text(1));
  services_[0]->settled(text(1));
  ASSERT_TRUE(becomes([&] { return is_whole(1); }));
  for (const std::string& path : store_.files().paths()) {
    if (path.starts_with("/pfs/demo/e1/")) store_.files().erase(path);
  }
  services_[0]->committed(newest);
  services_[0]->settled(newest);
  EXPECT_TRUE(becomes([&] { return is_whole(4) && !has_any(1); }));
  EXPECT_TRUE(becomes([&] { return !services_[0]->is_busy(); }));
  EXPECT_EQ(Notes(store_.files(), "/ssd").all().size(), 1U);
}

// A merge that replaces segments takes them away for a moment.
TEST_F(ServiceTest, APartThatIsInTheStoreStaysNotedThoughAFileIsMissing) {
  const auto paths = store_.files().paths();
  const auto segment = std::ranges::find_if(paths, [](const std::string& path) {
    return path.starts_with("/pfs/demo/e1/") && path.find(".seg") != std::string::npos;
  });
  ASSERT_NE(segment, paths.end());
  const std::vector<std::byte> content = store_.files().content(*segment);
  store_.files().erase(*segment);
  start(0);
  start(1);
  services_[0]->committed(text(1));
  services_[0]->settled(text(1));
  EXPECT_TRUE(becomes([&] { return !said().empty(); })) << "it is not protected";
  EXPECT_EQ(Notes(store_.files(), "/ssd").all().size(), 1U);
  stop(0);
  store_.files().put(*segment, content);
  start(0);
  EXPECT_TRUE(becomes([&] { return is_whole(1); }));
}

TEST_F(ServiceTest, ANodeThatIsNoPeerIsRefused) {
  settings_.peers = {{"198.51.100.1", 7000}, {"198.51.100.2", 7000}};
  LevelService::Options options;
  options.settings = settings_;
  options.ssd = "/ssd";
  EXPECT_EQ(LevelService::start(other_, std::move(options)).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace gpusnap::levels::test
