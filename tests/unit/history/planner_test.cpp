// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/planner.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace gpusnap::history {
namespace {

constexpr uint64_t kFast = 32, kMiddle = 64;

// Moves what a planner tells, in a memory of one version number for each byte, and finds a planner
// that lets a transfer read what is gone or write what another one uses.
class Mover {
 public:
  explicit Mover(const Planner::Options& options)
      : planner_(options), discards_consumed_(options.discard_consumed) {
    for (const TierCache::Options& each : options.caches) memory_.emplace_back(each.capacity, 0);
  }

  Planner& planner() { return planner_; }
  const std::map<uint64_t, Transfer>& running() const { return running_; }

  void plan() {
    for (const Transfer& transfer : planner_.plan()) {
      expect_room_is_free(transfer);
      for (const auto& [id, other] : running_) EXPECT_NE(other.lane, transfer.lane);
      EXPECT_LT(transfer.lane, Planner::lanes(memory_.size()));
      evict(transfer);
      running_[transfer.id] = transfer;
      order_.push_back(transfer);
    }
  }
  // The transfer that runs between these tiers; 0 if none does.
  uint64_t find(int from, int to) const {
    for (const auto& [id, transfer] : running_) {
      if (transfer.from == from && transfer.to == to) return id;
    }
    return 0;
  }
  // Finishes all others until none runs.
  void finish_all_but(uint64_t kept) {
    while (running_.size() > 1) {
      const uint64_t first = running_.begin()->first;
      finish(first != kept ? first : running_.rbegin()->first);
    }
  }
  // Moves the bytes.
  void finish(uint64_t id, Outcome outcome = Outcome::kDone) {
    const Transfer transfer = running_.at(id);
    running_.erase(id);
    if (outcome == Outcome::kDone) move(transfer);
    if (outcome == Outcome::kDone && transfer.to == kApplication && discards_consumed_) {
      dispensable_.insert(transfer.version);
    }
    if (outcome == Outcome::kSourceFailed) readable_.erase({transfer.version, transfer.from});
    planner_.finished(id, outcome, 1000);
    plan();
  }
  // As if an earlier run had left it.
  bool adopt(Version version, uint64_t bytes, int fastest = 0) {
    if (!planner_.adopt(version, bytes, fastest)) return false;
    kept_.insert(version);
    readable_.insert({version, planner_.last_tier()});
    return true;
  }
  void give_up(Version version) {
    planner_.give_up(version);
    dispensable_.insert(version);
  }
  // It is needed again.
  void keep(Version version) { dispensable_.erase(version); }
  bool has_copy(Version version) const {
    const auto copy = readable_.lower_bound({version, 0});
    return copy != readable_.end() && copy->first == version;
  }
  void finish_all() {
    plan();
    while (!running_.empty()) finish(running_.begin()->first);
  }
  bool write(Version version, uint64_t bytes) {
    if (!planner_.write(version, bytes)) return false;
    finish_for_application();
    return *planner_.outcome();
  }
  bool restore(Version version) {
    if (!planner_.restore(version, 1000)) return false;
    finish_for_application();
    return *planner_.outcome();
  }
  // Where the last transfer to the application came from.
  int read_from() const {
    for (auto each = order_.rbegin(); each != order_.rend(); ++each) {
      if (each->to == kApplication) return each->from;
    }
    return kApplication;
  }

 private:
  bool is_memory(int tier) const { return tier >= 0 && tier < planner_.last_tier(); }

  void finish_for_application() {
    plan();
    while (!planner_.outcome().has_value()) {
      ASSERT_FALSE(running_.empty()) << "nothing moves, and the application waits";
      finish(running_.begin()->first);
    }
  }

  void expect_room_is_free(const Transfer& transfer) const {
    if (!is_memory(transfer.to)) return;
    const uint64_t end = transfer.to_offset + transfer.bytes;
    EXPECT_LE(end, memory_[static_cast<size_t>(transfer.to)].size());
    for (const auto& [id, other] : running_) {
      if (other.from == transfer.to) {
        EXPECT_TRUE(end <= other.from_offset ||
                    other.from_offset + other.bytes <= transfer.to_offset);
      }
      if (other.to == transfer.to) {
        EXPECT_TRUE(end <= other.to_offset || other.to_offset + other.bytes <= transfer.to_offset);
      }
    }
  }

  // Finds a planner that evicts the only copy.
  void evict(const Transfer& transfer) {
    for (const Version version : transfer.evicted) {
      const bool was_readable = readable_.erase({version, transfer.to}) != 0;
      EXPECT_TRUE(!was_readable || has_copy(version) || dispensable_.contains(version))
          << "the only copy of " << version << " is evicted from tier " << transfer.to;
    }
  }

  void move(const Transfer& transfer) {
    if (is_memory(transfer.from)) {
      const auto& memory = memory_[static_cast<size_t>(transfer.from)];
      for (uint64_t i = 0; i < transfer.bytes; ++i) {
        ASSERT_EQ(memory[transfer.from_offset + i], transfer.version);
      }
    } else if (transfer.from == planner_.last_tier()) {
      ASSERT_TRUE(kept_.contains(transfer.version));
    }
    if (is_memory(transfer.to)) {
      auto& memory = memory_[static_cast<size_t>(transfer.to)];
      for (uint64_t i = 0; i < transfer.bytes; ++i) {
        memory[transfer.to_offset + i] = transfer.version;
      }
    } else if (transfer.to == planner_.last_tier()) {
      kept_.insert(transfer.version);
    }
    if (transfer.to != kApplication) readable_.insert({transfer.version, transfer.to});
  }

  Planner planner_;
  const bool discards_consumed_;
  std::vector<std::vector<Version>> memory_;
  std::set<Version> kept_;                      // on the last tier
  std::set<std::pair<Version, int>> readable_;  // copies, by tier
  std::set<Version> dispensable_;               // the program does not need them any more
  std::map<uint64_t, Transfer> running_;
  std::vector<Transfer> order_;
};

Planner::Options two_caches(bool discard_consumed = false) {
  return {.caches = {{.capacity = kFast}, {.capacity = kMiddle}},
          .discard_consumed = discard_consumed};
}

TEST(Planner, AWriteReturnsFromTheFastestTierAndReachesTheLast) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.write(1, 8));
  EXPECT_EQ(mover.planner().slowest_copy(1), 0);
  EXPECT_FALSE(mover.planner().is_flushed());
  mover.finish_all();
  EXPECT_TRUE(mover.planner().is_flushed());
  EXPECT_EQ(mover.planner().slowest_copy(1), 2);
  EXPECT_EQ(mover.planner().state(1, 0), CopyState::kFlushed);
}

TEST(Planner, AVersionIsWrittenOnce) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.write(1, 8));
  EXPECT_FALSE(mover.write(1, 8));
  EXPECT_FALSE(mover.restore(2));
}

TEST(Planner, WhatFitsInNoCacheGoesToTheLastTier) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.write(1, kFast + 1));
  EXPECT_EQ(mover.planner().slowest_copy(1), 1);
  ASSERT_TRUE(mover.write(2, kMiddle + 1));
  EXPECT_EQ(mover.planner().slowest_copy(2), 2);
  EXPECT_TRUE(mover.restore(2));
}

TEST(Planner, ARestoreReadsTheFastestCopyWhileItsFlushIsHeld) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.write(1, 8));
  ASSERT_TRUE(mover.planner().restore(1, 0));
  mover.plan();
  ASSERT_EQ(mover.running().size(), 2);  // the flush, and the restore
  const uint64_t restore = mover.running().rbegin()->first;
  ASSERT_EQ(mover.running().at(restore).to, kApplication);
  mover.finish(restore);
  EXPECT_EQ(mover.planner().outcome(), true);
  EXPECT_EQ(mover.read_from(), 0);
}

TEST(Planner, HintedCheckpointsAreReadFromTheFastestTier) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 20; ++version) {
    ASSERT_TRUE(mover.write(version, 8));
    mover.finish_all();
  }
  for (Version version = 1; version <= 20; ++version) mover.planner().hint(version);
  mover.planner().start_prefetching();
  mover.finish_all();
  for (Version version = 1; version <= 20; ++version) {
    ASSERT_TRUE(mover.restore(version));
    EXPECT_EQ(mover.read_from(), 0) << version;
    mover.finish_all();
  }
}

TEST(Planner, WithoutHintsTheNewestAreStillCached) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 20; ++version) {
    ASSERT_TRUE(mover.write(version, 8));
    mover.finish_all();
  }
  ASSERT_TRUE(mover.restore(20));
  EXPECT_EQ(mover.read_from(), 0);
  ASSERT_TRUE(mover.restore(14));
  EXPECT_EQ(mover.read_from(), 1);
  ASSERT_TRUE(mover.restore(1));
  EXPECT_EQ(mover.read_from(), 2);
}

// Wrong hints pin what nobody reads.
TEST(Planner, WritesAndOtherRestoresGoOnBesideAFullCache) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 20; ++version) ASSERT_TRUE(mover.write(version, 8));
  for (Version version = 1; version <= 12; ++version) mover.planner().hint(version);
  mover.planner().start_prefetching();
  mover.finish_all();
  for (Version version = 20; version > 12; --version) ASSERT_TRUE(mover.restore(version));
  for (Version version = 21; version <= 40; ++version) ASSERT_TRUE(mover.write(version, 8));
  mover.finish_all();
  for (Version version = 21; version <= 40; ++version) {
    EXPECT_EQ(mover.planner().slowest_copy(version), 2);
  }
}

TEST(Planner, AFlushOfWhatWasConsumedIsCancelledWhereItMayBeDiscarded) {
  for (const bool discard : {false, true}) {
    Mover mover(two_caches(discard));
    ASSERT_TRUE(mover.write(1, 8));
    ASSERT_TRUE(mover.planner().write(2, 8));
    mover.plan();  // the flush of 1 is running
    mover.finish(mover.running().rbegin()->first);
    ASSERT_TRUE(mover.planner().restore(2, 0));
    mover.plan();
    mover.finish(mover.running().rbegin()->first);
    ASSERT_EQ(mover.planner().outcome(), true);
    mover.finish_all();
    EXPECT_EQ(mover.planner().slowest_copy(2), discard ? 0 : 2);
  }
}

TEST(Planner, ADiscardableCheckpointThatIsHintedAgainIsKept) {
  Mover mover(two_caches(true));
  ASSERT_TRUE(mover.write(1, 8));
  ASSERT_TRUE(mover.planner().write(2, 8));
  mover.plan();
  mover.finish(mover.running().rbegin()->first);
  ASSERT_TRUE(mover.restore(2));
  mover.planner().hint(2);
  mover.finish_all();
  EXPECT_EQ(mover.planner().slowest_copy(2), 2);
}

TEST(Planner, WhatIsReadLastIsFlushedFirst) {
  Mover mover({.caches = {{.capacity = 16}, {.capacity = kMiddle}}});
  for (Version version = 1; version <= 4; ++version) mover.planner().hint(version);
  for (Version version = 1; version <= 3; ++version) {
    ASSERT_TRUE(mover.planner().write(version, 5));
    mover.plan();
    mover.finish(mover.find(kApplication, 0));
  }
  const uint64_t first = mover.running().begin()->first;
  EXPECT_EQ(mover.running().at(first).version, 1);
  mover.finish(first);
  EXPECT_EQ(mover.running().begin()->second.version, 3);
  mover.finish_all();
  EXPECT_TRUE(mover.planner().is_flushed());
}

TEST(Planner, OtherEvictorsFlushInTheOrderOfWrites) {
  Mover mover({.caches = {{.capacity = 16, .evictor = Evictor::kFifo}, {.capacity = kMiddle}}});
  for (Version version = 1; version <= 3; ++version) {
    mover.planner().hint(version);
    ASSERT_TRUE(mover.planner().write(version, 5));
    mover.plan();
    mover.finish(mover.find(kApplication, 0));
  }
  mover.finish(mover.running().begin()->first);
  EXPECT_EQ(mover.running().begin()->second.version, 2);
}

TEST(Planner, AHintChangesTheOrderOfFlushes) {
  Mover mover({.caches = {{.capacity = 16}, {.capacity = kMiddle}}});
  for (Version version = 1; version <= 3; ++version) {
    ASSERT_TRUE(mover.planner().write(version, 5));
    mover.plan();
    mover.finish(mover.find(kApplication, 0));
  }
  mover.planner().hint(2);
  mover.finish(mover.running().begin()->first);
  EXPECT_EQ(mover.running().begin()->second.version, 3);
  mover.finish_all();
  EXPECT_TRUE(mover.planner().is_flushed());
}

// The middle tier keeps its room for what will not be in the fastest one.
TEST(Planner, WhatStaysCachedUntilItIsReadIsFlushedPastTheNextTier) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 5; ++version) mover.planner().hint(version);
  for (const Version version : {5, 1}) {
    ASSERT_TRUE(mover.write(version, 8));
    mover.finish_all();
    EXPECT_EQ(mover.planner().state(version, 0), CopyState::kFlushed);
    EXPECT_EQ(mover.planner().slowest_copy(version), 2);
  }
  EXPECT_EQ(mover.planner().state(5, 1), CopyState::kFlushed);
  EXPECT_EQ(mover.planner().state(1, 1), CopyState::kInit);
}

TEST(Planner, AWriteWaitsForWhatIsReadLastRatherThanEvictWhatStays) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 20; ++version) mover.planner().hint(version);
  ASSERT_TRUE(mover.write(1, 8));
  mover.finish_all();
  for (Version version = 2; version <= 4; ++version) {
    ASSERT_TRUE(mover.planner().write(version, 8));
    mover.plan();
    mover.finish(mover.find(kApplication, 0));
  }
  ASSERT_TRUE(mover.planner().write(5, 8));
  mover.plan();
  EXPECT_EQ(mover.find(kApplication, 0), 0);
  const uint64_t flush = mover.find(0, 1);
  ASSERT_NE(flush, 0);
  EXPECT_EQ(mover.running().at(flush).version, 4);
  mover.finish(flush);
  const uint64_t write = mover.find(kApplication, 0);
  ASSERT_NE(write, 0);
  EXPECT_EQ(mover.running().at(write).evicted, std::vector<Version>{4});
  EXPECT_EQ(mover.planner().state(1, 0), CopyState::kFlushed);
}

// The same, where the program computes for so long that a prefetch brings the copy back in time:
// the write does not wait.
TEST(Planner, AWriteEvictsWhatAPrefetchBringsBackInTime) {
  for (const bool is_slow : {false, true}) {
    Mover mover(two_caches());
    for (Version version = 1; version <= 20; ++version) mover.planner().hint(version);
    if (is_slow) mover.planner().computed(1'000'000'000);
    ASSERT_TRUE(mover.write(2, 8));
    mover.finish_all();
    ASSERT_EQ(mover.planner().state(2, 1), CopyState::kInit) << "it was flushed directly";
    for (const Version version : {3, 4, 6}) {
      ASSERT_TRUE(mover.planner().write(version, 8));
      mover.plan();
      mover.finish(mover.find(kApplication, 0));
    }
    ASSERT_TRUE(mover.planner().write(5, 8));
    mover.plan();
    const uint64_t write = mover.find(kApplication, 0);
    ASSERT_EQ(write != 0, is_slow);
    if (is_slow) {
      EXPECT_EQ(mover.running().at(write).evicted, std::vector<Version>{2});
    }
  }
}

// A copy in the middle tier would push one out that may be read sooner.
TEST(Planner, WhileTheApplicationReadsFlushesPassTheNextTier) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 8; ++version) {
    ASSERT_TRUE(mover.write(version, 8));
    mover.finish_all();
  }
  for (const Version version : {9, 10}) {
    ASSERT_TRUE(mover.planner().write(version, 8));
    mover.plan();
    mover.finish(mover.find(kApplication, 0));
  }
  ASSERT_TRUE(mover.planner().restore(10, 0));
  mover.plan();
  mover.finish(mover.find(0, kApplication));
  ASSERT_EQ(mover.planner().outcome(), true);
  const uint64_t begun_before = mover.find(0, 1);
  ASSERT_NE(begun_before, 0);
  EXPECT_EQ(mover.running().at(begun_before).version, 9);
  mover.finish(begun_before);
  EXPECT_EQ(mover.find(0, 1), 0);
  const uint64_t direct = mover.find(0, 2);
  ASSERT_NE(direct, 0);
  EXPECT_EQ(mover.running().at(direct).version, 10);
  mover.finish_all();
  EXPECT_EQ(mover.planner().slowest_copy(10), 2);
  EXPECT_EQ(mover.planner().state(10, 1), CopyState::kInit);
  EXPECT_EQ(mover.planner().state(2, 1), CopyState::kFlushed);
}

// Leaves checkpoints 1 to 20 on the last tier, and begins to prefetch the first one from there.
uint64_t begin_to_prefetch(Mover& mover) {
  for (Version version = 1; version <= 20; ++version) {
    EXPECT_TRUE(mover.write(version, 8));
    mover.finish_all();
  }
  mover.planner().hint(1);
  mover.planner().start_prefetching();
  mover.plan();
  return mover.find(2, 1);
}

TEST(Planner, AFlushToTheLastTierYieldsToAPrefetchFromThere) {
  Mover mover(two_caches());
  const uint64_t prefetch = begin_to_prefetch(mover);
  ASSERT_NE(prefetch, 0);
  ASSERT_TRUE(mover.planner().write(21, 8));
  mover.plan();
  mover.finish_all_but(prefetch);
  EXPECT_EQ(mover.planner().outcome(), true);
  EXPECT_EQ(mover.planner().slowest_copy(21), 1);
  EXPECT_FALSE(mover.planner().is_flushed());
  mover.finish(prefetch);
  EXPECT_NE(mover.find(1, 2), 0);
  mover.finish_all();
  EXPECT_EQ(mover.planner().slowest_copy(21), 2);
}

TEST(Planner, AFlushToTheLastTierYieldsToARestoreFromThere) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 20; ++version) {
    ASSERT_TRUE(mover.write(version, 8));
    mover.finish_all();
  }
  ASSERT_TRUE(mover.planner().write(21, 8));
  mover.plan();
  mover.finish(mover.find(kApplication, 0));
  ASSERT_TRUE(mover.planner().restore(1, 0));
  mover.plan();
  const uint64_t restore = mover.find(2, kApplication);
  ASSERT_NE(restore, 0);
  mover.finish(mover.find(0, 1));
  EXPECT_EQ(mover.planner().slowest_copy(21), 1);
  EXPECT_EQ(mover.find(1, 2), 0);
  mover.finish(restore);
  EXPECT_NE(mover.find(1, 2), 0);
}

TEST(Planner, AFlushThatAWriteWaitsForDoesNotYield) {
  Mover mover(two_caches());
  const uint64_t prefetch = begin_to_prefetch(mover);
  ASSERT_NE(prefetch, 0);
  for (Version version = 21; version <= 60; ++version) {
    ASSERT_TRUE(mover.planner().write(version, 8));
    mover.plan();
    mover.finish_all_but(prefetch);
    ASSERT_EQ(mover.planner().outcome(), true) << version;
  }
  EXPECT_EQ(mover.running().begin()->first, prefetch);
}

TEST(Planner, AnErrorOfATierIsPassedOver) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.planner().write(1, 8));
  mover.plan();
  mover.finish(mover.running().begin()->first, Outcome::kTargetFailed);
  mover.finish_all();
  EXPECT_EQ(mover.planner().outcome(), true);
  EXPECT_EQ(mover.planner().slowest_copy(1), 2);
  ASSERT_TRUE(mover.planner().restore(1, 0));
  mover.plan();
  ASSERT_EQ(mover.running().begin()->second.from, 1);
  mover.finish(mover.running().begin()->first, Outcome::kSourceFailed);
  mover.finish_all();
  EXPECT_EQ(mover.planner().outcome(), true);
  EXPECT_EQ(mover.read_from(), 2);
}

TEST(Planner, WhatIsLeftIsFlushedAgainAfterAReadError) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.write(1, 8));
  mover.plan();
  mover.finish(mover.running().begin()->first);  // the slower cache has it, too
  ASSERT_EQ(mover.planner().state(1, 0), CopyState::kFlushed);
  ASSERT_EQ(mover.running().begin()->second.from, 1);
  mover.finish(mover.running().begin()->first, Outcome::kSourceFailed);
  EXPECT_EQ(mover.planner().state(1, 0), CopyState::kWriteComplete);
  EXPECT_FALSE(mover.planner().is_flushed());
  mover.finish_all();
  EXPECT_EQ(mover.planner().slowest_copy(1), 2);
  EXPECT_TRUE(mover.planner().not_flushed().empty());
}

TEST(Planner, WhatIsLostBeforeItsFlushIsTold) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.write(1, 8));
  mover.plan();
  ASSERT_EQ(mover.running().begin()->second.from, 0);
  mover.finish(mover.running().begin()->first, Outcome::kSourceFailed);
  mover.finish_all();
  EXPECT_TRUE(mover.planner().is_flushed());
  EXPECT_EQ(mover.planner().not_flushed(), std::vector<Version>{1});
}

TEST(Planner, WhatIsRestoredInPartsIsKeptToTheEnd) {
  for (const bool success : {true, false}) {
    Planner::Options options = two_caches();
    options.discard_consumed = true;
    Mover mover(options);
    ASSERT_TRUE(mover.write(1, 8));
    for (int part = 0; part < 2; ++part) {
      ASSERT_TRUE(mover.planner().restore_part(1, 0));
      while (!mover.planner().outcome()) mover.finish_all();
      EXPECT_EQ(mover.planner().outcome(), true);
      EXPECT_EQ(mover.planner().state(1, 0), CopyState::kReadComplete);
    }
    mover.planner().end_restore(1, success);
    EXPECT_EQ(mover.planner().state(1, 0), CopyState::kConsumed);
    mover.finish_all();
    EXPECT_EQ(mover.planner().slowest_copy(1), 2);
  }
}

TEST(Planner, ARestoreFailsWithTheOnlyCopy) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.adopt(1, 8));
  ASSERT_TRUE(mover.planner().restore(1, 0));
  mover.plan();
  mover.finish(mover.running().begin()->first, Outcome::kSourceFailed);
  EXPECT_EQ(mover.planner().outcome(), false);
  EXPECT_EQ(mover.planner().state(1, 2), CopyState::kInit);
}

TEST(Planner, WhatAnEarlierRunLeftIsPrefetchedAndRestored) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 10; ++version) ASSERT_TRUE(mover.adopt(version, 8));
  EXPECT_FALSE(mover.adopt(1, 8));
  EXPECT_FALSE(mover.planner().write(1, 8));
  for (Version version = 1; version <= 10; ++version) mover.planner().hint(version);
  mover.planner().start_prefetching();
  mover.finish_all();
  for (Version version = 1; version <= 10; ++version) {
    ASSERT_TRUE(mover.restore(version));
    EXPECT_EQ(mover.read_from(), 0) << version;
    mover.finish_all();
  }
}

TEST(Planner, ACheckpointStaysBelowItsFastestTier) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.planner().write(1, 8, 1));
  mover.finish_all();
  mover.planner().hint(1);
  mover.planner().start_prefetching();
  mover.finish_all();
  EXPECT_EQ(mover.planner().state(1, 0), CopyState::kInit);
  ASSERT_TRUE(mover.restore(1));
  EXPECT_EQ(mover.read_from(), 1);
}

TEST(Planner, WhatWasConsumedNeedNotBeFlushedWhenDiscardingBegins) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 3; ++version) {
    ASSERT_TRUE(mover.planner().write(version, 8));
    mover.plan();
    mover.finish(mover.running().rbegin()->first);  // and the flush of 1 is held
  }
  ASSERT_TRUE(mover.planner().restore(2, 0));
  mover.plan();
  mover.finish(mover.running().rbegin()->first);
  mover.planner().discard_consumed();
  mover.finish_all();
  EXPECT_EQ(mover.planner().slowest_copy(1), 2);
  EXPECT_EQ(mover.planner().slowest_copy(2), 0);
  EXPECT_EQ(mover.planner().slowest_copy(3), 2);
}

TEST(Planner, AHeldCheckpointIsFlushedWhenItIsReleased) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.planner().write_held(1, 8));
  mover.finish_all();
  ASSERT_EQ(mover.planner().outcome(), true);
  EXPECT_EQ(mover.planner().slowest_copy(1), 0);
  mover.planner().release(1);
  mover.finish_all();
  EXPECT_EQ(mover.planner().slowest_copy(1), 2);

  ASSERT_TRUE(mover.planner().write_held(2, 8));
  mover.finish_all();
  mover.give_up(2);
  mover.finish_all();
  EXPECT_EQ(mover.planner().slowest_copy(2), 0);
  for (Version version = 3; version < 9; ++version) ASSERT_TRUE(mover.write(version, 8));
  EXPECT_EQ(mover.planner().slowest_copy(2), std::nullopt);
}

TEST(Planner, WhatNoCacheCanHoldIsNotHeld) {
  Mover mover(two_caches());
  ASSERT_TRUE(mover.planner().write_held(1, kMiddle + 1));
  mover.finish_all();
  EXPECT_EQ(mover.planner().outcome(), false);
  EXPECT_EQ(mover.planner().slowest_copy(1), std::nullopt);
  ASSERT_TRUE(mover.write(2, kMiddle + 1));
  EXPECT_EQ(mover.planner().slowest_copy(2), 2);
}

// The last tier is full, or gone.
TEST(Planner, WhatCannotBeFlushedStaysCachedAndIsTold) {
  Mover mover(two_caches());
  for (Version version = 1; version <= 12; ++version) {
    ASSERT_TRUE(mover.planner().write(version, 8));
    mover.plan();
    while (!mover.running().empty()) {
      const auto [id, transfer] = *mover.running().begin();
      mover.finish(id, transfer.to == 2 ? Outcome::kTargetFailed : Outcome::kDone);
    }
    // Four stay in the faster cache, and eight in the larger one.
    EXPECT_EQ(mover.planner().outcome(), true) << version;
  }
  ASSERT_TRUE(mover.planner().write(13, 8));
  mover.plan();
  while (!mover.running().empty())
    mover.finish(mover.running().begin()->first, Outcome::kTargetFailed);
  EXPECT_EQ(mover.planner().outcome(), false);
  for (Version version = 1; version <= 12; ++version) EXPECT_TRUE(mover.restore(version));
  EXPECT_FALSE(mover.planner().not_flushed().empty());
}

// ---- Random histories

struct Kind {
  uint64_t seed;
  bool discard, errors;
};

class AnyPlan {
 public:
  explicit AnyPlan(const Kind& kind) : kind_(kind), random_(kind.seed), mover_(options(kind)) {}

  void run() {
    for (int step = 0; step < 250; ++step) {
      if (mover_.planner().outcome().has_value() && random_() % 3 != 0) ask();
      if (random_() % 3 == 0) hint(1 + random_() % (newest_ + 3));
      if (random_() % 40 == 0) mover_.planner().stop_prefetching();
      if (random_() % 20 == 0) mover_.planner().start_prefetching();
      if (random_() % 10 == 0) mover_.planner().computed(static_cast<int64_t>(random_() % 9000));
      mover_.plan();
      ASSERT_NO_FATAL_FAILURE(expect_progress());
      if (!mover_.running().empty()) finish_one();
      ASSERT_NO_FATAL_FAILURE(expect_progress());
      judge();
    }
    drain();
  }

 private:
  static Planner::Options options(const Kind& kind) {
    const auto evictor = static_cast<Evictor>(kind.seed % 4);
    return {.caches = {{.capacity = kFast, .evictor = evictor},
                       {.capacity = kMiddle, .evictor = evictor}},
            .discard_consumed = kind.discard};
  }

  void hint(Version version) {
    mover_.planner().hint(version);
    if (!given_up_.contains(version)) mover_.keep(version);
  }

  // As the program's next request, if there is a checkpoint to let go of.
  bool end_hold() {
    const std::optional<Version> held = std::exchange(held_, std::nullopt);
    if (!held) return false;
    const bool has_room = planner().slowest_copy(*held).has_value();
    if (!has_room || random_() % 4 == 0) {
      mover_.give_up(*held);
      given_up_.insert(*held);
    } else {
      mover_.planner().release(*held);
    }
    return true;
  }

  void ask() {
    if (end_hold()) return;
    const auto fastest = static_cast<int>(random_() % 8 == 0 ? random_() % 3 : 0);
    if (newest_ == 0 || random_() % 2 == 0) {
      ASSERT_TRUE(mover_.planner().write(++newest_, 1 + random_() % 40, fastest));
      restored_ = 0;
    } else if (random_() % 8 == 0) {
      held_ = ++newest_;
      ASSERT_TRUE(mover_.planner().write_held(newest_, 1 + random_() % 40));
      restored_ = 0;
      return;
    } else if (random_() % 8 == 0) {
      ASSERT_TRUE(mover_.adopt(++newest_, 1 + random_() % 40, fastest));
      return;
    } else {
      restored_ = 1 + random_() % newest_;
      ASSERT_TRUE(mover_.planner().restore(restored_, 1000));
    }
    is_asked_ = true;
  }

  void finish_one() {
    const auto running =
        std::next(mover_.running().begin(), static_cast<long>(random_() % mover_.running().size()));
    Outcome outcome = Outcome::kDone;
    if (kind_.errors && random_() % 30 == 0) {
      outcome = random_() % 2 == 0 ? Outcome::kSourceFailed : Outcome::kTargetFailed;
    }
    mover_.finish(running->first, outcome);
  }

  void expect_progress() const {
    ASSERT_TRUE(!mover_.running().empty() || planner().outcome().has_value());
  }

  // Without errors, all that was written is restored, unless it was and may be discarded.
  void judge() {
    if (!is_asked_ || !planner().outcome().has_value()) return;
    is_asked_ = false;
    if (kind_.errors) return;
    EXPECT_TRUE(*planner().outcome() || given_up_.contains(restored_) ||
                (consumed_.contains(restored_) && kind_.discard));
    consumed_.insert(restored_);
  }

  void drain() {
    const bool errors = kind_.errors;
    while (!mover_.running().empty()) ASSERT_NO_FATAL_FAILURE(finish_one());
    (void)end_hold();
    mover_.plan();
    while (!mover_.running().empty()) ASSERT_NO_FATAL_FAILURE(finish_one());
    ASSERT_TRUE(planner().outcome().has_value());
    ASSERT_TRUE(planner().is_flushed());
    for (Version version = 1; version <= newest_ && !errors && !kind_.discard; ++version) {
      if (given_up_.contains(version)) continue;
      ASSERT_EQ(planner().slowest_copy(version), 2) << version;
    }
  }

  const Planner& planner() const { return const_cast<AnyPlan*>(this)->mover_.planner(); }

  const Kind kind_;
  std::mt19937_64 random_;
  Mover mover_;
  Version newest_ = 0, restored_ = 0;
  std::set<Version> consumed_, given_up_;
  std::optional<Version> held_;
  bool is_asked_ = false;
};

TEST(Planner, AnyHistoryGoesOnAndRestoresWhatWasWritten) {
  const uint64_t seeds = std::getenv("GPUSNAP_SOAK") != nullptr ? 2500 : 500;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    for (const bool discard : {false, true}) {
      for (const bool errors : {false, true}) {
        AnyPlan({seed, discard, errors}).run();
        ASSERT_FALSE(::testing::Test::HasFailure())
            << "seed " << seed << (discard ? ", discarding" : "") << (errors ? ", errors" : "");
      }
    }
  }
}

}  // namespace
}  // namespace gpusnap::history
