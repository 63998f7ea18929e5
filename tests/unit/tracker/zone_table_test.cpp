#include "tracker/zone_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace gpusnap {
namespace {

constexpr uint64_t kZone = 4096;
constexpr uint64_t kAll = ZoneTable::kEverything;
using enum ZoneBit;

TEST(ZoneTable, NothingIsPendingAtFirst) {
  const ZoneTable table(10 * kZone, kZone);
  EXPECT_EQ(table.zones(), 10U);
  EXPECT_FALSE(table.any(kPending));
  EXPECT_EQ(table.next(kPending, 0, kAll, UINT64_MAX), std::nullopt);
}

TEST(ZoneTable, EmptyRangeHasNoZones) {
  ZoneTable table(0, kZone);
  table.set(kPending, 0, kAll);
  EXPECT_EQ(table.zones(), 0U);
  EXPECT_FALSE(table.any(kPending));
  EXPECT_EQ(table.next(kPending, 0, kAll, 1), std::nullopt);
}

TEST(ZoneTable, LastZoneMayBeShort) {
  ZoneTable table(2 * kZone + 1, kZone);
  table.set(kPending, 0, kAll);
  EXPECT_EQ(table.count(kPending), 3U);
  EXPECT_EQ(table.next(kPending, 0, kAll, UINT64_MAX), (ZoneRun{0, 2 * kZone + 1}));
  EXPECT_EQ(table.next(kPending, 2 * kZone, kAll, UINT64_MAX), (ZoneRun{2 * kZone, 1}));
}

TEST(ZoneTable, MarksEveryZoneThatARangeTouches) {
  ZoneTable table(8 * kZone, kZone);
  table.set(kPending, kZone - 1, 2);
  EXPECT_TRUE(table.is(kPending, 0));
  EXPECT_TRUE(table.is(kPending, 1));
  EXPECT_FALSE(table.is(kPending, 2));
  table.set(kPending, 5 * kZone, 0);
  EXPECT_EQ(table.count(kPending), 2U);
}

TEST(ZoneTable, IgnoresWhatLiesOutside) {
  ZoneTable table(4 * kZone, kZone);
  table.set(kPending, 4 * kZone, kZone);
  EXPECT_FALSE(table.any(kPending));
  table.set(kPending, 3 * kZone, UINT64_MAX);
  EXPECT_EQ(table.count(kPending), 1U);
  EXPECT_FALSE(table.is(kPending, 4));
  EXPECT_FALSE(table.is(kPending, UINT64_MAX));
}

TEST(ZoneTable, RunsAreBoundedInWholeZones) {
  ZoneTable table(100 * kZone, kZone);
  table.set(kPending, 10 * kZone, 80 * kZone);
  EXPECT_EQ(table.next(kPending, 0, kAll, 3 * kZone + 5), (ZoneRun{10 * kZone, 3 * kZone}));
  EXPECT_EQ(table.next(kPending, 0, kAll, 1), (ZoneRun{10 * kZone, kZone}));
  EXPECT_EQ(table.next(kPending, 0, kAll, UINT64_MAX), (ZoneRun{10 * kZone, 80 * kZone}));
  // A run begins with the zone that holds the byte asked for.
  EXPECT_EQ(table.next(kPending, 20 * kZone + 7, kAll, kZone), (ZoneRun{20 * kZone, kZone}));
  EXPECT_EQ(table.next(kPending, 90 * kZone, kAll, kZone), std::nullopt);
  EXPECT_EQ(table.next(kPending, UINT64_MAX, kAll, kZone), std::nullopt);
}

TEST(ZoneTable, DrainingByRunsSavesEverythingOnce) {
  ZoneTable table(1000 * kZone + 17, kZone);
  table.set(kPending, 0, kAll);
  uint64_t bytes = 0;
  while (const auto run = table.next(kPending, 0, kAll, 7 * kZone)) {
    bytes += run->size;
    table.clear(kPending, run->offset, run->size);
  }
  EXPECT_EQ(bytes, table.bytes());
  EXPECT_FALSE(table.any(kPending));
}

// Against a table of plain booleans.
TEST(ZoneTable, AgreesWithAModel) {
  std::mt19937_64 random(7);
  const uint64_t bytes = 300 * kZone + 123;
  ZoneTable table(bytes, kZone);
  std::vector<bool> model(table.zones());
  for (int step = 0; step < 2000; ++step) {
    const uint64_t offset = random() % (bytes + kZone);
    const uint64_t size = random() % (random() % 4 == 0 ? bytes : 3 * kZone);
    const bool pending = random() % 2 == 0;
    if (pending) {
      table.set(kPending, offset, size);
    } else {
      table.clear(kPending, offset, size);
    }
    for (uint64_t zone = 0; zone < model.size(); ++zone) {
      const uint64_t start = zone * kZone;
      if (size != 0 && offset < std::min(start + kZone, bytes) && offset + size > start) {
        model[zone] = pending;
      }
    }
    ASSERT_EQ(table.count(kPending),
              static_cast<uint64_t>(std::count(model.begin(), model.end(), true)));
    const uint64_t from = random() % bytes;
    const auto run = table.next(kPending, from, kAll, UINT64_MAX);
    auto first = std::find(model.begin() + static_cast<ptrdiff_t>(from / kZone), model.end(), true);
    ASSERT_EQ(run.has_value(), first != model.end());
    if (!run) continue;
    const auto last = std::find(first, model.end(), false);
    const auto begin = static_cast<uint64_t>(first - model.begin()) * kZone;
    const auto end = std::min(static_cast<uint64_t>(last - model.begin()) * kZone, bytes);
    ASSERT_EQ(*run, (ZoneRun{begin, end - begin}));
  }
}

TEST(ZoneTable, RunsEndWhereTheCallerSays) {
  ZoneTable table(100 * kZone, kZone);
  table.set(kPending, 0, kAll);
  EXPECT_EQ(table.next(kPending, 3 * kZone, 5 * kZone), (ZoneRun{3 * kZone, 2 * kZone}));
  EXPECT_EQ(table.next(kPending, 3 * kZone + 1, 5 * kZone + 1), (ZoneRun{3 * kZone, 3 * kZone}));
  EXPECT_EQ(table.next(kPending, 5 * kZone, 5 * kZone), std::nullopt);
  table.clear(kPending, 0, 50 * kZone);
  EXPECT_EQ(table.next(kPending, 3 * kZone, 50 * kZone), std::nullopt);
}

TEST(ZoneTable, BitsAreIndependent) {
  ZoneTable table(10 * kZone, kZone);
  table.set(kPending, 0, 2 * kZone);
  table.set(kCopying, kZone, 2 * kZone);
  table.set(kDirty, 9 * kZone, 1);
  table.clear(kPending, kZone, kZone);
  EXPECT_EQ(table.next(kPending, 0), (ZoneRun{0, kZone}));
  EXPECT_EQ(table.next(kCopying, 0), (ZoneRun{kZone, 2 * kZone}));
  EXPECT_EQ(table.next(kDirty, 0), (ZoneRun{9 * kZone, kZone}));
  EXPECT_EQ(table.count(kPending), 1U);
  EXPECT_EQ(table.count(kCopying), 2U);
}

}  // namespace
}  // namespace gpusnap
