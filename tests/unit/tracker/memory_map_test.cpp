#include "tracker/memory_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include <optional>
#include <utility>
#include <vector>

namespace gpusnap {
namespace {

MemoryRange range(uint64_t address, uint64_t size, MemoryKind kind = MemoryKind::kDevice) {
  MemoryRange made;
  made.address = address;
  made.size = size;
  made.kind = kind;
  return made;
}

TEST(MemoryMap, FindsTheRangeOfAnAddress) {
  MemoryMap map;
  ASSERT_TRUE(map.insert(range(100, 10)));
  EXPECT_EQ(map.find(99), nullptr);
  ASSERT_NE(map.find(100), nullptr);
  EXPECT_EQ(map.find(109)->address, 100U);
  EXPECT_EQ(map.find(110), nullptr);
  EXPECT_EQ(map.at(101), nullptr);
  EXPECT_NE(map.at(100), nullptr);
}

TEST(MemoryMap, RefusesWhatOverlaps) {
  MemoryMap map;
  ASSERT_TRUE(map.insert(range(100, 10)));
  EXPECT_FALSE(map.insert(range(100, 10)));
  EXPECT_FALSE(map.insert(range(95, 6)));
  EXPECT_FALSE(map.insert(range(109, 1)));
  EXPECT_FALSE(map.insert(range(90, 100)));
  EXPECT_FALSE(map.insert(range(104, 2)));
  EXPECT_TRUE(map.insert(range(90, 10)));
  EXPECT_TRUE(map.insert(range(110, 1)));
  EXPECT_EQ(map.ranges().size(), 3U);
}

TEST(MemoryMap, RefusesEmptyAndWrappingRanges) {
  MemoryMap map;
  EXPECT_FALSE(map.insert(range(100, 0)));
  EXPECT_FALSE(map.insert(range(UINT64_MAX - 3, 5)));
  EXPECT_TRUE(map.ranges().empty());
}

TEST(MemoryMap, ErasesByStart) {
  MemoryMap map;
  ASSERT_TRUE(map.insert(range(100, 10)));
  EXPECT_FALSE(map.erase(105));
  EXPECT_TRUE(map.erase(100));
  EXPECT_FALSE(map.erase(100));
}

TEST(MemoryMap, ListsAllocationsByIdentity) {
  MemoryMap map;
  const uint64_t none = map.lives();
  MemoryRange first = range(100, 10);
  first.identity = {7, 0};
  MemoryRange second = range(200, 10);
  second.identity = {7, 1};
  MemoryRange pinned = range(300, 10, MemoryKind::kPinned);
  pinned.identity = {7, 2};
  for (const MemoryRange& each : {first, second, pinned}) ASSERT_TRUE(map.insert(each));
  EXPECT_NE(map.lives(), none);
  const auto known = map.by_identity();
  ASSERT_EQ(known.size(), 2U);
  EXPECT_EQ(known.at({7, 0})->address, 100U);
  EXPECT_EQ(known.at({7, 1})->address, 200U);
}

TEST(MemoryMap, TellsQuicklyWhatIsNeverSaved) {
  MemoryMap map;
  EXPECT_FALSE(map.may_be_on_device(0));
  EXPECT_FALSE(map.may_be_on_device(100));
  ASSERT_TRUE(map.insert(range(50, 10, MemoryKind::kPinned)));
  ASSERT_TRUE(map.insert(range(70, 10, MemoryKind::kManaged)));
  EXPECT_FALSE(map.may_be_on_device(55));
  ASSERT_TRUE(map.insert(range(200, 10, MemoryKind::kGlobal)));
  ASSERT_TRUE(map.insert(range(100, 10)));
  EXPECT_FALSE(map.may_be_on_device(99));
  EXPECT_TRUE(map.may_be_on_device(100));
  EXPECT_TRUE(map.may_be_on_device(209));
  EXPECT_FALSE(map.may_be_on_device(210));
  ASSERT_TRUE(map.erase(200));
  EXPECT_TRUE(map.may_be_on_device(109));
}

TEST(MemoryMap, ErasesTheGlobalsOfOneModule) {
  MemoryMap map;
  MemoryRange first = range(100, 10, MemoryKind::kGlobal);
  first.module = 1;
  MemoryRange second = range(200, 20, MemoryKind::kGlobal);
  second.module = 2;
  MemoryRange device = range(300, 30);
  device.module = 1;
  ASSERT_TRUE(map.insert(first));
  ASSERT_TRUE(map.insert(second));
  MemoryRange managed = range(400, 40, MemoryKind::kManaged);
  managed.module = 1;
  MemoryRange variable = range(500, 50, MemoryKind::kManaged);
  variable.module = 1;
  variable.name = "shared";
  ASSERT_TRUE(map.insert(device));
  ASSERT_TRUE(map.insert(managed));
  ASSERT_TRUE(map.insert(variable));
  map.erase_module(1);
  EXPECT_EQ(map.at(500), nullptr);
  EXPECT_EQ(map.bytes_of(MemoryKind::kManaged), 40U);
  EXPECT_EQ(map.at(100), nullptr);
  EXPECT_EQ(map.bytes_of(MemoryKind::kGlobal), 20U);
  EXPECT_EQ(map.bytes_of(MemoryKind::kDevice), 30U);
  EXPECT_EQ(map.bytes_of(MemoryKind::kPinned), 0U);
}

// Physical memory that we have mapped one after the other, from 0x100000 on.
enum class Named : uint8_t { kNot, kPartly, kWholly };

Named named_in(const WriteSet& set, const MemoryRange& range) {
  Named named = Named::kNot;
  for (const WriteSet::Range& each : set) {
    const bool whole = each.size == WriteSet::kWholeRange;
    if (whole && each.address == range.address) return Named::kWholly;
    if (whole || each.address >= range.end() || range.address >= each.address + each.size) continue;
    const bool all = each.address <= range.address && range.end() <= each.address + each.size;
    if (all) return Named::kWholly;
    named = Named::kPartly;
  }
  return named;
}

// A set that was made smaller names all that it named, and no other host memory.
TEST(MemoryMap, MakesRoomInSetsByChance) {
  std::mt19937 random(3);
  size_t everything = 0;
  for (int round = 0; round < 500; ++round) {
    MemoryMap map;
    std::vector<MemoryRange> ranges;
    const unsigned one_in = 2 + random() % 40;
    for (uint64_t at = 4096; ranges.size() < 300; at += 4096 * (1 + random() % 200)) {
      const bool host = random() % one_in == 0;
      ranges.push_back(
          range(at, 1 + random() % 100'000, host ? MemoryKind::kPinned : MemoryKind::kDevice));
      ASSERT_TRUE(map.insert(ranges.back()));
      at += ranges.back().size;
    }
    WriteSet set;
    std::vector<bool> wanted(ranges.size());
    const size_t count = 1 + random() % 120;
    for (size_t i = 0; i < count; ++i) {
      const size_t which = random() % ranges.size();
      wanted[which] = true;
      map.make_room(set);
      if (random() % 2 == 0) {
        set.add_range_of(ranges[which].address);
      } else {
        set.add(ranges[which].address, ranges[which].size);
      }
    }
    everything += set.everything() ? 1 : 0;
    for (size_t i = 0; i < ranges.size() && !set.everything(); ++i) {
      const Named named = named_in(set, ranges[i]);
      if (wanted[i]) {
        ASSERT_EQ(named, Named::kWholly) << "round " << round;
      } else if (!is_on_device(ranges[i].kind)) {
        ASSERT_EQ(named, Named::kNot) << "round " << round;
      }
    }
  }
  EXPECT_LT(everything, 200U);
}

TEST(MemoryMap, MakesRoomWhereNothingIsKnown) {
  const MemoryMap map;
  WriteSet set;
  for (uint64_t i = 0; i < WriteSet::kMost; ++i) set.add_range_of(0x1000 * (i + 1));
  ASSERT_TRUE(set.is_full());
  map.make_room(set);
  EXPECT_TRUE(set.empty());
  EXPECT_TRUE(set.said());
}

class Views : public ::testing::Test {
 protected:
  static constexpr uint64_t kOwn = 0x100000, kSize = 0x1000;

  void view(uint64_t address, uint64_t number) {
    MemoryRange made = range(address, kSize, MemoryKind::kView);
    made.module = number;
    made.origin = kOwn + number * kSize;
    ASSERT_TRUE(map_.insert(made));
  }
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  Ranges led(uint64_t address, uint64_t size) const {
    WriteSet set;
    set.add(address, size);
    return led(set);
  }
  Ranges led(WriteSet set) const {
    map_.lead(set);
    Ranges ranges;
    for (const WriteSet::Range& each : set) ranges.emplace_back(each.address, each.size);
    return ranges;
  }
  static Ranges own(uint64_t number, uint64_t count = 1) {
    return {{kOwn + number * kSize, count * kSize}};
  }

  MemoryMap map_;
};

TEST_F(Views, WithoutSpacesASetStaysAsItIs) {
  ASSERT_TRUE(map_.insert(range(0x5000, 64)));
  EXPECT_EQ(led(0x5000, WriteSet::kWholeRange), (Ranges{{0x5000, WriteSet::kWholeRange}}));
}

TEST_F(Views, LeadByteForByte) {
  map_.add_space(0x10000, 4 * kSize);
  view(0x10000, 2);
  view(0x11000, 0);
  EXPECT_EQ(led(0x10010, 16), (Ranges{{kOwn + 2 * kSize + 0x10, 16}}));
  EXPECT_EQ(led(0x10ff0, 32), (Ranges{{kOwn + 3 * kSize - 16, 16}, {kOwn, 16}}));
  EXPECT_EQ(led(0x11ff0, 64), (Ranges{{kOwn + kSize - 16, 16}}));
  EXPECT_EQ(led(0x12000, 64), Ranges());
}

TEST_F(Views, APointerReachesAllThatIsMappedInItsSpace) {
  map_.add_space(0x10000, 8 * kSize);
  view(0x10000, 0);
  view(0x11000, 1);
  view(0x13000, 2);
  view(0x16000, 5);
  const Ranges all = {{kOwn, 3 * kSize}, {kOwn + 5 * kSize, kSize}};
  EXPECT_EQ(led(0x10000, WriteSet::kWholeRange), all);
  EXPECT_EQ(led(0x14000, WriteSet::kWholeRange), all);
  EXPECT_EQ(map_.start_of(0x14abc), 0x10000U);
  EXPECT_EQ(map_.start_of(0x18000), std::nullopt);
}

TEST_F(Views, SpacesSideBySideAreOne) {
  map_.add_space(0x10000, kSize);
  map_.add_space(0x11000, kSize);
  map_.add_space(0x12000, kSize);
  map_.add_space(0x14000, kSize);
  view(0x10000, 0);
  view(0x12000, 1);
  view(0x14000, 7);
  EXPECT_EQ(led(0x11000, WriteSet::kWholeRange), own(0, 2));
  EXPECT_EQ(led(0x14000, WriteSet::kWholeRange), own(7));
  map_.remove_space(0x11000);
  EXPECT_EQ(led(0x12000, WriteSet::kWholeRange), own(1));
  EXPECT_EQ(map_.start_of(0x11000), std::nullopt);
}

// A pointer into a space reaches all of it; what lies beside it is another matter.
TEST_F(Views, MakeRoomAsWholeSpaces) {
  WriteSet set;
  for (uint64_t i = 0; i < WriteSet::kMost; ++i) {
    const uint64_t at = 0x1000000 + i * 0x10000;
    map_.add_space(at, 2 * kSize);
    view(at, 2 * i);
    view(at + kSize, 2 * i + 1);
    set.add_range_of(at);
  }
  MemoryRange beside = range(0x3000000, 64);
  ASSERT_TRUE(map_.insert(beside));
  map_.make_room(set);
  ASSERT_FALSE(set.is_full());
  set.add_range_of(0x3000000);
  uint64_t bytes = 0;
  bool is_beside = false;
  for (const auto& [address, size] : led(set)) {
    if (address == 0x3000000) is_beside = true;
    if (address < 0x1000000) bytes += size;
  }
  EXPECT_EQ(bytes, 2 * WriteSet::kMost * kSize);
  EXPECT_TRUE(is_beside);
  // Joined with the last space.
  WriteSet joined;
  joined.add(0x1000000 + (WriteSet::kMost - 1) * 0x10000, 0x3000040 - 0x1000000);
  is_beside = false;
  for (const auto& [address, size] : led(joined)) {
    is_beside = is_beside || 0x3000000 - address < size;
  }
  EXPECT_TRUE(is_beside);
}

TEST_F(Views, OfOneMemoryLeadToTheSame) {
  map_.add_space(0x10000, kSize);
  map_.add_space(0x20000, kSize);
  view(0x10000, 3);
  view(0x20000, 3);
  EXPECT_EQ(led(0x10100, 8), led(0x20100, 8));
  EXPECT_EQ(led(0x20000, WriteSet::kWholeRange), own(3));
  EXPECT_EQ(map_.erase_views(0x10000, kSize), std::vector<uint64_t>{3});
  EXPECT_EQ(led(0x10100, 8), Ranges());
  EXPECT_EQ(led(0x20000, WriteSet::kWholeRange), own(3));
}

TEST_F(Views, WhatElseTheSetSaysStays) {
  map_.add_space(0x10000, 64 * kSize);
  for (uint64_t i = 0; i < 40; ++i) view(0x10000 + i * kSize, 2 * i);
  ASSERT_TRUE(map_.insert(range(0x5000, 64)));
  WriteSet set;
  set.add_launch();
  set.add_guess(4);
  set.add(0x5000, 8);
  set.add(0x10000, 8);
  EXPECT_EQ(led(set), (Ranges{{0x5000, 8}, {kOwn, 8}}));
  map_.lead(set);
  EXPECT_TRUE(set.launch());
  EXPECT_FALSE(set.proven());
  // More than a set can hold, and less than everything.
  set.add_range_of(0x10000);
  map_.lead(set);
  EXPECT_FALSE(set.everything());
  for (uint64_t i = 0; i < 40; ++i) {
    const auto holds = [i](const WriteSet::Range& each) {
      return kOwn + 2 * i * kSize - each.address <= each.size - kSize;
    };
    EXPECT_TRUE(std::any_of(set.begin(), set.end(), holds)) << i;
  }
}

TEST_F(Views, AreOnTheDeviceAndNotSaved) {
  map_.add_space(0x10000, kSize);
  view(0x10000, 0);
  EXPECT_TRUE(map_.may_be_on_device(0x10000));
  EXPECT_TRUE(is_on_device(map_.at(0x10000)->kind));
  EXPECT_FALSE(is_saved(map_.at(0x10000)->kind));
}

}  // namespace
}  // namespace gpusnap
