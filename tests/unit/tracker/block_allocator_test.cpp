// SPDX-License-Identifier: Apache-2.0
#include "tracker/block_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace gpusnap::block_allocator_test {
namespace {

constexpr uint64_t kBase = 0x4000'0000'0000;
constexpr uint64_t kUnit = BlockAllocator::kUnit;
constexpr uint64_t kGranule = BlockAllocator::kGranule;

TEST(BlockAllocator, TakesTheSmallestGapAndOfEqualOnesTheLowest) {
  BlockAllocator all(kBase, 8 * kGranule);
  std::array<uint64_t, 6> at{};
  const std::array<uint64_t, 6> units{4, 1, 2, 1, 2, 1};
  for (size_t i = 0; i < at.size(); ++i) at[i] = *all.take(units[i] * kUnit);
  EXPECT_EQ(at[0], kBase);
  for (const size_t gone : {0, 2, 4}) EXPECT_TRUE(all.give_back(at[gone]));
  EXPECT_EQ(all.take(2 * kUnit), at[2]);
  EXPECT_EQ(all.take(2 * kUnit), at[4]);
  EXPECT_EQ(all.take(1), at[0]);
}

TEST(BlockAllocator, GivesWhatThereIsAndNoMore) {
  BlockAllocator all(kBase, 4 * kGranule);
  EXPECT_FALSE(all.take(0));
  EXPECT_FALSE(all.take(4 * kGranule + 1));
  EXPECT_FALSE(all.take(UINT64_MAX));
  EXPECT_EQ(all.take(4 * kGranule), kBase);
  EXPECT_FALSE(all.take(1));
  EXPECT_FALSE(all.give_back(kBase + kUnit));
  EXPECT_TRUE(all.give_back(kBase));
  EXPECT_FALSE(all.give_back(kBase));
  EXPECT_TRUE(all.take(1));
}

TEST(BlockAllocator, TakesExactlyWhatIsFree) {
  BlockAllocator all(kBase, 4 * kGranule);
  EXPECT_FALSE(all.take_at(kBase - kUnit, kUnit));
  EXPECT_FALSE(all.take_at(kBase + 4 * kGranule, kUnit));
  EXPECT_FALSE(all.take_at(kBase + 1, kUnit));
  EXPECT_TRUE(all.take_at(kBase + 4 * kUnit, 3 * kUnit));
  EXPECT_FALSE(all.take_at(kBase + 6 * kUnit, kUnit));
  EXPECT_FALSE(all.take_at(kBase + 3 * kUnit, 2 * kUnit));
  EXPECT_TRUE(all.take_at(kBase + 3 * kUnit, 1));
  EXPECT_EQ(all.gaps().size(), 2u);
}

// ---- random histories ----

uint64_t random_size(std::mt19937& random) {
  const unsigned bits = 1 + random() % 27;
  return 1 + random() % (uint64_t{1} << bits);
}

void expect_sound(const BlockAllocator& all, uint64_t bytes) {
  uint64_t end = kBase;
  bool was_gap = false;
  auto block = all.blocks().begin();
  auto gap = all.gaps().begin();
  while (block != all.blocks().end() || gap != all.gaps().end()) {
    const bool is_gap =
        block == all.blocks().end() || (gap != all.gaps().end() && gap->first < block->first);
    const auto& [address, size] = is_gap ? *gap++ : *block++;
    ASSERT_EQ(address, end);  // neither overlaps nor leaves anything out
    ASSERT_GT(size, 0u);
    ASSERT_EQ(address % kUnit + size % kUnit, 0u);
    ASSERT_FALSE(is_gap && was_gap);  // all that is free is coalesced
    was_gap = is_gap;
    end = address + size;
  }
  ASSERT_EQ(end, kBase + bytes);
}

TEST(BlockAllocator, RandomHistoriesNeitherOverlapNorLeaveGapsApart) {
  std::mt19937 random(1);
  for (int history = 0; history < 60; ++history) {
    const uint64_t bytes = kGranule << (random() % 9);
    BlockAllocator all(kBase, bytes);
    std::map<uint64_t, uint64_t> model;
    for (int step = 0; step < 300; ++step) {
      if (model.empty() || random() % 5 < 3) {
        const uint64_t size = random_size(random);
        const auto at = all.take(size);
        if (!at) continue;
        ASSERT_EQ(*at % (size >= BlockAllocator::kLarge ? kGranule : kUnit), 0u);
        ASSERT_TRUE(model.emplace(*at, size).second);
        ASSERT_GE(all.blocks().at(*at), size);
        ASSERT_LT(all.blocks().at(*at), size + kUnit);
      } else {
        const auto gone = std::next(model.begin(), static_cast<long>(random() % model.size()));
        ASSERT_TRUE(all.give_back(gone->first));
        model.erase(gone);
      }
      ASSERT_EQ(all.blocks().size(), model.size());
      expect_sound(all, bytes);
    }
    for (const auto& [address, size] : model) ASSERT_TRUE(all.give_back(address));
    ASSERT_EQ(all.gaps(), (std::map<uint64_t, uint64_t>{{kBase, bytes}}));
  }
}

// A replay relies on it: it may make the calls of several threads in another order, and makes none
// that failed.
TEST(BlockAllocator, BlocksAloneDecideWhereTheNextGoes) {
  std::mt19937 random(2);
  for (int history = 0; history < 40; ++history) {
    constexpr uint64_t kBytes = 256 * kGranule;
    BlockAllocator all(kBase, kBytes);
    std::vector<uint64_t> live;
    for (int step = 0; step < 200; ++step) {
      if (live.empty() || random() % 3 != 0) {
        if (const auto at = all.take(random_size(random))) live.push_back(*at);
      } else {
        std::swap(live[random() % live.size()], live.back());
        ASSERT_TRUE(all.give_back(live.back()));
        live.pop_back();
      }
    }
    // The same blocks, in another order.
    std::shuffle(live.begin(), live.end(), random);
    BlockAllocator other(kBase, kBytes);
    for (const uint64_t at : live) ASSERT_TRUE(other.take_at(at, all.blocks().at(at)));
    ASSERT_EQ(other.blocks(), all.blocks());
    ASSERT_EQ(other.gaps(), all.gaps());
    for (int next = 0; next < 20; ++next) {
      const uint64_t size = random_size(random);
      ASSERT_EQ(other.take(size), all.take(size));
    }
  }
}

// ---- waste ----

uint64_t granules_in_use(const BlockAllocator& all) {
  std::set<uint64_t> used;
  for (const auto& [address, size] : all.blocks()) {
    for (uint64_t at = address / kGranule; at * kGranule < address + size; ++at) used.insert(at);
  }
  return used.size();
}

// Like the allocations of a training program: parameters, gradients and optimiser states of many
// sizes that stay, and in each step activations and workspaces that come and go in another order.
struct Trace {
  BlockAllocator all{kBase, uint64_t{1} << 40};
  std::mt19937 random{3};
  uint64_t live = 0;
  double worst = 0;

  uint64_t take(uint64_t bytes) {
    const uint64_t at = *all.take(bytes);
    live += bytes;
    note();
    return at;
  }
  void give_back(uint64_t at, uint64_t bytes) {
    ASSERT_TRUE(all.give_back(at));
    live -= bytes;
    note();
  }
  // Where there is enough to be a share of.
  void note() {
    if (live < uint64_t{256} << 20) return;
    const auto backed = static_cast<double>(granules_in_use(all) * kGranule);
    worst = std::max(worst, backed / static_cast<double>(live) - 1);
  }
};

TEST(BlockAllocator, WastesAtMostThreePercentOfALikelyTrace) {
  Trace trace;
  constexpr std::array<uint64_t, 8> kShapes{4 * 768,        768 * 768 * 4,  3072 * 768 * 4,
                                            50257 * 64 * 4, 1024 * 768 * 4, 512,
                                            2304 * 768 * 4, 100'000};
  for (int copy = 0; copy < 4; ++copy) {
    for (int layer = 0; layer < 6; ++layer) {
      for (const uint64_t shape : kShapes) trace.take(shape);
    }
  }
  for (int step = 0; step < 10; ++step) {
    std::vector<std::pair<uint64_t, uint64_t>> activations;
    for (int i = 0; i < 60; ++i) {
      const uint64_t bytes = 1024 + trace.random() % (uint64_t{12} << (trace.random() % 20));
      activations.emplace_back(trace.take(bytes), bytes);
      if (trace.random() % 4 != 0) continue;
      std::swap(activations[trace.random() % activations.size()], activations.back());
      trace.give_back(activations.back().first, activations.back().second);
      activations.pop_back();
    }
    std::shuffle(activations.begin(), activations.end(), trace.random);
    for (const auto& [at, bytes] : activations) trace.give_back(at, bytes);
  }
  EXPECT_LE(trace.worst, 0.03);
}

}  // namespace
}  // namespace gpusnap::block_allocator_test
