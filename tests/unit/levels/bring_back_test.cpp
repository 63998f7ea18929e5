// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/bring_back.h"

#include <algorithm>

#include "nodes_support.h"
#include "tiers/levels/notes.h"
#include "tiers/levels/sweep.h"

namespace gpusnap::levels::test {
namespace {

constexpr LevelScheme kScheme{2, 1};

// Three checkpoints that are protected, in a store that may lose them.
class BringBack : public ::testing::Test {
 protected:
  BringBack() {
    for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
      EXPECT_TRUE(protect(source_.files(), all_, source_.request(epoch, kScheme, 0), never).ok());
    }
  }

  // The job's checkpoints as a store of another machine has them; "" where there are none.
  static std::vector<std::string> states(Store& store) {
    std::vector<std::string> states;
    const auto listed = store.list("demo");
    EXPECT_TRUE(listed.ok());
    for (const CheckpointInfo& info : listed.value()) {
      states.push_back(info.id + " " + name_of(info.state));
    }
    return states;
  }
  static std::unique_ptr<Store> open(FileSystem& files) {
    auto store = Store::open(files, "/pfs", true);
    EXPECT_TRUE(store.ok());
    return std::move(store.value());
  }
  Result<bool> bring(FaultFileSystem& files, std::optional<uint64_t> epoch = {}) {
    const auto store = open(files);
    return bring_back(files, all_, *store,
                      {"demo", epoch, [this](const std::string& line) { said_.push_back(line); }});
  }

  SomeStore source_{3};
  std::vector<std::unique_ptr<Node>> nodes_ = make_nodes(3);
  Nodes all_ = pointers_to(nodes_);
  std::vector<std::string> said_;
};

TEST_F(BringBack, TheNewestOfAStoreThatIsEmpty) {
  FaultFileSystem empty;
  nodes_[1]->goes_down_after(0);
  const auto brought = bring(empty);
  ASSERT_TRUE(brought.ok()) << brought.status().message();
  EXPECT_TRUE(brought.value());
  EXPECT_EQ(states(*open(empty)), std::vector<std::string>{"demo@3 complete"});
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_NE(said_.front().find("demo@3"), std::string::npos);
  EXPECT_NE(said_.front().find("2 of 3 nodes"), std::string::npos);
  // Then there is nothing to do, and nothing is said.
  EXPECT_FALSE(bring(empty).value());
  EXPECT_EQ(said_.size(), 1U);
}

TEST_F(BringBack, TheOneThatIsAskedFor) {
  FaultFileSystem empty;
  EXPECT_TRUE(bring(empty, 2).value());
  EXPECT_EQ(states(*open(empty)), std::vector<std::string>{"demo@2 complete"});
  EXPECT_FALSE(bring(empty, 9).value());
}

TEST_F(BringBack, WhatTheStoreHasIsLeftAsItIs) {
  EXPECT_FALSE(bring(source_.files()).value());
  EXPECT_FALSE(bring(source_.files(), 1).value());
  EXPECT_TRUE(said_.empty());
}

TEST_F(BringBack, WhatIsDamagedInTheStoreIsReplaced) {
  FaultFileSystem other;
  for (const std::string& path : source_.files().paths()) {
    const bool is_lost = path.starts_with("/pfs/demo/e3/") && path.ends_with("-0.segment");
    if (!is_lost) other.put(path, source_.files().content(path));
  }
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
    ASSERT_TRUE(other.make_folder("/pfs/demo/e" + std::to_string(epoch)).ok());
  }
  EXPECT_EQ(states(*open(other)).front(), "demo@3 damaged");
  const auto brought = bring(other);
  ASSERT_TRUE(brought.ok()) << brought.status().message();
  EXPECT_EQ(states(*open(other)),
            (std::vector<std::string>{"demo@3 complete", "demo@2 complete", "demo@1 complete"}));
}

TEST_F(BringBack, AJobThatIsWrittenToIsLeftAlone) {
  FaultFileSystem empty;
  ASSERT_TRUE(empty.make_folder("/pfs/demo").ok());
  const auto store = open(empty);
  const auto lock = store->lock_job("demo");
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(bring(empty).status().code(), Code::kBusy);
}

// Every operation of putting back fails once: then nothing is there, or all of it is.
TEST_F(BringBack, AFailureLeavesNoHalf) {
  for (size_t operation = 0;; ++operation) {
    FaultFileSystem files;
    FaultFileSystem::Fault fault;
    fault.operation = operation;
    fault.failure = Status(Code::kIo, "device");
    const auto store = open(files);
    files.inject(fault);
    const auto brought = bring_back(files, all_, *store, {"demo", 3, {}});
    const bool ended = files.operations() <= operation;
    files.heal();
    for (const std::string& state : states(*store)) EXPECT_NE(state, "demo@3 damaged");
    EXPECT_TRUE(bring(files, 3).ok()) << operation;
    EXPECT_EQ(states(*store).front(), "demo@3 complete") << operation;
    if (ended) break;
    ASSERT_LT(operation, 1000U);
  }
}

// ---- two runs that took the same numbers, since the store of the first one was lost ----

class TwoRuns : public ::testing::Test {
 protected:
  TwoRuns() {
    protect_all(first_, 3);
    protect_all(second_, 2);
  }
  void protect_all(SomeStore& store, uint64_t epochs) {
    for (uint64_t epoch = 1; epoch <= epochs; ++epoch) {
      EXPECT_TRUE(protect(store.files(), all_, store.request(epoch, kScheme, 0), never).ok());
    }
  }
  static Job second_job() {
    Job job;
    job.run = "def456";
    job.ranges = {5000, 3};
    job.later_ns = 3'600'000'000'000;
    return job;
  }
  Result<bool> bring(FaultFileSystem& files, uint64_t epoch) {
    return bring_back(files, all_, *Store::open(files, "/pfs", true).value(), {"demo", epoch, {}});
  }

  SomeStore first_{3, {}, true};
  SomeStore second_{2, second_job(), true};
  std::vector<std::unique_ptr<Node>> nodes_ = make_nodes(3);
  Nodes all_ = pointers_to(nodes_);
};

TEST_F(TwoRuns, EachComesBackWithItsOwnAncestors) {
  for (const SomeStore* run : {&first_, &second_}) {
    FaultFileSystem empty;
    const uint64_t newest = run == &first_ ? 3 : 2;
    const auto brought = bring(empty, newest);
    ASSERT_TRUE(brought.ok()) << brought.status().message();
    ASSERT_TRUE(brought.value());
    const auto store = std::move(Store::open(empty, "/pfs", false).value());
    for (uint64_t epoch = 1; epoch <= newest; ++epoch) {
      const auto found = store->find("demo@" + std::to_string(epoch));
      ASSERT_TRUE(found.ok()) << found.status().message();
      EXPECT_EQ(found->state, CheckpointState::kComplete) << found->reason;
      EXPECT_EQ(found->ranks.at(0).run, run->job().run) << epoch;
      EXPECT_TRUE(gpusnap::test::restore(*store, found.value(), run->job().ranges).ok());
    }
  }
}

TEST_F(TwoRuns, NothingIsPutBackWhereANumberIsTaken) {
  FaultFileSystem files;
  for (const std::string& path : second_.files().paths()) {
    if (!path.starts_with("/pfs/demo/e1/")) files.put(path, second_.files().content(path));
  }
  ASSERT_TRUE(files.make_folder("/pfs/demo/e2").ok());
  const std::vector<std::string> before = files.paths();
  const auto brought = bring(files, 3);
  EXPECT_EQ(brought.status().code(), Code::kInvalid);
  EXPECT_NE(brought.status().message().find("demo@2 cannot come back"), std::string::npos)
      << brought.status().message();
  std::vector<std::string> after = files.paths();
  std::erase(after, "/pfs/demo/lock");
  EXPECT_EQ(after, before);
}

// ---- what goes ----

PartCopies part(uint64_t epoch, bool is_whole, const std::string& run = "abc") {
  PartCopies copies;
  copies.about.part = {std::string(16, 'a'), "demo", epoch, 0, run};
  copies.about.scheme = {1, 1};
  copies.about.cut_unix_ns = static_cast<int64_t>(epoch);
  copies.shards[0] = {0};
  if (is_whole) copies.shards[1] = {1};
  return copies;
}

std::vector<uint64_t> epochs(const std::vector<PartId>& parts) {
  std::vector<uint64_t> numbers;
  for (const PartId& each : parts) numbers.push_back(each.epoch);
  return numbers;
}

TEST(Sweep, OnlyWhatHasSuccessorsGoes) {
  const std::vector<PartCopies> parts{part(4, true), part(3, true), part(2, true), part(1, true)};
  const StoredParts last_two{{4, 0, "abc"}, {3, 0, "abc"}};
  EXPECT_EQ(epochs(superfluous(parts, last_two, 2)), (std::vector<uint64_t>{2, 1}));
  EXPECT_TRUE(superfluous(parts, last_two, 3).empty());
  EXPECT_TRUE(superfluous(parts, last_two, 0).empty());
  // A store that was lost has nothing: no successors.
  EXPECT_TRUE(superfluous(parts, {}, 1).empty());
}

TEST(Sweep, ASuccessorIsProtectedItself) {
  const std::vector<PartCopies> parts{part(3, false), part(2, true), part(1, true)};
  const StoredParts stored{{3, 0, "abc"}, {2, 0, "abc"}};
  EXPECT_TRUE(superfluous(parts, stored, 2).empty());
  EXPECT_EQ(epochs(superfluous(parts, stored, 1)), std::vector<uint64_t>{1});
}

TEST(Sweep, AnotherRunsPartOfTheSameNumberIsNotInTheStore) {
  const std::vector<PartCopies> parts{part(2, true, "new"), part(1, true, "old")};
  EXPECT_EQ(epochs(superfluous(parts, {{2, 0, "new"}, {1, 0, "new"}}, 1)),
            std::vector<uint64_t>{1});
}

TEST(Sweep, TheStoreIsRead) {
  SomeStore store(2);
  const auto stored = parts_in_store(store.files(), "/pfs/demo", "demo");
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored.value(), (StoredParts{{1, 0, "abc123"}, {2, 0, "abc123"}}));
  EXPECT_TRUE(parts_in_store(store.files(), "/pfs/none", "none").value().empty());
}

TEST(Notes, StayUntilTheyAreRemoved) {
  FaultFileSystem files;
  CheckpointText text;
  text.store = "/pfs";
  text.job = "demo";
  text.run = "abc";
  text.epoch = 3;
  {
    Notes notes(files, "/ssd");
    EXPECT_TRUE(notes.all().empty());
    EXPECT_TRUE(notes.add(text).ok());
    EXPECT_TRUE(notes.add(text).ok());
  }
  files.crash(gpusnap::test::Survival::kNames);
  Notes notes(files, "/ssd");
  EXPECT_EQ(notes.all(), std::vector<CheckpointText>{text});
  notes.remove(text);
  EXPECT_TRUE(notes.all().empty());
}

}  // namespace
}  // namespace gpusnap::levels::test
