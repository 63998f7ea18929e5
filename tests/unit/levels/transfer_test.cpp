// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/transfer.h"

#include <map>
#include <random>
#include <set>

#include "nodes_support.h"
#include "tiers/levels/groups.h"

namespace gpusnap::levels::test {
namespace {

const PartCopies* find(const Catalogue& catalogue, uint64_t epoch) {
  for (const PartCopies& each : catalogue.parts) {
    if (each.about.part.epoch == epoch) return &each;
  }
  return nullptr;
}

TEST(Transfer, APartComesBackFromEveryLossUpToTheParity) {
  SomeStore store(1);
  for (const LevelScheme scheme : {LevelScheme{1, 1}, LevelScheme{2, 1}, LevelScheme{2, 2}}) {
    auto nodes = make_nodes(scheme.shards());
    const Nodes all = pointers_to(nodes);
    const Status done = protect(store.files(), all, store.request(1, scheme, 0), never);
    ASSERT_TRUE(done.ok()) << done.message();
    for (uint32_t lost = 0; lost < (1U << scheme.shards()); ++lost) {
      uint32_t losses = 0;
      for (uint32_t i = 0; i < scheme.shards(); ++i) {
        const bool is_lost = ((lost >> i) & 1) != 0;
        is_lost ? nodes[i]->goes_down_after(0) : nodes[i]->comes_back();
        losses += is_lost ? 1 : 0;
      }
      const Catalogue catalogue = look_at(all, {}, {});
      EXPECT_EQ(catalogue.unreachable.size(), losses);
      const PartCopies* const copies = find(catalogue, 1);
      if (losses == scheme.shards()) continue;
      ASSERT_NE(copies, nullptr);
      EXPECT_EQ(copies->is_whole(), losses == 0);
      EXPECT_EQ(copies->is_recoverable(), losses <= scheme.parity);
      FaultFileSystem other;
      const Status rebuilt = rebuild(other, all, *copies, store.place(1), {});
      EXPECT_EQ(rebuilt.ok(), losses <= scheme.parity) << rebuilt.message();
      if (rebuilt.ok()) {
        EXPECT_TRUE(store.came_back(other, 1));
      } else {
        EXPECT_TRUE(other.paths().empty());
      }
    }
  }
}

TEST(Transfer, AShardThatIsDamagedIsLeftOut) {
  SomeStore store(1);
  auto nodes = make_nodes(4);
  const Nodes all = pointers_to(nodes);
  ASSERT_TRUE(protect(store.files(), all, store.request(1, {2, 2}, 0), never).ok());
  const auto damage = [](FaultFileSystem& files) {
    for (const std::string& path : files.paths()) {
      auto bytes = files.content(path);
      bytes.back() ^= std::byte{1};
      files.put(path, bytes);
    }
  };
  for (int damaged = 0; damaged < 3; ++damaged) {
    const Catalogue catalogue = look_at(all, {}, {});
    FaultFileSystem other;
    const Status rebuilt = rebuild(other, all, *find(catalogue, 1), store.place(1), {});
    ASSERT_TRUE(rebuilt.ok()) << rebuilt.message();
    EXPECT_TRUE(store.came_back(other, 1));
    damage(nodes[static_cast<size_t>(damaged)]->files());
  }
  const Catalogue catalogue = look_at(all, {}, {});
  FaultFileSystem other;
  EXPECT_FALSE(rebuild(other, all, *find(catalogue, 1), store.place(1), {}).ok());
  EXPECT_TRUE(other.paths().empty());
}

TEST(Transfer, APartThatIsPutBackIsACompleteCheckpoint) {
  SomeStore store(2);
  auto nodes = make_nodes(3);
  const Nodes all = pointers_to(nodes);
  ASSERT_TRUE(protect(store.files(), all, store.request(1, {2, 1}, 1), never).ok());
  ASSERT_TRUE(protect(store.files(), all, store.request(2, {2, 1}, 1), never).ok());
  FaultFileSystem other;
  const Catalogue catalogue = look_at(all, store.part(1).store, "demo");
  // The older one after the newer one: the journal is not shortened.
  for (const uint64_t epoch : {2U, 1U}) {
    const Status done = rebuild(other, all, *find(catalogue, epoch), store.place(epoch), {});
    ASSERT_TRUE(done.ok()) << done.message();
  }
  const auto opened = Store::open(other, "/pfs", false);
  ASSERT_TRUE(opened.ok());
  for (const char* const id : {"demo@1", "demo@2"}) {
    const auto info = opened.value()->find(id);
    ASSERT_TRUE(info.ok()) << info.status().message();
    EXPECT_EQ(info->state, CheckpointState::kComplete) << info->reason;
    EXPECT_TRUE(opened.value()->verify(info.value(), {}).ok());
    EXPECT_TRUE(gpusnap::test::restore(*opened.value(), info.value(), store.job().ranges).ok());
  }
}

TEST(Transfer, OtherJobsAndStoresAreNotListed) {
  SomeStore store(1);
  auto nodes = make_nodes(2);
  const Nodes all = pointers_to(nodes);
  ASSERT_TRUE(protect(store.files(), all, store.request(1, {1, 1}, 0), never).ok());
  EXPECT_EQ(look_at(all, store.part(1).store, "demo").parts.size(), 1U);
  EXPECT_TRUE(look_at(all, store.part(1).store, "other").parts.empty());
  EXPECT_TRUE(look_at(all, store_key("/other"), "demo").parts.empty());
}

// An acknowledged shard is durable: nothing of it is lost when a machine stops right after.
TEST(Transfer, AcknowledgedShardsSurviveACrash) {
  SomeStore store(1);
  for (const gpusnap::test::Survival survival : gpusnap::test::kAllSurvivals) {
    auto nodes = make_nodes(3);
    const Nodes all = pointers_to(nodes);
    ASSERT_TRUE(protect(store.files(), all, store.request(1, {2, 1}, 0), never).ok());
    for (auto& node : nodes) node->files().crash(survival);
    const Catalogue catalogue = look_at(all, {}, {});
    ASSERT_NE(find(catalogue, 1), nullptr);
    EXPECT_TRUE(find(catalogue, 1)->is_whole());
    FaultFileSystem other;
    EXPECT_TRUE(rebuild(other, all, *find(catalogue, 1), store.place(1), {}).ok());
    EXPECT_TRUE(store.came_back(other, 1));
  }
}

// A random life of some nodes, and what has to hold in it.
class History {
 public:
  explicit History(uint64_t seed, SomeStore& store)
      : random_(seed), store_(store), scheme_(kSchemes[below(std::size(kSchemes))]) {
    nodes_ = make_nodes(scheme_.shards() + below(3));
    all_ = pointers_to(nodes_);
  }

  void live(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      take_step();
      note_what_is_whole();
      check();
    }
    for (const auto& [epoch, part] : parts_) {
      if (!::testing::Test::HasFailure()) check(epoch, part);
    }
  }

 private:
  static constexpr LevelScheme kSchemes[] = {{1, 1}, {2, 1}, {2, 2}, {3, 2}, {1, 2}};
  static constexpr uint64_t kEpochs = 4;

  struct Part {
    uint32_t owner = 0;
    std::optional<std::set<uint32_t>> lost;  // nodes that were wiped since it was whole
  };

  uint64_t below(uint64_t end) { return random_() % end; }
  Node& any_node() { return *nodes_[below(nodes_.size())]; }

  void take_step() {
    const uint64_t epoch = 1 + below(kEpochs);
    switch (below(8)) {
      case 0:
      case 1:
        protect_part(epoch);
        break;
      case 2:
        any_node().goes_down_after(below(12));
        break;
      case 3:
      case 4:
        any_node().comes_back();
        break;
      case 5:
        any_node().crashes(random_());
        break;
      case 6:
        wipe(static_cast<uint32_t>(below(nodes_.size())));
        break;
      default:
        repair_all();
        break;
    }
  }

  void protect_part(uint64_t epoch) {
    const auto owner = static_cast<uint32_t>(below(nodes_.size()));
    const uint32_t by = parts_.contains(epoch) ? parts_[epoch].owner : owner;
    const Status done = protect(store_.files(), all_, store_.request(epoch, scheme_, by), never);
    parts_[epoch].owner = by;
    if (done.ok()) parts_[epoch].lost.emplace();
  }

  void wipe(uint32_t node) {
    nodes_[node]->is_wiped();
    for (auto& [epoch, part] : parts_) {
      if (part.lost) part.lost->insert(node);
    }
  }

  void repair_all() {
    const Catalogue catalogue = look_at(all_, {}, {});
    for (const PartCopies& copies : catalogue.parts) {
      if (!copies.is_recoverable()) continue;
      const auto found = parts_.find(copies.about.part.epoch);
      ASSERT_NE(found, parts_.end());
      (void)repair(all_, copies, found->second.owner, never);
    }
  }

  // As `gpusnap list` would show it.
  void note_what_is_whole() {
    const Catalogue catalogue = look_at(all_, {}, {});
    for (const EpochCopies& epoch : epochs_of(catalogue.parts)) {
      if (epoch.is_whole) parts_[epoch.epoch].lost.emplace();
    }
  }

  void check() {
    if (parts_.empty() || below(4) != 0) return;
    auto part = parts_.begin();
    std::advance(part, static_cast<std::ptrdiff_t>(below(parts_.size())));
    check(part->first, part->second);
  }

  // A part that was whole is there as long as no more nodes were lost than may be, once the others
  // are back.
  void check(uint64_t epoch, const Part& part) {
    if (!part.lost || part.lost->size() > scheme_.parity) return;
    for (auto& node : nodes_) node->comes_back();
    const Catalogue catalogue = look_at(all_, {}, {});
    const auto epochs = epochs_of(catalogue.parts);
    const auto found = std::ranges::find(epochs, epoch, &EpochCopies::epoch);
    ASSERT_NE(found, epochs.end());
    ASSERT_TRUE(found->is_recoverable);
    FaultFileSystem other;
    const Status rebuilt = rebuild(other, all_, *found->parts[0], store_.place(epoch), {});
    ASSERT_TRUE(rebuilt.ok()) << rebuilt.message();
    ASSERT_TRUE(store_.came_back(other, epoch));
  }

  std::mt19937_64 random_;
  SomeStore& store_;
  const LevelScheme scheme_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Nodes all_;
  std::map<uint64_t, Part> parts_;  // by epoch
};

TEST(Histories, NothingThatWasListedAsProtectedIsLost) {
  SomeStore store(4);
  const uint64_t histories = std::getenv("GPUSNAP_SOAK") != nullptr ? 2000 : 15;
  for (uint64_t seed = 1; seed <= histories && !HasFailure(); ++seed) {
    SCOPED_TRACE("history " + std::to_string(seed));
    History(seed, store).live(60);
  }
}

// ---- what nodes say, put together ----

ShardHeader shard(uint64_t epoch, uint32_t rank, uint32_t number, uint64_t parent = 0) {
  ShardHeader header;
  header.part = {std::string(16, 'a'), "demo", epoch, rank, "run"};
  header.scheme = {1, 1};
  header.number = number;
  header.image_bytes = 1;
  header.coding = 1;
  header.owner = "a:1";
  header.ranks = 2;
  header.parent = parent;
  return header;
}

TEST(Copies, AnEpochNeedsAllRanksAndAllAncestors) {
  std::vector<ShardHeader> first, second;
  for (const uint32_t rank : {0U, 1U}) {
    first.push_back(shard(1, rank, 0));
    second.push_back(shard(1, rank, 1));
    first.push_back(shard(2, rank, 0, 1));
    second.push_back(shard(2, rank, 1, 1));
  }
  auto parts = put_together({{0, first}, {1, second}});
  auto epochs = epochs_of(parts);
  ASSERT_EQ(epochs.size(), 2U);
  EXPECT_EQ(epochs[0].epoch, 2U);
  EXPECT_TRUE(epochs[0].is_whole && epochs[1].is_whole);
  // Without one rank's ancestor's second shard, both are only recoverable.
  second.erase(second.begin() + 2);
  ASSERT_EQ(second[1].part.epoch, 2U);
  parts = put_together({{0, first}, {1, second}});
  epochs = epochs_of(parts);
  EXPECT_FALSE(epochs[0].is_whole);
  EXPECT_TRUE(epochs[0].is_recoverable);
  // Without that ancestor at all, only it and its child are gone.
  first.erase(first.begin() + 2);
  parts = put_together({{0, first}, {1, second}});
  epochs = epochs_of(parts);
  EXPECT_FALSE(epochs[0].is_recoverable);
  EXPECT_FALSE(epochs[1].is_recoverable);
}

// Two runs have reached epoch 3; each has lost what the other one still has.
TEST(Copies, RanksOfDifferentRunsAreNoCheckpoint) {
  std::vector<ShardHeader> first, second;
  const auto add = [&](const std::string& run, uint64_t job_run, uint32_t rank, int64_t cut,
                       bool both) {
    for (const uint32_t number : {0U, 1U}) {
      ShardHeader header = shard(3, rank, number);
      header.scheme = {2, 1};
      header.part.run = run;
      header.job_run = job_run;
      header.cut_unix_ns = cut;
      if (number == 0 || both) (number == 0 ? first : second).push_back(header);
    }
  };
  add("old0", 1, 0, 10, true);
  add("old1", 1, 1, 10, false);
  add("new0", 2, 0, 20, false);
  add("new1", 2, 1, 20, true);
  const auto parts = put_together({{0, first}, {1, second}});
  const auto epochs = epochs_of(parts);
  ASSERT_EQ(epochs.size(), 2U);
  for (const EpochCopies& each : epochs) {
    EXPECT_EQ(each.epoch, 3U);
    EXPECT_FALSE(each.is_recoverable);
    ASSERT_EQ(each.parts.size(), 2U);
    EXPECT_EQ(each.parts[0]->about.job_run, each.parts[1]->about.job_run);
  }
}

TEST(Copies, AShardOfTheFirstVersionHasNoRun) {
  ShardHeader header = shard(3, 1, 0);
  header.job_run = 5;
  auto bytes = encode(header);
  EXPECT_EQ(decode_shard_header(bytes)->job_run, 5U);
  bytes.resize(bytes.size() - sizeof header.job_run);
  const auto earlier = decode_shard_header(bytes);
  ASSERT_TRUE(earlier.ok()) << earlier.status().message();
  EXPECT_EQ(earlier->job_run, 0U);
  EXPECT_EQ(earlier->part, header.part);
}

// A child's parent is its own run's, though another run has taken the number since; else one that
// was there before the child.
TEST(Copies, AParentIsNotARunThatCameLater) {
  std::vector<PartCopies> parts;
  const auto add = [&](uint64_t epoch, const std::string& run, int64_t cut, uint64_t parent) {
    PartCopies copies;
    copies.about = shard(epoch, 0, 0, parent);
    copies.about.part.run = run;
    copies.about.cut_unix_ns = cut;
    copies.about.ranks = 1;
    copies.shards = {{0, {0}}, {1, {1}}};
    parts.push_back(copies);
  };
  add(3, "restored", 30, 2);
  add(2, "new", 90, 0);
  add(2, "old", 20, 0);
  add(2, "older", 10, 0);
  EXPECT_EQ(Ancestry(parts).parent_of(parts[0]), &parts[2]);
  parts[0].about.part.run = "older";
  EXPECT_EQ(Ancestry(parts).parent_of(parts[0]), &parts[3]);
  EXPECT_EQ(Ancestry(parts).parent_of(parts[1]), nullptr);
  // The newer run's number 2 is not the ancestor of 3.
  parts[3].shards.erase(1);
  EXPECT_FALSE(epochs_of(parts).front().is_whole);
  parts[0].about.part.run = "restored";
  EXPECT_TRUE(epochs_of(parts).front().is_whole);
}

TEST(Copies, TwoShardsOnOneNodeAreNotProtected) {
  const std::vector<ShardHeader> both{shard(1, 0, 0), shard(1, 0, 1)};
  EXPECT_FALSE(put_together({{0, both}}).front().is_whole());
  EXPECT_TRUE(put_together({{0, both}, {1, {shard(1, 0, 0)}}}).front().is_whole());
  EXPECT_TRUE(put_together({{0, {shard(1, 0, 0)}}, {1, both}}).front().is_whole());
}

}  // namespace
}  // namespace gpusnap::levels::test
