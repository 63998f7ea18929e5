#include "tracker/memory_map.h"

#include <gtest/gtest.h>

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
  EXPECT_FALSE(map.may_be_saved(0));
  EXPECT_FALSE(map.may_be_saved(100));
  ASSERT_TRUE(map.insert(range(50, 10, MemoryKind::kPinned)));
  ASSERT_TRUE(map.insert(range(70, 10, MemoryKind::kManaged)));
  EXPECT_FALSE(map.may_be_saved(55));
  ASSERT_TRUE(map.insert(range(200, 10, MemoryKind::kGlobal)));
  ASSERT_TRUE(map.insert(range(100, 10)));
  EXPECT_FALSE(map.may_be_saved(99));
  EXPECT_TRUE(map.may_be_saved(100));
  EXPECT_TRUE(map.may_be_saved(209));
  EXPECT_FALSE(map.may_be_saved(210));
  ASSERT_TRUE(map.erase(200));
  EXPECT_TRUE(map.may_be_saved(109));
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
  ASSERT_TRUE(map.insert(device));
  map.erase_module(1);
  EXPECT_EQ(map.at(100), nullptr);
  EXPECT_EQ(map.bytes_of(MemoryKind::kGlobal), 20U);
  EXPECT_EQ(map.bytes_of(MemoryKind::kDevice), 30U);
  EXPECT_EQ(map.bytes_of(MemoryKind::kPinned), 0U);
}

}  // namespace
}  // namespace gpusnap
