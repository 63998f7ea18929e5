// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/fragment_table.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace gpusnap::history {
namespace {

constexpr uint64_t kAlignment = 256;

void expect_tiled(const FragmentTable& table) {
  uint64_t end = 0;
  const Fragment* before = nullptr;
  std::set<Claim> ended;
  for (const Fragment& fragment : table.fragments()) {
    ASSERT_EQ(fragment.offset, end);
    ASSERT_GT(fragment.size, 0);
    ASSERT_EQ(fragment.size % kAlignment, 0);
    if (before != nullptr && before->claim == fragment.claim) {
      ASSERT_TRUE(before->version || fragment.version) << "two gaps at " << fragment.offset;
    } else if (before != nullptr && before->claim != 0) {
      ended.insert(before->claim);
    }
    ASSERT_FALSE(ended.contains(fragment.claim)) << "a claim is torn at " << fragment.offset;
    before = &fragment;
    end += fragment.size;
  }
  ASSERT_EQ(end, table.capacity());
}

uint64_t place(FragmentTable& table, size_t first, size_t last, Version version, uint64_t bytes) {
  constexpr Claim kPassing = 1;
  table.claim(first, last, kPassing);
  return table.take(kPassing, version, bytes);
}

TEST(FragmentTable, BeginsWithOneGap) {
  const FragmentTable table(10 * kAlignment + 7, kAlignment);
  EXPECT_EQ(table.capacity(), 10 * kAlignment);
  ASSERT_EQ(table.fragments().size(), 1);
  EXPECT_EQ(table.fragments()[0].version, std::nullopt);
  EXPECT_TRUE(FragmentTable(kAlignment - 1, kAlignment).fragments().empty());
}

TEST(FragmentTable, LeavesAGapBehindWhatItPlaces) {
  FragmentTable table(10 * kAlignment, kAlignment);
  EXPECT_EQ(place(table, 0, 1, 7, 3 * kAlignment - 1), 0);
  ASSERT_EQ(table.fragments().size(), 2);
  EXPECT_EQ(table.fragments()[0].size, 3 * kAlignment);
  EXPECT_EQ(table.find(7), 0);
  EXPECT_EQ(table.find(8), std::nullopt);
}

TEST(FragmentTable, JoinsGapsWhenACheckpointGoes) {
  FragmentTable table(3 * kAlignment, kAlignment);
  for (uint64_t version = 0; version < 3; ++version) {
    place(table, version, version + 1, version, kAlignment);
  }
  table.remove(0);
  table.remove(2);
  EXPECT_EQ(table.fragments().size(), 3);
  table.remove(1);
  ASSERT_EQ(table.fragments().size(), 1);
  EXPECT_EQ(table.fragments()[0].size, 3 * kAlignment);
}

TEST(FragmentTable, AClaimKeepsItsGapsApart) {
  FragmentTable table(4 * kAlignment, kAlignment);
  for (uint64_t version = 0; version < 4; ++version) {
    place(table, version, version + 1, version, kAlignment);
  }
  table.claim(0, 2, 9);
  table.remove(1);
  table.remove(2);  // beside it, and not claimed
  expect_tiled(table);
  EXPECT_EQ(table.fragments().size(), 4);
  table.remove(0);
  ASSERT_EQ(table.claimed(9).size(), 1);
  EXPECT_EQ(table.claimed(9)[0].size, 2 * kAlignment);
  table.release(9);
  ASSERT_EQ(table.fragments().size(), 2);
  EXPECT_EQ(table.fragments()[0].size, 3 * kAlignment);
  EXPECT_TRUE(table.claimed(9).empty());
}

// Claims, checkpoints that take them over, releases and removals at random; where each checkpoint
// lies is remembered apart.
class AnyHistory {
 public:
  explicit AnyHistory(uint64_t seed)
      : random_(seed), table_((1 + random_() % 64) * kAlignment, kAlignment) {}

  void run() {
    for (int step = 0; step < 400; ++step) {
      switch (random_() % 4) {
        case 0:
          remove();
          break;
        case 1:
          claim();
          break;
        case 2:
          release();
          break;
        default:
          take();
          break;
      }
      expect_tiled(table_);
      for (const auto& [version, offset] : offsets_) {
        ASSERT_TRUE(table_.find(version).has_value());
        ASSERT_EQ(table_.fragments()[*table_.find(version)].offset, offset);
      }
    }
  }

 private:
  void remove() {
    if (offsets_.empty()) return;
    const auto victim = std::next(offsets_.begin(), random_() % offsets_.size());
    table_.remove(victim->first);
    offsets_.erase(victim);
  }

  void claim() {
    const auto fragments = table_.fragments();
    const size_t first = random_() % fragments.size();
    size_t last = first;
    while (last < fragments.size() && fragments[last].claim == 0 && random_() % 3 != 0) ++last;
    if (last == first) return;
    claims_.push_back(++newest_claim_);
    table_.claim(first, last, claims_.back());
  }

  std::optional<Claim> end_a_claim() {
    if (claims_.empty()) return std::nullopt;
    std::swap(claims_[random_() % claims_.size()], claims_.back());
    const Claim claim = claims_.back();
    claims_.pop_back();
    return claim;
  }

  void release() {
    if (const auto claim = end_a_claim()) table_.release(*claim);
  }

  void take() {
    const auto claim = end_a_claim();
    if (!claim) return;
    uint64_t room = 0;
    for (const Fragment& fragment : table_.claimed(*claim)) {
      room += fragment.size;
      if (fragment.version) offsets_.erase(*fragment.version);
    }
    const Version version = ++newest_version_;
    offsets_[version] = table_.take(*claim, version, 1 + random_() % room);
  }

  std::mt19937_64 random_;
  FragmentTable table_;
  std::map<Version, uint64_t> offsets_;
  std::vector<Claim> claims_;
  Claim newest_claim_ = 0;
  Version newest_version_ = 0;
};

TEST(FragmentTable, StaysTiledWhateverHappens) {
  for (uint64_t seed = 0; seed < 300; ++seed) AnyHistory(seed).run();
}

}  // namespace
}  // namespace gpusnap::history
