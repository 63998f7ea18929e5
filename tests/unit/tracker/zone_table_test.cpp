#include "tracker/zone_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace gpusnap {
namespace {

constexpr uint64_t kZoneSize = 4096;
constexpr uint64_t kAll = ZoneTable::kEverything;
using enum ZoneBit;

TEST(ZoneTable, NothingIsPendingAtFirst) {
  const ZoneTable table(10 * kZoneSize, kZoneSize);
  EXPECT_EQ(table.zones(), 10U);
  EXPECT_FALSE(table.any(kPending));
  EXPECT_EQ(table.next(kPending, 0, kAll, UINT64_MAX), std::nullopt);
}

TEST(ZoneTable, EmptyRangeHasNoZones) {
  ZoneTable table(0, kZoneSize);
  table.set(kPending, 0, kAll);
  EXPECT_EQ(table.zones(), 0U);
  EXPECT_FALSE(table.any(kPending));
  EXPECT_EQ(table.next(kPending, 0, kAll, 1), std::nullopt);
}

TEST(ZoneTable, LastZoneMayBeShort) {
  ZoneTable table(2 * kZoneSize + 1, kZoneSize);
  table.set(kPending, 0, kAll);
  EXPECT_EQ(table.count(kPending), 3U);
  EXPECT_EQ(table.next(kPending, 0, kAll, UINT64_MAX), (ZoneRun{0, 2 * kZoneSize + 1}));
  EXPECT_EQ(table.next(kPending, 2 * kZoneSize, kAll, UINT64_MAX), (ZoneRun{2 * kZoneSize, 1}));
}

TEST(ZoneTable, MarksEveryZoneThatARangeTouches) {
  ZoneTable table(8 * kZoneSize, kZoneSize);
  table.set(kPending, kZoneSize - 1, 2);
  EXPECT_TRUE(table.is(kPending, 0));
  EXPECT_TRUE(table.is(kPending, 1));
  EXPECT_FALSE(table.is(kPending, 2));
  table.set(kPending, 5 * kZoneSize, 0);
  EXPECT_EQ(table.count(kPending), 2U);
}

TEST(ZoneTable, IgnoresWhatLiesOutside) {
  ZoneTable table(4 * kZoneSize, kZoneSize);
  table.set(kPending, 4 * kZoneSize, kZoneSize);
  EXPECT_FALSE(table.any(kPending));
  table.set(kPending, 3 * kZoneSize, UINT64_MAX);
  EXPECT_EQ(table.count(kPending), 1U);
  EXPECT_FALSE(table.is(kPending, 4));
  EXPECT_FALSE(table.is(kPending, UINT64_MAX));
}

TEST(ZoneTable, RunsAreBoundedInWholeZones) {
  ZoneTable table(100 * kZoneSize, kZoneSize);
  table.set(kPending, 10 * kZoneSize, 80 * kZoneSize);
  EXPECT_EQ(table.next(kPending, 0, kAll, 3 * kZoneSize + 5),
            (ZoneRun{10 * kZoneSize, 3 * kZoneSize}));
  EXPECT_EQ(table.next(kPending, 0, kAll, 1), (ZoneRun{10 * kZoneSize, kZoneSize}));
  EXPECT_EQ(table.next(kPending, 0, kAll, UINT64_MAX), (ZoneRun{10 * kZoneSize, 80 * kZoneSize}));
  // A run begins with the zone that holds the byte asked for.
  EXPECT_EQ(table.next(kPending, 20 * kZoneSize + 7, kAll, kZoneSize),
            (ZoneRun{20 * kZoneSize, kZoneSize}));
  EXPECT_EQ(table.next(kPending, 90 * kZoneSize, kAll, kZoneSize), std::nullopt);
  EXPECT_EQ(table.next(kPending, UINT64_MAX, kAll, kZoneSize), std::nullopt);
}

TEST(ZoneTable, DrainingByRunsSavesEverythingOnce) {
  ZoneTable table(1000 * kZoneSize + 17, kZoneSize);
  table.set(kPending, 0, kAll);
  uint64_t bytes = 0;
  while (const auto run = table.next(kPending, 0, kAll, 7 * kZoneSize)) {
    bytes += run->size;
    table.clear(kPending, run->offset, run->size);
  }
  EXPECT_EQ(bytes, table.bytes());
  EXPECT_FALSE(table.any(kPending));
}

// Against a table of plain booleans.
TEST(ZoneTable, AgreesWithAModel) {
  std::mt19937_64 random(7);
  const uint64_t bytes = 300 * kZoneSize + 123;
  ZoneTable table(bytes, kZoneSize);
  std::vector<bool> model(table.zones());
  for (int step = 0; step < 2000; ++step) {
    const uint64_t offset = random() % (bytes + kZoneSize);
    const uint64_t size = random() % (random() % 4 == 0 ? bytes : 3 * kZoneSize);
    const bool pending = random() % 2 == 0;
    if (pending) {
      table.set(kPending, offset, size);
    } else {
      table.clear(kPending, offset, size);
    }
    for (uint64_t zone = 0; zone < model.size(); ++zone) {
      const uint64_t start = zone * kZoneSize;
      if (size != 0 && offset < std::min(start + kZoneSize, bytes) && offset + size > start) {
        model[zone] = pending;
      }
    }
    ASSERT_EQ(table.count(kPending),
              static_cast<uint64_t>(std::count(model.begin(), model.end(), true)));
    const uint64_t from = random() % bytes;
    const auto run = table.next(kPending, from, kAll, UINT64_MAX);
    auto first =
        std::find(model.begin() + static_cast<ptrdiff_t>(from / kZoneSize), model.end(), true);
    ASSERT_EQ(run.has_value(), first != model.end());
    if (!run) continue;
    const auto last = std::find(first, model.end(), false);
    const auto begin = static_cast<uint64_t>(first - model.begin()) * kZoneSize;
    const auto end = std::min(static_cast<uint64_t>(last - model.begin()) * kZoneSize, bytes);
    ASSERT_EQ(*run, (ZoneRun{begin, end - begin}));
  }
}

TEST(ZoneTable, RunsEndWhereTheCallerSays) {
  ZoneTable table(100 * kZoneSize, kZoneSize);
  table.set(kPending, 0, kAll);
  EXPECT_EQ(table.next(kPending, 3 * kZoneSize, 5 * kZoneSize),
            (ZoneRun{3 * kZoneSize, 2 * kZoneSize}));
  EXPECT_EQ(table.next(kPending, 3 * kZoneSize + 1, 5 * kZoneSize + 1),
            (ZoneRun{3 * kZoneSize, 3 * kZoneSize}));
  EXPECT_EQ(table.next(kPending, 5 * kZoneSize, 5 * kZoneSize), std::nullopt);
  table.clear(kPending, 0, 50 * kZoneSize);
  EXPECT_EQ(table.next(kPending, 3 * kZoneSize, 50 * kZoneSize), std::nullopt);
}

TEST(ZoneTable, BitsAreIndependent) {
  ZoneTable table(10 * kZoneSize, kZoneSize);
  table.set(kPending, 0, 2 * kZoneSize);
  table.set(kCopying, kZoneSize, 2 * kZoneSize);
  table.set(kDirty, 9 * kZoneSize, 1);
  table.clear(kPending, kZoneSize, kZoneSize);
  EXPECT_EQ(table.next(kPending, 0), (ZoneRun{0, kZoneSize}));
  EXPECT_EQ(table.next(kCopying, 0), (ZoneRun{kZoneSize, 2 * kZoneSize}));
  EXPECT_EQ(table.next(kDirty, 0), (ZoneRun{9 * kZoneSize, kZoneSize}));
  EXPECT_EQ(table.count(kPending), 1U);
  EXPECT_EQ(table.count(kCopying), 2U);
}

}  // namespace
}  // namespace gpusnap
