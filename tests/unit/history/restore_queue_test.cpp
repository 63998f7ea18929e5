// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/restore_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace gpusnap::history {
namespace {

TEST(RestoreQueue, CountsFromItsHead) {
  RestoreQueue queue;
  EXPECT_EQ(queue.head(), std::nullopt);
  for (const Version version : {5, 3, 9}) EXPECT_TRUE(queue.hint(version));
  EXPECT_EQ(queue.distance(9), 2);
  queue.restored(5);
  EXPECT_EQ(queue.head(), 3);
  EXPECT_EQ(queue.distance(9), 1);
  EXPECT_EQ(queue.distance(5), std::nullopt);
}

TEST(RestoreQueue, AHintIsQueuedOnce) {
  RestoreQueue queue;
  EXPECT_TRUE(queue.hint(1));
  EXPECT_TRUE(queue.hint(2));
  EXPECT_FALSE(queue.hint(1));
  EXPECT_EQ(queue.span(), 2);
  queue.restored(1);
  EXPECT_TRUE(queue.hint(1));
  EXPECT_EQ(queue.distance(1), 1);
}

TEST(RestoreQueue, ADeviationLeavesTheOthersInOrder) {
  RestoreQueue queue;
  for (Version version = 0; version < 4; ++version) queue.hint(version);
  queue.restored(2);
  queue.restored(77);
  EXPECT_EQ(queue.head(), 0);
  queue.restored(0);
  queue.restored(1);
  EXPECT_EQ(queue.head(), 3);
  EXPECT_EQ(queue.distance(3), 0);
}

// Compared with a list that is searched.
TEST(RestoreQueue, AgreesWithAListWhateverIsHintedAndRestored) {
  std::mt19937_64 random(3);
  RestoreQueue queue;
  std::vector<Version> list;
  for (int step = 0; step < 100'000; ++step) {
    const Version version = random() % 40;
    const auto found = std::ranges::find(list, version);
    if (random() % 2 == 0) {
      ASSERT_EQ(queue.hint(version), found == list.end());
      if (found == list.end()) list.push_back(version);
    } else {
      queue.restored(version);
      if (found != list.end()) list.erase(found);
    }
    ASSERT_EQ(queue.empty(), list.empty());
    ASSERT_EQ(queue.head(), list.empty() ? std::nullopt : std::optional(list.front()));
    uint64_t last = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      const auto distance = queue.distance(list[i]);
      ASSERT_TRUE(distance.has_value());
      ASSERT_LT(*distance, queue.span());
      ASSERT_TRUE(i == 0 ? *distance == 0 : *distance > last);
      last = *distance;
    }
  }
}

}  // namespace
}  // namespace gpusnap::history
