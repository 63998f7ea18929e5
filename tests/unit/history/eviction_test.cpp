// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

namespace gpusnap::history {
namespace {

using Candidates = std::vector<Candidate>;

// The span of a queue of six hints.
constexpr uint64_t kSpan = 6;
constexpr uint64_t kOfUnhinted = distance_of_unhinted(kSpan);
constexpr uint64_t kOfConsumed = distance_of_consumed(kSpan);
constexpr uint64_t kOfGap = distance_of_gap(kSpan);

std::optional<Window> choose(const Candidates& fragments, uint64_t size,
                             Evictor evictor = Evictor::kScore) {
  return choose_window(fragments, size, evictor);
}

TEST(Eviction, AGapComesFirst) {
  EXPECT_EQ(choose({{4, 0, 2}, {4, 0, kOfGap}, {4, 0, 5}}, 4), (Window{1, 2}));
}

TEST(Eviction, TheFarthestRestoreComesFirst) {
  EXPECT_EQ(choose({{4, 0, 0}, {4, 0, 5}, {4, 0, 3}}, 4), (Window{1, 2}));
}

TEST(Eviction, WaitingCountsBeforeDistance) {
  EXPECT_EQ(choose({{4, 3, 9}, {4, 0, 0}, {4, 1, 9}}, 4), (Window{1, 2}));
}

TEST(Eviction, SeveralFragmentsMakeAWindow) {
  EXPECT_EQ(choose({{3, 0, kOfGap}, {1, 0, 1}, {4, 0, kOfGap}, {8, 0, 5}}, 8), (Window{0, 3}));
}

TEST(Eviction, TheLoopAsPrintedMissesWindowsAtTheEnd) {
  const Candidates fragments = {{10, 7, 3}, {100, 0, 4}};
  EXPECT_EQ(choose(fragments, 100), (Window{1, 2}));
  EXPECT_EQ(choose(fragments, 100, Evictor::kAsPrinted), (Window{0, 2}));
}

TEST(Eviction, NoWindowContainsABarrier) {
  EXPECT_EQ(choose({{4, 0, 2}, {4, kNever, 0}, {4, 0, 3}}, 8), std::nullopt);
  EXPECT_EQ(choose({{4, 0, 2}, {4, kNever, 0}, {4, 9, 3}, {4, 0, 0}}, 8), (Window{2, 4}));
}

TEST(Eviction, TheOldestOfEqualsGoes) {
  EXPECT_EQ(choose({{4, 0, kOfUnhinted, 32}, {4, 0, kOfUnhinted, 1}, {4, 0, kOfUnhinted, 2}}, 4),
            (Window{1, 2}));
}

TEST(Eviction, ConsumedCheckpointsGoBeforeQueuedOnes) {
  EXPECT_EQ(choose({{4, 0, 5}, {4, 0, kOfConsumed}}, 4), (Window{1, 2}));
}

TEST(Eviction, AGapComesBeforeSeveralCheckpoints) {
  const Candidates fragments = {{4, 0, kOfGap}, {2, 0, 5}, {2, 0, 4}, {4, 0, 0}};
  EXPECT_EQ(choose(fragments, 4), (Window{0, 1}));
  EXPECT_EQ(choose(fragments, 4, Evictor::kAsPrinted), (Window{1, 3}));
}

TEST(Eviction, BytesThatAreReadSoonWeighMore) {
  EXPECT_EQ(choose({{4, 0, 0}, {4, 0, 1}, {8, 0, 4}, {8, 0, kOfUnhinted}}, 8), (Window{3, 4}));
  EXPECT_EQ(choose({{4, 0, 5}, {4, 0, 4}, {8, 0, 3}, {8, 0, 0}}, 8), (Window{0, 2}));
}

TEST(Eviction, NothingIsLargeEnough) {
  EXPECT_EQ(choose({}, 1), std::nullopt);
  EXPECT_EQ(choose({{4, 0, kOfGap}}, 5), std::nullopt);
}

TEST(Eviction, FirstInFirstOutLooksAtAgeAlone) {
  const Candidates fragments = {{4, 0, kOfUnhinted, 3}, {4, 50, 0, 2}, {4, 0, kOfUnhinted, 4}};
  EXPECT_EQ(choose(fragments, 4, Evictor::kFifo), (Window{1, 2}));
  EXPECT_EQ(choose(fragments, 4, Evictor::kLru), (Window{1, 2}));
}

// The youngest checkpoint decides: the neighbours of the oldest one may have just been written.
TEST(Eviction, FirstInFirstOutSparesTheNewest) {
  const Candidates fragments = {{4, 0, 0, 8}, {4, 0, 0, 9}, {1, 0, kOfGap, 0},
                                {4, 0, 0, 1}, {4, 0, 0, 2}, {4, 0, 0, 3}};
  EXPECT_EQ(choose(fragments, 5, Evictor::kFifo), (Window{2, 4}));
  EXPECT_EQ(choose(fragments, 8, Evictor::kFifo), (Window{3, 5}));
}

// A table of all that can be in one.
Candidates any_table(std::mt19937_64& random) {
  Candidates fragments(1 + random() % 24);
  uint64_t age = 0;
  for (Candidate& each : fragments) {
    each.size = 1 + random() % 16;
    each.wait_ns = random() % 3 == 0 ? static_cast<int64_t>(random() % 5) : 0;
    if (random() % 8 == 0) each.wait_ns = kNever;
    each.distance = random() % (kOfGap + 1);
    each.age = each.distance == kOfGap ? 0 : ++age;
  }
  std::ranges::shuffle(fragments, random);
  return fragments;
}

struct Sums {
  uint64_t size = 0, distance = 0, loss = 0, oldest = UINT64_MAX;
  int64_t wait_ns = 0;
  bool barrier = false;
};

Sums sums(const Candidates& fragments, size_t first, size_t last) {
  Sums sum;
  uint64_t farthest = 0;
  for (const Candidate& each : fragments) farthest = std::max(farthest, each.distance);
  for (size_t i = first; i < last; ++i) {
    sum.loss += fragments[i].size * (farthest - fragments[i].distance);
    sum.size += fragments[i].size;
    sum.distance += fragments[i].distance;
    sum.oldest = std::min(sum.oldest, fragments[i].age);
    if (fragments[i].wait_ns == kNever)
      sum.barrier = true;
    else
      sum.wait_ns += fragments[i].wait_ns;
  }
  return sum;
}

bool is_minimal(const Candidates& fragments, size_t first, size_t last, uint64_t size) {
  return sums(fragments, first, last).size >= size &&
         sums(fragments, first + 1, last).size < size &&
         sums(fragments, first, last - 1).size < size;
}

// Looks at every window.
std::optional<Window> by_brute_force(const Candidates& fragments, uint64_t size) {
  std::optional<Window> best;
  std::tuple<int64_t, uint64_t, uint64_t> best_rank;
  for (size_t first = 0; first < fragments.size(); ++first) {
    for (size_t last = first + 1; last <= fragments.size(); ++last) {
      const Sums sum = sums(fragments, first, last);
      if (sum.barrier || !is_minimal(fragments, first, last, size)) continue;
      const std::tuple rank(sum.wait_ns, sum.loss, sum.oldest);
      if (!best || rank < best_rank) {
        best = Window{first, last};
        best_rank = rank;
      }
    }
  }
  return best;
}

TEST(Eviction, TheBestOfAllWindowsIsChosenInTwoStepsAFragment) {
  std::mt19937_64 random(17);
  for (int table = 0; table < 100'000; ++table) {
    const Candidates fragments = any_table(random);
    const uint64_t size = 1 + random() % 48;
    uint64_t steps = 0;
    const auto chosen = choose_window(fragments, size, Evictor::kScore, &steps);
    ASSERT_EQ(chosen, by_brute_force(fragments, size)) << "table " << table;
    ASSERT_LE(steps, 2 * fragments.size());
  }
}

TEST(Eviction, OtherPoliciesChooseMinimalWindowsWithoutBarriers) {
  std::mt19937_64 random(18);
  for (int table = 0; table < 20'000; ++table) {
    const Candidates fragments = any_table(random);
    const uint64_t size = 1 + random() % 48;
    for (const Evictor evictor : {Evictor::kFifo, Evictor::kLru}) {
      const auto chosen = choose(fragments, size, evictor);
      ASSERT_EQ(chosen.has_value(), by_brute_force(fragments, size).has_value());
      if (!chosen) continue;
      ASSERT_TRUE(is_minimal(fragments, chosen->first, chosen->last, size));
      ASSERT_FALSE(sums(fragments, chosen->first, chosen->last).barrier);
    }
  }
}

// The printed loop never waits less than the corrected one, and sometimes longer.
TEST(Eviction, TheLoopAsPrintedIsWrongNowAndThen) {
  std::mt19937_64 random(19);
  int tables = 0, other = 0, longer = 0;
  for (int table = 0; table < 20'000; ++table) {
    const Candidates fragments = any_table(random);
    const uint64_t size = 1 + random() % 48;
    const auto best = choose(fragments, size);
    if (!best) continue;
    ++tables;
    const auto printed = choose(fragments, size, Evictor::kAsPrinted);
    if (!printed) {
      ++other;
      continue;
    }
    const Sums by_us = sums(fragments, best->first, best->last);
    const Sums by_paper = sums(fragments, printed->first, printed->last);
    ASSERT_LE(by_us.wait_ns, by_paper.wait_ns);
    longer += by_us.wait_ns < by_paper.wait_ns;
    other += by_us.wait_ns != by_paper.wait_ns || by_us.distance > by_paper.distance;
  }
  RecordProperty("tables", tables);
  RecordProperty("other_choice", other);
  RecordProperty("longer_wait", longer);
  EXPECT_GT(other, 0);
  EXPECT_GT(longer, 0);
}

}  // namespace
}  // namespace gpusnap::history
