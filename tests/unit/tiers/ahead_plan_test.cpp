// SPDX-License-Identifier: Apache-2.0
#include "tiers/ahead_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tiers/ahead_files.h"

namespace gpusnap::test {
namespace {

using enum AheadPlan::Goal;

TEST(AheadPlanTest, WithoutADeviceMemoryTakesTheFirstUnits) {
  AheadPlan plan(2, false);
  EXPECT_EQ(plan.next({100}, 2, 0), kMemory);
  EXPECT_EQ(plan.next({100}, 1, 0), kMemory);
  EXPECT_EQ(plan.next({100}, 0, 0), kEnd);
  EXPECT_TRUE(plan.memory_is_full());
  // A buffer that comes free later takes no unit that others have gone ahead of.
  EXPECT_EQ(plan.next({100}, 2, 0), kEnd);
}

TEST(AheadPlanTest, TheLastBuffersAreTheWayToTheDevice) {
  AheadPlan plan(8, true);
  int64_t spare = 8;
  while (plan.next({100}, spare, 1000) == kMemory) --spare;
  EXPECT_EQ(spare, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(plan.next({100}, spare--, 1000), kDevice);
    plan.begins_to_move();
  }
  EXPECT_EQ(plan.next({100}, spare, 1000), kWait);
  plan.has_moved();
  EXPECT_EQ(plan.next({100}, ++spare, 1000), kDevice);
}

TEST(AheadPlanTest, MemoryIsNotFullWhileUnitsThatMayShareABufferAreRead) {
  AheadPlan plan(1, false);
  EXPECT_EQ(plan.next({100}, 1, 0), kMemory);
  plan.begins_to_read();
  EXPECT_EQ(plan.next({100}, 0, 0), kWait);
  plan.was_read();
  EXPECT_EQ(plan.next({100}, 1, 0), kMemory);
  EXPECT_EQ(plan.next({100}, 0, 0), kEnd);
}

TEST(AheadPlanTest, WhatTheDeviceHasNoRoomForStays) {
  AheadPlan plan(1, true);
  EXPECT_EQ(plan.next({100}, 1, 100), kDevice);
  EXPECT_EQ(plan.next({101}, 1, 100), kEnd);
}

TEST(AheadPlanTest, WhatDoesNotFitOrIsNearIsPassedBy) {
  AheadPlan plan(4, true);
  EXPECT_EQ(plan.next({100, false, false}, 4, 1000), kLeave);
  EXPECT_EQ(plan.next({100, true, true}, 4, 1000), kMemory);
  EXPECT_EQ(plan.next({100, true, true}, 1, 1000), kLeave);
  EXPECT_EQ(plan.next({100, true, false}, 1, 1000), kDevice);
}

TEST(AheadPlanTest, GivesBackWhatOthersNeedAndTakesNothingForIt) {
  AheadPlan plan(4, false);
  EXPECT_EQ(plan.next({100}, 4, 0), kMemory);
  EXPECT_FALSE(plan.gives_back(0));
  EXPECT_TRUE(plan.gives_back(-1));
  EXPECT_EQ(plan.next({100}, 4, 0), kEnd);
}

// Memory and buffers come free at random: memory holds a prefix of the units that fit, and no more
// buffers are taken than there are.
TEST(AheadPlanTest, RandomHistoriesKeepTheBudget) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % end); };
    const int64_t buffers = below(12);
    const bool has_device = below(2) == 0;
    AheadPlan plan(buffers, has_device);
    uint64_t room = has_device ? static_cast<uint64_t>(below(2000)) : 0;
    int64_t kept = 0, moving = 0;
    bool any_elsewhere = false;
    for (int unit = 0; unit < 40;) {
      if (moving > 0 && below(3) == 0) {
        plan.has_moved();
        --moving;
      }
      const AheadPlan::Unit next{static_cast<uint64_t>(1 + below(200)), below(8) != 0,
                                 below(8) == 0};
      const auto goal = plan.next(next, buffers - kept - moving, room);
      if (goal == kEnd) break;
      if (goal == kWait) {
        if (moving == 0) break;  // no buffer at all
        continue;
      }
      ++unit;
      if (goal == kMemory) {
        EXPECT_FALSE(any_elsewhere) << seed;
        ++kept;
      } else if (goal == kDevice) {
        any_elsewhere = true;
        EXPECT_LE(next.bytes, room);
        room -= next.bytes;
        plan.begins_to_move();
        ++moving;
      }
      EXPECT_LE(kept + moving, buffers) << seed;
    }
  }
}

class NoFile final : public BulkFile {
 public:
  uint64_t size() const override { return 0; }
  void write(uint64_t, std::span<const std::byte>, Done) override {}
  void read(uint64_t, std::span<std::byte>, Done) override {}
  Status sync() override { return {}; }
};

TEST(AheadFilesTest, PlacesDoNotOverlapAndStayWithinTheRoom) {
  AheadFiles files;
  EXPECT_EQ(files.room(), 0U);
  EXPECT_FALSE(files.take(1));
  files.add(std::make_unique<NoFile>(), 20'000);
  files.add(std::make_unique<NoFile>(), 10'000);
  const auto first = files.take(5000);
  const auto second = files.take(5000);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->file, second->file);
  EXPECT_EQ(first->offset, 0U);
  EXPECT_EQ(second->offset, 8192U);
  const auto third = files.take(9000);
  ASSERT_TRUE(third);
  EXPECT_NE(third->file, first->file);
  EXPECT_EQ(files.room(), 20'000U - 16'384U);
  EXPECT_FALSE(files.take(4000));
  files.fail(first->file);
  EXPECT_EQ(files.room(), 0U);
}

}  // namespace
}  // namespace gpusnap::test
