// SPDX-License-Identifier: Apache-2.0
// Differences between two ranges, the pairs of ranges that are compared, and that a comparison of
// stored checkpoints finds the same as one of the memories in them.
#include "tools/cli/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "chain_support.h"
#include "fault_file_system.h"
#include "tools/cli/checkpoint_diff.h"

namespace gpusnap {
namespace {

using test::below;
using test::Image;
using test::Random;

SavedRange site(uint64_t call_site, uint32_t ordinal, uint64_t size) {
  SavedRange range;
  range.call_site = call_site;
  range.ordinal = ordinal;
  range.size = size;
  return range;
}

struct Pairs {
  std::vector<std::pair<uint32_t, uint32_t>> identity;
  std::vector<std::pair<uint32_t, uint32_t>> number;
  std::vector<uint32_t> only_one;
  std::vector<uint32_t> only_other;
  bool operator==(const Pairs&) const = default;
};

Pairs match(const std::vector<SavedRange>& one, const std::vector<SavedRange>& other) {
  const RangeMatch match = match_ranges(one, other);
  Pairs pairs{{}, {}, match.only_one, match.only_other};
  for (const RangePair& pair : match.both) {
    (pair.by_number ? pairs.number : pairs.identity).emplace_back(pair.one, pair.other);
  }
  return pairs;
}

TEST(Matching, IsByIdentityWhateverTheOrder) {
  EXPECT_EQ(match({site(1, 0, 8), site(1, 1, 8), site(2, 0, 8)},
                  {site(2, 0, 8), site(1, 1, 8), site(1, 0, 8)}),
            (Pairs{{{0, 2}, {1, 1}, {2, 0}}, {}, {}, {}}));
}

TEST(Matching, PrefersTheSameSize) {
  EXPECT_EQ(match({site(1, 0, 8), site(1, 0, 16)}, {site(1, 0, 16), site(1, 0, 24)}),
            (Pairs{{{0, 1}, {1, 0}}, {}, {}, {}}));
}

TEST(Matching, IsByNumberForWhatIsLeft) {
  EXPECT_EQ(match({site(1, 0, 8), site(2, 0, 8)}, {site(7, 0, 8), site(2, 0, 8)}),
            (Pairs{{{1, 1}}, {{0, 0}}, {}, {}}));
  EXPECT_EQ(match({site(1, 0, 8)}, {site(7, 0, 16)}), (Pairs{{}, {}, {0}, {0}}));
  SavedRange array = site(1, 0, 8);
  array.kind = 4;
  EXPECT_EQ(match({site(1, 0, 8)}, {array}), (Pairs{{}, {}, {0}, {0}}));
}

TEST(Matching, TellsWhatOnlyOneHas) {
  EXPECT_EQ(match({}, {site(1, 0, 8)}), (Pairs{{}, {}, {}, {0}}));
  EXPECT_EQ(match({site(3, 0, 8), site(1, 0, 8)}, {site(1, 0, 8)}), (Pairs{{{1, 0}}, {}, {0}, {}}));
}

// ---- ranges ----

using Bytes = std::vector<std::byte>;

struct Counts {
  uint64_t bytes = 0;
  uint64_t elements = 0;
  uint64_t zones = 0;
  std::vector<uint64_t> first;
  bool operator==(const Counts&) const = default;
};

Counts counts_of(const RangeComparison& comparison) {
  Counts counts{comparison.bytes(), comparison.elements(), comparison.zones(), {}};
  for (const DifferingElement& element : comparison.first()) counts.first.push_back(element.index);
  return counts;
}

// Byte by byte.
Counts expected(const Bytes& one, const Bytes& other, const RangeComparison::Units& units) {
  Counts counts;
  std::set<uint64_t> elements, zones;
  for (uint64_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    if (one[i] == other[i]) continue;
    ++counts.bytes;
    elements.insert(i / units.element);
    zones.insert(i / units.zone);
  }
  counts.elements = elements.size();
  counts.zones = zones.size();
  for (const uint64_t element : elements) {
    if (counts.first.size() < units.most) counts.first.push_back(element);
  }
  return counts;
}

TEST(Ranges, AreComparedInPieces) {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    const RangeComparison::Units units{uint64_t{1} << below(random, 5),
                                       uint64_t{64} << below(random, 3), below(random, 4)};
    Bytes one(1 + below(random, 1000)), other = one;
    for (uint64_t i = below(random, 5); i > 0; --i) {
      other[below(random, other.size())] ^= std::byte{1};
    }
    RangeComparison comparison(units);
    for (size_t at = 0; at < one.size();) {
      const size_t size =
          std::min<size_t>(one.size() - at, units.element * (1 + below(random, 20)));
      comparison.add(std::span(one).subspan(at, size), std::span(other).subspan(at, size));
      at += size;
    }
    EXPECT_EQ(counts_of(comparison), expected(one, other, units)) << round;
  }
}

TEST(Ranges, GiveBothValues) {
  const Bytes one = {std::byte{1}, std::byte{2}, std::byte{3}};
  Bytes other = one;
  other[2] = std::byte{9};
  RangeComparison comparison({.element = 2, .zone = 4096, .most = 1});
  comparison.skip(4);
  comparison.add(one, other);
  ASSERT_EQ(comparison.first().size(), 1U);
  EXPECT_EQ(comparison.first()[0].index, 3U);
  EXPECT_EQ(comparison.first()[0].one, Bytes{std::byte{3}}) << "half an element at the end";
  EXPECT_EQ(comparison.first()[0].other, Bytes{std::byte{9}});
}

// ---- checkpoints ----

class DiffOfCheckpoints : public ::testing::Test {
 protected:
  // The memory as it is then; `parent`: what it is an increment of.
  uint64_t take(test::DeviceMemory& memory, const std::optional<test::Parent>& parent,
                const std::string& job) {
    const uint64_t epoch = store_->next_epoch(job).value();
    test::Increment increment(backend_, {job, "run1", 0, 1, {}, uint64_t{12} << 10}, epoch);
    increment.save(memory, parent, random_);
    for (SavedRange& range : increment.manifest().ranges) range.call_site = range.address;
    const Status taken = increment.finish();
    EXPECT_TRUE(taken.ok()) << taken.message();
    return epoch;
  }

  Result<ComparedRank> compare(const CheckpointInfo& one, const CheckpointInfo& other) {
    ComparedRank rank;
    rank.one = one.ranks.data();
    rank.other = other.ranks.data();
    const RangeMatch match = match_ranges(rank.one->ranges, rank.other->ranges);
    for (const RangePair& pair : match.both) {
      const uint64_t bytes =
          std::min(rank.one->ranges[pair.one].size, rank.other->ranges[pair.other].size);
      rank.pairs.push_back({pair, bytes, RangeComparison(kUnits)});
    }
    rank.only_one = match.only_one;
    rank.only_other = match.only_other;
    RankDiff diff(
        {*store_, one}, {*store_, other}, rank, [](uint64_t) {}, 1024);
    if (Status read = diff.run(); !read.ok()) return read;
    return rank;
  }

  void expect_as_in_memory(const ComparedRank& rank, const Image& one, const Image& other) {
    for (const ComparedPair& pair : rank.pairs) {
      const Bytes& bytes_of_one = one.at(rank.range_of_one(pair).address).bytes;
      const Bytes& bytes_of_other = other.at(rank.range_of_other(pair).address).bytes;
      EXPECT_EQ(counts_of(pair.result), expected(bytes_of_one, bytes_of_other, kUnits));
    }
    EXPECT_EQ(rank.pairs.size() + rank.only_one.size(), one.size());
    EXPECT_EQ(rank.pairs.size() + rank.only_other.size(), other.size());
  }

  static constexpr RangeComparison::Units kUnits{.element = 4, .zone = 512, .most = 3};
  Random random_{5};
  test::FaultFileSystem files_;
  test::LocalBackend backend_{files_};
  std::unique_ptr<Store> store_{std::move(Store::open(files_, "/pfs", true).value())};
};

TEST_F(DiffOfCheckpoints, FindsWhatDiffersInMemory) {
  uint64_t differences = 0;
  for (int round = 0; round < 12; ++round) {
    // Every second job is compressed, every third one has a checkpoint that was merged.
    using Mode = CompressionSetting::Mode;
    backend_.options().compression = {round % 2 == 0 ? Mode::kOff : Mode::kLevel, 1};
    const std::string job = "job" + std::to_string(round);
    test::DeviceMemory memory;
    memory.allocate(0x9000000, 3000);
    std::optional<test::Parent> parent;
    std::vector<std::pair<CheckpointInfo, Image>> taken;
    for (uint32_t i = 0; i < 4; ++i) {
      memory.change(random_);
      const uint64_t epoch = take(memory, parent, job);
      parent = test::Parent{epoch, i, memory.image()};
      memory.clean();
      if (i == 2 && round % 3 == 0) {
        EXPECT_TRUE(test::merge_part(files_, epoch, 0, 2, {}, job).value());
      }
      taken.emplace_back(store_->find(job + "@" + std::to_string(epoch)).value(), memory.image());
    }
    for (const auto& [one, image_of_one] : taken) {
      for (const auto& [other, image_of_other] : taken) {
        const auto rank = compare(one, other);
        ASSERT_TRUE(rank.ok()) << rank.status().message();
        expect_as_in_memory(rank.value(), image_of_one, image_of_other);
        for (const ComparedPair& pair : rank->pairs) differences += pair.result.bytes();
      }
    }
  }
  EXPECT_GT(differences, 1000U);
}

// The segments go: what is read nevertheless fails.
TEST_F(DiffOfCheckpoints, DoesNotReadWhatBothHave) {
  test::DeviceMemory memory;
  memory.allocate(0x1000, 20'000);
  const uint64_t first = take(memory, {}, "wave");
  const CheckpointInfo one = store_->find("wave@" + std::to_string(first)).value();
  memory.clean();
  memory.write(0x1000, 3, std::byte{7});
  const uint64_t second = take(memory, test::Parent{first, 0, memory.image()}, "wave");
  const CheckpointInfo other = store_->find("wave@" + std::to_string(second)).value();
  for (const std::string& path : files_.paths()) {
    if (path.starts_with("/pfs/wave/") && path.ends_with(".segment")) files_.erase(path);
  }
  EXPECT_TRUE(compare(one, one).ok());
  const auto read = compare(one, other);
  EXPECT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("wave@"), std::string::npos) << read.status().message();
}

}  // namespace
}  // namespace gpusnap
