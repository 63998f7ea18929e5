#include "tracker/write_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace gpusnap {
namespace {

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

Ranges ranges_of(const WriteSet& set) {
  Ranges ranges;
  for (const WriteSet::Range& range : set) ranges.emplace_back(range.address, range.size);
  return ranges;
}

TEST(WriteSet, NothingSaidIsNotTheSameAsNothing) {
  WriteSet set;
  EXPECT_FALSE(set.said());
  set.add(0x1000, 0);
  EXPECT_TRUE(set.said());
  EXPECT_TRUE(set.empty());
  WriteSet box;
  box.add_box(0x1000, 4, 0, 8, 1, 0);
  EXPECT_TRUE(box.said());
  EXPECT_TRUE(box.empty());
}

TEST(WriteSet, BeyondItsRoomItIsEverything) {
  WriteSet set;
  for (uint64_t i = 0; i < WriteSet::kMost; ++i) set.add(2 * WriteSet::kNear * (i + 1), 1);
  EXPECT_FALSE(set.everything());
  set.add(0x7000'0000, 1);
  EXPECT_TRUE(set.everything());
}

TEST(WriteSet, ManySmallRangesSideBySideAreFew) {
  WriteSet set;
  for (uint64_t i = 0; i < 1000; ++i) set.add(0x10'0000 + 256 * (i ^ 5), 1);
  set.add_range_of(0x7000'0000);
  EXPECT_FALSE(set.everything());
  uint64_t bytes = 0;
  for (const WriteSet::Range& range : set) bytes += range.address < 0x7000'0000 ? range.size : 0;
  EXPECT_LE(bytes, 256U * 1000);
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t address = 0x10'0000 + 256 * i;
    const auto holds = [address](const WriteSet::Range& range) {
      return address - range.address < range.size;
    };
    EXPECT_TRUE(std::ranges::any_of(set, holds)) << i;
  }
}

TEST(WriteSet, AWholeRangeIsNotJoined) {
  WriteSet set;
  for (uint64_t i = 0; i < WriteSet::kMost; ++i) set.add_range_of(0x1000 + 16 * i);
  EXPECT_FALSE(set.everything());
  set.add_range_of(0x1000);
  EXPECT_TRUE(set.everything());
}

TEST(WriteSet, ARangeDoesNotWrap) {
  WriteSet set;
  set.add(UINT64_MAX - 9, 100);
  EXPECT_EQ(ranges_of(set), (Ranges{{UINT64_MAX - 9, 9}}));
}

TEST(WriteSet, FewRowsAreKeptApart) {
  WriteSet set;
  set.add_box(0x1000, 16, 3, 256, 1, 0);
  EXPECT_EQ(ranges_of(set), (Ranges{{0x1000, 16}, {0x1100, 16}, {0x1200, 16}}));
  WriteSet slices;
  slices.add_box(0x1000, 16, 2, 256, 2, 0x1000);
  EXPECT_EQ(ranges_of(slices), (Ranges{{0x1000, 16}, {0x1100, 16}, {0x2000, 16}, {0x2100, 16}}));
}

TEST(WriteSet, ManyRowsAreTheRangeAroundThem) {
  WriteSet set;
  set.add_box(0x1000, 16, 9, 256, 1, 0);
  EXPECT_EQ(ranges_of(set), (Ranges{{0x1000, 8 * 256 + 16}}));
  WriteSet slices;
  slices.add_box(0x1000, 16, 4, 256, 3, 0x2000);
  EXPECT_EQ(ranges_of(slices), (Ranges{{0x1000, 2 * 0x2000 + 3 * 256 + 16}}));
}

TEST(WriteSet, RowsWithoutGapsAreOneRange) {
  WriteSet set;
  set.add_box(0x1000, 256, 3, 256, 2, 768);
  EXPECT_EQ(ranges_of(set), (Ranges{{0x1000, 6 * 256}}));
  WriteSet gap;
  gap.add_box(0x1000, 256, 2, 256, 2, 768);
  EXPECT_EQ(ranges_of(gap).size(), 4u);
}

TEST(WriteSet, ABoxOfAnyShapeCoversItsStart) {
  WriteSet set;
  set.add_box(0x1000, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX);
  ASSERT_EQ(ranges_of(set).size(), 1u);
  EXPECT_EQ(ranges_of(set)[0], std::pair(uint64_t{0x1000}, UINT64_MAX - 0x1000));
  WriteSet rows;  // a product that is 2 in 64 bits
  rows.add_box(0x1000, 16, (uint64_t{1} << 63) + 1, 256, 2, 0);
  EXPECT_EQ(ranges_of(rows).size(), 1u);
}

TEST(WriteSet, SaysWhoseGuessItIs) {
  WriteSet set;
  EXPECT_FALSE(set.launch());
  set.add_launch();
  EXPECT_TRUE(set.launch());
  EXPECT_TRUE(set.proven());
  set.add_guess(7);
  EXPECT_FALSE(set.proven());
  set.add_guess(3);
  set.add_guess(7);
  EXPECT_EQ(std::vector(set.guesses().begin(), set.guesses().end()), (std::vector{7u, 3u}));
  EXPECT_FALSE(set.everything());
}

TEST(WriteSet, MoreGuessesThanItHasRoomForAreNotNamed) {
  WriteSet set;
  for (uint32_t kernel = 0; kernel < WriteSet::kMostGuesses; ++kernel) set.add_guess(kernel);
  set.add_guess(0);
  EXPECT_FALSE(set.has_other_guesses());
  set.add_guess(WriteSet::kMostGuesses);
  EXPECT_TRUE(set.has_other_guesses());
  EXPECT_EQ(set.guesses().size(), WriteSet::kMostGuesses);
  EXPECT_FALSE(set.unknown()) << "what it names is all that it may write, for all that is known";
}

}  // namespace
}  // namespace gpusnap
