// SPDX-License-Identifier: Apache-2.0
// Which ranges of a checkpoint a user means.
#include "tools/cli/range_selection.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace gpusnap {
namespace {

TEST(Selectors, AreRead) {
  EXPECT_EQ(parse_address("0x7f00"), 0x7f00U);
  EXPECT_EQ(parse_address("7F00"), 0x7f00U);
  for (const char* wrong : {"", "0x", "0xg", "-1", "10000000000000000", "7 "}) {
    EXPECT_EQ(parse_address(wrong), std::nullopt) << wrong;
  }
  const auto site = parse_site("00f1e2d3c4b5a697:12");
  ASSERT_TRUE(site.has_value());
  EXPECT_EQ(site->call_site, 0xf1e2d3c4b5a697U);
  EXPECT_EQ(site->ordinal, 12U);
  EXPECT_EQ(parse_site("12")->ordinal, std::nullopt);
  for (const char* wrong : {"", ":1", "12:", "12:x", "12:4294967296", "12:-1", "xyz"}) {
    EXPECT_FALSE(parse_site(wrong).has_value()) << wrong;
  }
}

class Selection : public ::testing::Test {
 protected:
  Selection() {
    checkpoint_.id = "wave@1";
    for (const uint32_t rank : {0, 1}) {
      Manifest manifest;
      manifest.rank = rank;
      manifest.ranges = {allocation(0x1000, 0xaa, 0), allocation(0x2000, 0xaa, 1),
                         allocation(0x3000, 0xbb, 0), global("step")};
      if (rank == 1) manifest.ranges.pop_back();
      checkpoint_.ranks.push_back(manifest);
    }
  }
  static SavedRange allocation(uint64_t address, uint64_t site, uint32_t ordinal) {
    SavedRange range;
    range.address = address;
    range.size = 0x100;
    range.call_site = site;
    range.ordinal = ordinal;
    return range;
  }
  static SavedRange global(const std::string& name) {
    SavedRange range;
    range.kind = 1;
    range.address = 0x9000;
    range.size = 4;
    range.name = name;
    return range;
  }
  // By rank; nothing where something is not found.
  std::map<uint32_t, std::vector<uint32_t>> chosen(const RangeSelection& selection) const {
    std::map<uint32_t, std::vector<uint32_t>> ranges;
    const auto selected = select_ranges(checkpoint_, selection);
    if (!selected.ok()) {
      EXPECT_EQ(selected.status().code(), Code::kNotFound);
      return ranges;
    }
    for (const SelectedRanges& each : selected.value()) ranges[each.rank->rank] = each.ranges;
    return ranges;
  }

  using Chosen = std::map<uint32_t, std::vector<uint32_t>>;
  CheckpointInfo checkpoint_;
};

TEST_F(Selection, IsEverythingWithoutAWay) {
  EXPECT_EQ(chosen({}), (Chosen{{0, {0, 1, 2, 3}}, {1, {0, 1, 2}}}));
  EXPECT_EQ(chosen({.rank = 1}), (Chosen{{1, {0, 1, 2}}}));
  EXPECT_EQ(chosen({.rank = 2}), Chosen());
  checkpoint_.ranks[1].ranges.clear();
  EXPECT_EQ(chosen({.rank = 1}), (Chosen{{1, {}}}));
}

TEST_F(Selection, IsByNumberAddressSiteAndName) {
  EXPECT_EQ(chosen({.numbers = {3}}), (Chosen{{0, {3}}}));
  EXPECT_EQ(chosen({.rank = 1, .numbers = {3}}), Chosen());
  EXPECT_EQ(chosen({.rank = 0, .addresses = {0x2000}}), (Chosen{{0, {1}}}));
  EXPECT_EQ(chosen({.rank = 0, .addresses = {0x20ff}}), (Chosen{{0, {1}}}));
  EXPECT_EQ(chosen({.rank = 0, .addresses = {0x2100}}), Chosen());
  EXPECT_EQ(chosen({.rank = 0, .sites = {{0xaa, {}}}}), (Chosen{{0, {0, 1}}}));
  EXPECT_EQ(chosen({.rank = 0, .sites = {{0xaa, 1}}}), (Chosen{{0, {1}}}));
  EXPECT_EQ(chosen({.rank = 0, .sites = {{0xaa, 2}}}), Chosen());
  EXPECT_EQ(chosen({.names = {"step"}}), (Chosen{{0, {3}}}));
  EXPECT_EQ(chosen({.names = {""}}), Chosen()) << "allocations have no name";
}

TEST_F(Selection, IsWhatIsChosenInAnyWay) {
  EXPECT_EQ(chosen({.rank = 0, .numbers = {2, 0}, .addresses = {0x1000}, .names = {"step"}}),
            (Chosen{{0, {0, 2, 3}}}));
  EXPECT_EQ(chosen({.numbers = {0}, .names = {"nothing"}}), Chosen());
}

}  // namespace
}  // namespace gpusnap
