// SPDX-License-Identifier: Apache-2.0
//
// Which checkpoints stay in memory, which go, and what increments build on: random histories of a
// job's ranks, compared with a model that knows what is where.
#include "tiers/backend/kept_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "tiers/checkpoint_levels.h"

namespace gpusnap::test {
namespace {

using namespace std::chrono_literals;

TEST(KeptParts, ALaterWholePartOfAJobOfOneRankReplacesEarlierOnes) {
  KeptParts parts;
  parts.add(1, "/s/a", 0, 5);
  parts.add(2, "/s/a", 0, 6);
  parts.add(3, "/s/b", 0, 4);
  EXPECT_TRUE(parts.whole(1, true).empty());
  EXPECT_TRUE(parts.whole(3, true).empty());
  EXPECT_EQ(parts.whole(2, true), KeptParts::Streams{1});
}

TEST(KeptParts, PartsOfSeveralRanksStayUntilALaterOneIsSaidToBeComplete) {
  KeptParts parts;
  for (uint32_t rank : {0U, 1U}) {
    parts.add(10 + rank, "/s/a", rank, 5);
    parts.add(20 + rank, "/s/a", rank, 6);
    EXPECT_TRUE(parts.whole(10 + rank, false).empty());
    EXPECT_TRUE(parts.whole(20 + rank, false).empty());
  }
  EXPECT_TRUE(parts.superseded("/s/a", 0, 5).empty());
  EXPECT_EQ(parts.superseded("/s/a", 0, 6), KeptParts::Streams{10});
  EXPECT_EQ(parts.superseded("/s/a", 1, 7), (KeptParts::Streams{11, 21}));
  EXPECT_TRUE(parts.superseded("/s/b", 0, 7).empty());
}

TEST(KeptParts, AJobOfOneRankNeedsNoneThatIsOlderThanOneInTheStore) {
  KeptParts parts;
  parts.add(1, "/s/a", 0, 5);
  parts.add(2, "/s/b", 0, 5);
  (void)parts.whole(1, true);
  (void)parts.whole(2, false);
  EXPECT_TRUE(parts.stored("/s/a", 0, 5).empty());
  EXPECT_EQ(parts.stored("/s/a", 0, 6), KeptParts::Streams{1});
  EXPECT_TRUE(parts.stored("/s/b", 0, 6).empty());
}

TEST(KeptParts, WhatIsNotWholeIsNeitherDroppedNorSent) {
  KeptParts parts;
  parts.add(1, "/s/a", 0, 5);
  const auto nobody = [](uint32_t) { return false; };
  EXPECT_TRUE(parts.superseded("/s/a", 0, 9).empty());
  EXPECT_TRUE(parts.abandoned(nobody, KeptParts::Time() + 1h, 0s).empty());
  EXPECT_FALSE(parts.least_needed(nobody));
}

TEST(KeptParts, ProgramsThatHaveGoneAreWaitedForFirst) {
  KeptParts parts;
  for (uint32_t i : {1U, 2U}) {
    parts.add(i, "/s/" + std::to_string(i), 0, 10 - i);
    (void)parts.whole(i, true);
  }
  bool gone = false;
  const auto has_client = [&](uint32_t stream) { return stream == 2 || !gone; };
  const KeptParts::Time start;
  EXPECT_TRUE(parts.abandoned(has_client, start, 10s).empty());
  EXPECT_EQ(parts.least_needed(has_client), 2U) << "the older one";
  gone = true;
  EXPECT_EQ(parts.least_needed(has_client), 1U);
  EXPECT_TRUE(parts.abandoned(has_client, start + 1s, 10s).empty());
  EXPECT_TRUE(parts.abandoned(has_client, start + 10s, 10s).empty());
  EXPECT_EQ(parts.abandoned(has_client, start + 11s, 10s), KeptParts::Streams{1});
  gone = false;  // another process of that number: its time begins anew
  EXPECT_TRUE(parts.abandoned(has_client, start + 12s, 10s).empty());
  gone = true;
  EXPECT_TRUE(parts.abandoned(has_client, start + 13s, 10s).empty());
}

TEST(CheckpointLevels, EveryNthGoesToTheStore) {
  CheckpointLevels levels(3);
  std::string went;
  for (uint64_t epoch = 1; epoch <= 8; ++epoch) {
    const bool in_memory = !levels.wants_store();
    went += in_memory ? 'm' : 's';
    levels.succeeded(epoch, in_memory, 0);
  }
  EXPECT_EQ(went, "smmsmmsm");
}

TEST(CheckpointLevels, AfterAFailureItIsTheOtherLevelsTurn) {
  CheckpointLevels levels(10);
  EXPECT_TRUE(levels.wants_store());
  levels.failed(false);
  EXPECT_FALSE(levels.wants_store());
  levels.failed(true);
  EXPECT_TRUE(levels.wants_store());
  levels.succeeded(3, false, 0);
  EXPECT_FALSE(levels.wants_store());
}

TEST(CheckpointLevels, ARestoredRunGoesOnCounting) {
  CheckpointLevels levels(3);
  levels.restored(7, 1, 0, false);
  EXPECT_EQ(levels.base(false).epoch, 0U) << "the store does not have it";
  EXPECT_FALSE(levels.wants_store());
  levels.succeeded(8, true, 0);
  EXPECT_TRUE(levels.wants_store());
}

TEST(CheckpointLevels, TwoImagesOfEachRankHaveToFit) {
  constexpr uint64_t kSlot = 4 << 20;
  EXPECT_TRUE(fits_twice(64 << 20, 1, 48, kSlot));
  EXPECT_FALSE(fits_twice(64 << 20, 1, 41, kSlot));
  EXPECT_FALSE(fits_twice(64 << 20, 2, 48, kSlot));
  EXPECT_TRUE(fits_twice(64 << 20, 2, 96, kSlot));
}

// ---- Random histories

// Where a rank's part of an epoch is, but for memory.
struct Where {
  bool in_store = false;
  uint64_t parent = 0;  // in the store
};

// A job with its nodes: each rank has its own gpusnapd here. Ranks agree on a cut as ballots do; a
// part fails by chance; all programs, or a node, may be lost at any moment between two steps.
class History {
 public:
  History(uint32_t ranks, uint64_t store_every, uint64_t seed)
      : ranks_(ranks), store_every_(store_every), random_(seed), memory_(ranks), store_(ranks) {
    begin_run();
  }

  void step() {
    const uint64_t epoch = ++last_;
    bool to_store = false;
    for (const CheckpointLevels& each : levels_) to_store |= each.wants_store();
    note_complete();
    std::vector<Part> parts;
    for (uint32_t rank = 0; rank < ranks_; ++rank) begin(rank, epoch, !to_store, parts);
    std::ranges::shuffle(parts, random_);
    for (const Part& part : parts) {
      expect_newest_is_there();
      if (chance(40)) return lose();
      end(part);
    }
    expect_newest_is_there();
    if (chance(6)) lose();
  }

 private:
  struct Part {
    uint32_t rank = 0;
    uint64_t epoch = 0;
    bool in_memory = false;
    CheckpointLevels::Base base;
  };
  struct Node {
    KeptParts kept;
    std::map<uint32_t, uint64_t> epochs;  // of whole parts, by stream
    uint32_t next = 0;
  };

  bool chance(uint32_t of) { return std::uniform_int_distribution<uint32_t>(1, of)(random_) == 1; }

  // As ballots say: the same newest epoch on all ranks is complete.
  void note_complete() {
    const auto newest = [](const CheckpointLevels& each) { return each.newest(); };
    const auto [least, most] = std::ranges::minmax(levels_, {}, newest);
    if (least.newest() == most.newest()) complete_ = std::max(complete_, most.newest());
  }

  void begin(uint32_t rank, uint64_t epoch, bool in_memory, std::vector<Part>& parts) {
    Node& node = memory_[rank];
    drop(node, node.kept.superseded("job", rank, complete_));
    CheckpointLevels::Base base = levels_[rank].base(in_memory);
    if (chance(5)) base = {};
    if (base.epoch != 0) {
      EXPECT_FALSE(in_memory) << "it builds on nothing";
      EXPECT_TRUE(store_[rank][base.epoch].in_store) << rank << ": on " << base.epoch;
    }
    parts.push_back({rank, epoch, in_memory, base});
  }

  void end(const Part& part) {
    CheckpointLevels& levels = levels_[part.rank];
    if (chance(8)) return levels.failed(part.in_memory);
    levels.succeeded(part.epoch, part.in_memory, part.base.epoch == 0 ? 0 : part.base.chain + 1);
    Node& node = memory_[part.rank];
    if (!part.in_memory) {
      store_[part.rank][part.epoch] = {true, part.base.epoch};
      return drop(node, node.kept.stored("job", part.rank, part.epoch));
    }
    const uint32_t stream = node.next++;
    node.kept.add(stream, "job", part.rank, part.epoch);
    node.epochs[stream] = part.epoch;
    drop(node, node.kept.whole(stream, ranks_ == 1));
  }

  static void drop(Node& node, const KeptParts::Streams& streams) {
    for (const uint32_t stream : streams) {
      node.kept.remove(stream);
      node.epochs.erase(stream);
    }
  }

  bool is_there(uint32_t rank, uint64_t epoch) const {
    const auto kept = [&](const auto& entry) { return entry.second == epoch; };
    const auto stored = store_[rank].find(epoch);
    return std::ranges::any_of(memory_[rank].epochs, kept) ||
           (stored != store_[rank].end() && stored->second.in_store);
  }
  // On all ranks; 0: none.
  uint64_t newest_usable() const {
    for (uint64_t epoch = last_; epoch > 0; --epoch) {
      bool all = true;
      for (uint32_t rank = 0; rank < ranks_; ++rank) all = all && is_there(rank, epoch);
      if (all) return epoch;
    }
    return 0;
  }

  // Never older than one that was complete, unless a node went.
  void expect_newest_is_there() {
    const uint64_t newest = newest_usable();
    EXPECT_GE(newest, least_) << "a complete checkpoint was dropped";
    least_ = std::max(least_, newest);
  }

  void lose() {
    if (chance(3)) {
      Node& node = memory_[std::uniform_int_distribution<uint32_t>(0, ranks_ - 1)(random_)];
      node = Node();
      least_ = newest_usable();
    } else if (chance(3)) {
      // A gpusnapd sends what it keeps to the store.
      Node& node = memory_[0];
      const auto nobody = [](uint32_t) { return false; };
      if (const auto sent = node.kept.least_needed(nobody)) {
        store_[0][node.epochs.at(*sent)] = {true, 0};
        drop(node, {*sent});
      }
    }
    expect_newest_is_there();
    begin_run();
  }

  // From the newest that is there on all ranks.
  void begin_run() {
    const uint64_t from = last_ == 0 ? 0 : newest_usable();
    levels_.assign(ranks_, CheckpointLevels(store_every_));
    complete_ = 0;
    if (from == 0) return;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const auto stored = store_[rank].find(from);
      const bool is_base = stored != store_[rank].end() && stored->second.in_store;
      levels_[rank].restored(from, 1, 0, is_base);
    }
  }

  const uint32_t ranks_;
  const uint64_t store_every_;
  std::mt19937_64 random_;
  uint64_t last_ = 0;      // epoch
  uint64_t complete_ = 0;  // as the ranks have agreed
  uint64_t least_ = 0;     // was complete, and must not have gone
  std::vector<CheckpointLevels> levels_;
  std::vector<Node> memory_;
  std::vector<std::map<uint64_t, Where>> store_;
};

TEST(KeptHistories, TheNewestCompleteCheckpointIsAlwaysThere) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    History history(1 + static_cast<uint32_t>(seed % 4), 1 + seed % 7, seed);
    for (int i = 0; i < 60; ++i) history.step();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace gpusnap::test
