// Chains of increments come back as the memory that they were made of.
#include <algorithm>
#include <cstdlib>
#include <functional>

#include "chain_support.h"
#include "fault_file_system.h"
#include "tiers/checksum.h"

namespace gpusnap::test {
namespace {

// Ranks whose memory changes and is saved, at random, and what must come of it.
class RandomJob {
 public:
  explicit RandomJob(uint64_t seed)
      : random_(seed),
        ranks_(1 + static_cast<uint32_t>(below(random_, 2))),
        memory_(ranks_),
        parents_(ranks_) {}

  void run() {
    for (int step = 0; step < 12; ++step) {
      if (below(random_, 8) == 0) restore();
      for (DeviceMemory& memory : memory_) memory.change(random_);
      take();
      if (below(random_, 3) == 0) merge();
      if (below(random_, 3) == 0) prune();
      expect_all_there();
    }
  }

 private:
  struct Taken {
    std::map<uint32_t, Image> images;  // of the ranks that have committed
    std::map<uint32_t, uint64_t> parents;
    std::map<uint32_t, uint32_t> chains;
  };

  bool is_complete(const Taken& taken) const { return taken.images.size() == ranks_; }

  Job job(uint32_t rank) const {
    return {"demo", "run" + std::to_string(run_), rank, ranks_, {}, uint64_t{12} << 10};
  }

  void take() {
    const uint64_t epoch = store_->next_epoch("demo").value();
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const bool full = below(random_, 6) == 0;
      const std::optional<Parent> parent = full ? std::nullopt : parents_[rank];
      Increment increment(backend_, job(rank), epoch);
      increment.save(memory_[rank], parent, random_);
      const bool torn = below(random_, 7) == 0 && !increment.manifest().ranges.empty() &&
                        (!parent || increment.manifest().ranges.front().fresh);
      const Status taken = increment.finish(nullptr, torn ? Status(Code::kTorn, "torn") : Status());
      ASSERT_EQ(taken.code(), torn ? Code::kTorn : Code::kOk) << taken.message();
      if (torn) {
        backend_.wait_for_checkpoints();
        continue;
      }
      Taken& entry = taken_[epoch];
      entry.images[rank] = memory_[rank].image();
      entry.parents[rank] = parent ? parent->epoch : 0;
      entry.chains[rank] = parent ? parent->chain + 1 : 0;
      parents_[rank] = Parent{epoch, entry.chains[rank], memory_[rank].image()};
      memory_[rank].clean();
    }
  }

  // All ranks go back to one checkpoint that is there, and on from it in another run.
  void restore() {
    std::vector<uint64_t> there;
    for (const auto& [epoch, taken] : taken_) {
      if (is_complete(taken)) there.push_back(epoch);
    }
    if (there.empty()) return;
    const uint64_t epoch = there[below(random_, there.size())];
    ++run_;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const Taken& taken = taken_.at(epoch);
      memory_[rank].restore(taken.images.at(rank));
      parents_[rank] = Parent{epoch, taken.chains.at(rank), taken.images.at(rank)};
    }
  }

  // Any of what is there: its bytes are its own from then on.
  void merge() {
    if (taken_.empty()) return;
    auto each = taken_.begin();
    std::advance(each, below(random_, taken_.size()));
    for (auto& [rank, parent] : each->second.parents) {
      const auto merged = merge_part(files_, each->first, rank, 2);
      ASSERT_TRUE(merged.ok()) << merged.status().message();
      EXPECT_EQ(merged.value(), parent != 0);
      parent = 0;
    }
  }

  void prune() {
    const uint64_t keep = 1 + below(random_, 3);
    // The checkpoint that the run goes on from stays at least until the run has committed.
    const auto newest = std::find_if(taken_.rbegin(), taken_.rend(),
                                     [&](const auto& each) { return is_complete(each.second); });
    if (newest == taken_.rend()) return;
    for (const auto& parent : parents_) {
      if (parent && parent->epoch < newest->first) return;
    }
    ASSERT_TRUE(prune_folder(files_, "/pfs/demo", static_cast<uint32_t>(keep)).ok());
    uint64_t complete = 0;
    std::set<uint64_t> needed;
    for (auto each = taken_.rbegin(); each != taken_.rend();) {
      const auto& [epoch, taken] = *each;
      const bool kept = is_complete(taken) ? complete++ < keep : epoch > newest->first;
      if (kept || needed.count(epoch) > 0) {
        for (const auto& [rank, parent] : taken.parents) needed.insert(parent);
        ++each;
      } else {
        each = std::make_reverse_iterator(taken_.erase(std::next(each).base()));
      }
    }
  }

  void expect_all_there() {
    const auto infos = store_->list("demo");
    ASSERT_TRUE(infos.ok()) << infos.status().message();
    ASSERT_EQ(infos->size(), taken_.size());
    for (const CheckpointInfo& info : infos.value()) {
      const auto taken = taken_.find(info.epoch);
      ASSERT_NE(taken, taken_.end()) << info.id;
      EXPECT_EQ(info.state,
                is_complete(taken->second) ? CheckpointState::kComplete : CheckpointState::kPartial)
          << info.id << ": " << info.reason;
      if (info.state != CheckpointState::kComplete) continue;
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        EXPECT_TRUE(read_back(*store_, info, rank) == taken->second.images.at(rank)) << info.id;
      }
      if (below(random_, 4) > 0) continue;
      const Status good = store_->verify(info, {});
      EXPECT_TRUE(good.ok()) << good.message();
    }
  }

  Random random_;
  FaultFileSystem files_;
  LocalBackend backend_{files_};
  std::unique_ptr<Store> store_{std::move(Store::open(files_, "/pfs", true).value())};
  const uint32_t ranks_;
  uint64_t run_ = 1;
  std::vector<DeviceMemory> memory_;
  std::vector<std::optional<Parent>> parents_;
  std::map<uint64_t, Taken> taken_;  // by epoch: what must be in the store
};

TEST(Chain, RandomOnesComeBackAsTheMemoryWas) {
  const uint64_t seeds = std::getenv("GPUSNAP_SOAK") != nullptr ? 1000 : 40;
  for (uint64_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomJob(seed).run();
  }
}

// One rank whose checkpoints are taken in order, on what the test says.
class ChainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    journal_ = open_journal(backend_, kJob);
    memory_.allocate(0x1000, 5000);
    memory_.allocate(0x9000, 700);
  }
  // Nothing: a full one.
  Status take(uint64_t parent = 0) {
    const uint64_t epoch = store_->next_epoch("demo").value();
    memory_.write(0x1000, epoch % 9, static_cast<std::byte>(epoch));
    Increment increment(backend_, kJob, epoch);
    increment.save(memory_, parent == 0 ? std::nullopt : std::optional(parents_.at(parent)),
                   random_);
    const Status taken = increment.finish(journal_.get());
    if (!taken.ok()) return taken;
    parents_[epoch] = {epoch, parent == 0 ? 0 : parents_.at(parent).chain + 1, memory_.image()};
    memory_.clean();
    return taken;
  }
  // "4 3 1*": these, 1 being damaged.
  std::string listed() {
    std::string text;
    const auto infos = store_->list("demo");
    EXPECT_TRUE(infos.ok()) << infos.status().message();
    for (const CheckpointInfo& info : infos.value()) {
      text += (text.empty() ? "" : " ") + std::to_string(info.epoch) +
              (info.state == CheckpointState::kComplete ? "" : "*");
    }
    return text;
  }
  CheckpointInfo info(uint64_t epoch) {
    return store_->find("demo@" + std::to_string(epoch)).value();
  }
  static std::string manifest(uint64_t epoch) {
    return "/pfs/demo/e" + std::to_string(epoch) + "/r0.manifest";
  }
  static std::string segment(uint64_t epoch) {
    return "/pfs/demo/e" + std::to_string(epoch) + "/r0-run1-0.segment";
  }
  void flip(const std::string& path, size_t at) {
    std::vector<std::byte> bytes = files_.content(path);
    bytes.at(at) ^= std::byte{4};
    files_.put(path, bytes);
  }

  static inline const Job kJob = {"demo", "run1", 0, 1, {}, 64 << 10};
  Random random_{1};
  FaultFileSystem files_;
  LocalBackend backend_{files_};
  std::unique_ptr<Store> store_{std::move(Store::open(files_, "/pfs", true).value())};
  std::unique_ptr<JournalWriter> journal_;
  DeviceMemory memory_;
  std::map<uint64_t, Parent> parents_;  // all that were taken, by epoch
};

TEST_F(ChainTest, IsListedAsWhatItIs) {
  for (const uint64_t parent : {0, 1, 2, 0}) ASSERT_TRUE(take(parent).ok());
  EXPECT_EQ(info(3).chain, 2U);
  EXPECT_EQ(info(3).bytes, 5700U);
  EXPECT_LT(info(3).own_bytes, 4000U);
  EXPECT_EQ(info(1).own_bytes, 5700U);
  EXPECT_EQ(info(1).needed_by, 3U);
  EXPECT_EQ(info(2).needed_by, 3U);
  EXPECT_EQ(info(3).needed_by, 0U);
  EXPECT_EQ(info(4).chain, 0U);
  const Contents contents = store_->resolve(info(3), 0).value();
  EXPECT_EQ(contents.chain.size(), 3U);
  EXPECT_EQ(store_->resolve(info(3), 1).status().code(), Code::kInvalid);
}

TEST_F(ChainTest, AFreedAndReusedAddressTakesNothingFromItsFormerLife) {
  ASSERT_TRUE(take().ok());
  memory_.free(0x9000);
  memory_.allocate(0x9000, 700);
  ASSERT_TRUE(take(1).ok());
  EXPECT_TRUE(read_back(*store_, info(2), 0) == memory_.image());
  // One that claims to go on where it does not is not committed.
  memory_.free(0x9000);
  memory_.allocate(0x9000, 700);
  Increment wrong(backend_, kJob, 3);
  wrong.save(memory_, parents_.at(2), random_);
  wrong.manifest().ranges[1].fresh = false;
  const Status status = wrong.finish();
  EXPECT_EQ(status.code(), Code::kInvalid);
  expect_message(status, "range 1 of 700 bytes is to be in its parent and is not");
  EXPECT_EQ(listed(), "2 1");
}

TEST_F(ChainTest, AnIncrementIsNotCommittedWithoutItsParent) {
  ASSERT_TRUE(take().ok());
  const auto attempt = [&](const std::function<void(Manifest&)>& spoil) {
    Increment wrong(backend_, kJob, 3);
    wrong.save(memory_, parents_.at(1), random_);
    spoil(wrong.manifest());
    return wrong.finish();
  };
  const Status missing = attempt([](Manifest& m) { m.parent = 2; });
  EXPECT_EQ(missing.code(), Code::kInvalid);
  expect_message(missing, "its parent cannot be used: manifest /pfs/demo/e2/r0.manifest");
  expect_message(attempt([](Manifest& m) { m.ranges.front().life = 99; }), "to be in its parent");
  EXPECT_EQ(listed(), "1");
}

TEST_F(ChainTest, PruningKeepsTheAncestorsOfWhatItKeeps) {
  for (const uint64_t parent : {0, 1, 0, 3, 4}) ASSERT_TRUE(take(parent).ok());
  ASSERT_TRUE(prune_folder(files_, "/pfs/demo", 1).ok());
  EXPECT_EQ(listed(), "5 4 3");
  ASSERT_TRUE(take(5).ok());
  ASSERT_TRUE(take().ok());
  ASSERT_TRUE(prune_folder(files_, "/pfs/demo", 2).ok());
  EXPECT_EQ(listed(), "7 6 5 4 3");
  for (const uint64_t epoch : {3, 4, 5, 6, 7}) {
    EXPECT_TRUE(read_back(*store_, info(epoch), 0) == parents_.at(epoch).image);
  }
  ASSERT_TRUE(prune_folder(files_, "/pfs/demo", 1).ok());
  EXPECT_EQ(listed(), "7");
}

TEST_F(ChainTest, PruningKeepsWhatADamagedOneMayNeed) {
  for (const uint64_t parent : {0, 0, 2, 3, 0}) ASSERT_TRUE(take(parent).ok());
  files_.erase(segment(4));
  ASSERT_TRUE(prune_folder(files_, "/pfs/demo", 1).ok());
  EXPECT_EQ(listed(), "5 4* 3 2");
  flip(manifest(4), 100);
  ASSERT_TRUE(take().ok());
  ASSERT_TRUE(prune_folder(files_, "/pfs/demo", 1).ok());
  EXPECT_EQ(listed(), "6 4* 3 2");
}

TEST_F(ChainTest, DamageOfAnAncestorIsTold) {
  for (const uint64_t parent : {0, 1, 2}) ASSERT_TRUE(take(parent).ok());
  const auto expect_told = [&](const std::string& told, const std::string& states) {
    EXPECT_EQ(listed(), states);
    EXPECT_EQ(info(3).state, CheckpointState::kDamaged);
    expect_message(Status(Code::kDamaged, info(3).reason), told);
    expect_message(store_->verify(info(3), {}), "checkpoint demo@3 cannot be used: " + told);
    EXPECT_EQ(store_->find("demo").ok(), states.find("1*") == std::string::npos);
  };
  std::map<std::string, std::vector<std::byte>> good;
  for (const std::string& path : files_.paths()) good[path] = files_.content(path);
  const auto mend = [&] {
    for (const auto& [path, bytes] : good) files_.put(path, bytes);
    EXPECT_EQ(listed(), "3 2 1");
  };
  files_.erase(manifest(2));
  expect_told("its ancestor demo@2 is missing", "3* 2* 1");
  const auto resolved = store_->resolve(info(3), 0);
  expect_message(resolved.status(), "checkpoint demo@3 cannot be used: manifest " + manifest(2));
  mend();
  for (size_t at = 0; at < good.at(manifest(1)).size(); at += 37) {
    flip(manifest(1), at);
    expect_told("its ancestor demo@1 cannot be used: manifest /pfs/demo/e1/r0", "3* 2* 1*");
    mend();
  }
  files_.erase(segment(2));
  expect_told("its ancestor demo@2 cannot be used: segment " + segment(2) + " is missing",
              "3* 2* 1");
  mend();
  std::vector<std::byte> longer = good.at(segment(1));
  longer.emplace_back();
  files_.put(segment(1), longer);
  expect_told("its ancestor demo@1 cannot be used: segment " + segment(1) + " has", "3* 2* 1*");
  mend();
  // Damage that only reading shows.
  flip(segment(1), good.at(segment(1)).size() - 1);
  EXPECT_EQ(listed(), "3 2 1");
  const Status told = store_->verify(info(3), {});
  EXPECT_EQ(told.code(), Code::kDamaged);
  expect_message(told,
                 "checkpoint demo@3 cannot be used: its ancestor demo@1 cannot be used: segm");
  mend();
  // A whole other manifest of that number.
  const Manifest other = decode_manifest(good.at(manifest(2))).value();
  Manifest changed = other;
  changed.stall_ns += 1;
  files_.put(manifest(2), encode(changed));
  EXPECT_EQ(listed(), "3* 2 1");
  expect_message(store_->verify(info(3), {}), "it was made on another checkpoint");
}

TEST_F(ChainTest, ARoundOfVerifyingReadsSharedSegmentsOnce) {
  for (const uint64_t parent : {0, 1, 2}) ASSERT_TRUE(take(parent).ok());
  VerifyRound round;
  uint64_t total = 0;
  const auto note = [&](uint64_t, uint64_t all) { total = all; };
  EXPECT_TRUE(store_->verify(info(3), note, &round).ok());
  const uint64_t first = total;
  EXPECT_TRUE(store_->verify(info(2), note, &round).ok());
  EXPECT_LT(total, first / 2);
  flip(segment(1), files_.content(segment(1)).size() - 1);
  EXPECT_TRUE(store_->verify(info(1), {}, &round).ok()) << "read before it was damaged";
  VerifyRound next;
  for (const uint64_t epoch : {1, 2, 3}) {
    EXPECT_EQ(store_->verify(info(epoch), {}, &next).code(), Code::kDamaged);
    expect_message(store_->verify(info(epoch), {}, &next), segment(1));
  }
}

TEST_F(ChainTest, AnAncestorOfALaterVersionIsNotCalledDamaged) {
  for (const uint64_t parent : {0, 1}) ASSERT_TRUE(take(parent).ok());
  std::vector<std::byte> later = files_.content(manifest(1));
  later[8] = std::byte{9};
  const uint64_t sum = checksum(std::span(later).first(12));
  for (size_t i = 0; i < 4; ++i) later[12 + i] = static_cast<std::byte>(sum >> (8 * i));
  files_.put(manifest(1), later);
  EXPECT_EQ(store_->verify(info(2), {}).code(), Code::kNewer);
  expect_message(store_->verify(info(2), {}), "its ancestor demo@1 cannot be used: manifest");
  expect_message(store_->verify(info(2), {}), "use a later gpusnap");
}

TEST_F(ChainTest, AnAncestorsJournalIsNotNeeded) {
  ASSERT_TRUE(take().ok());
  Job next = kJob;
  next.run = "run2";
  const auto journal = open_journal(backend_, next);
  Increment increment(backend_, next, 2);
  increment.save(memory_, parents_.at(1), random_);
  ASSERT_TRUE(increment.finish(journal.get()).ok());
  files_.erase("/pfs/demo/run1-r0.journal");
  EXPECT_EQ(listed(), "2 1*");
  EXPECT_TRUE(store_->verify(info(2), {}).ok()) << store_->verify(info(2), {}).message();
  EXPECT_TRUE(read_back(*store_, info(2), 0) == memory_.image());
}

}  // namespace
}  // namespace gpusnap::test
