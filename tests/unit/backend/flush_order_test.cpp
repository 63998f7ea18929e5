// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/flush_order.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace gpusnap {
namespace {

TEST(FlushOrder, TakesTheCacheFirst) {
  FlushOrder order;
  EXPECT_FALSE(order.next());
  order.add(1, false);
  order.add(2, true);
  order.add(3, false);
  order.add(4, true);
  EXPECT_EQ(order.size(), 4U);
  for (const uint64_t number : {2, 4, 1, 3}) EXPECT_EQ(order.next(), number);
  EXPECT_FALSE(order.next());
}

TEST(FlushOrder, LeavesOutWhatWasRemoved) {
  FlushOrder order;
  for (uint64_t number = 0; number < 4; ++number) order.add(number, number < 2);
  order.remove(0);
  order.remove(2);
  EXPECT_EQ(order.next(), 1U);
  EXPECT_EQ(order.next(), 3U);
}

TEST(FlushOrder, OtherChunksGetTheirTurn) {
  FlushOrder order;
  for (uint64_t number = 0; number < 100; ++number) order.add(number, true);
  order.add(1000, false);
  order.add(1001, false);
  uint64_t number = 0;
  for (const uint64_t other : {1000, 1001}) {
    for (uint32_t i = 0; i < FlushOrder::kMostInARow; ++i) EXPECT_EQ(order.next(), number++);
    EXPECT_EQ(order.next(), other);
  }
  EXPECT_EQ(order.next(), number);
}

// Each kind is in order, the cache comes first, and nothing waits longer than it may.
TEST(FlushOrder, RandomHistories) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    FlushOrder order;
    std::deque<uint64_t> cache, others;
    uint32_t passed_over = 0;
    uint64_t number = 0;
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0) {
        const bool in_cache = random() % 4 != 0;
        (in_cache ? cache : others).push_back(++number);
        order.add(number, in_cache);
        continue;
      }
      const auto next = order.next();
      ASSERT_EQ(next.has_value(), !cache.empty() || !others.empty());
      if (!next) continue;
      if (!others.empty() && *next == others.front()) {
        ASSERT_TRUE(cache.empty() || passed_over == FlushOrder::kMostInARow);
        others.pop_front();
        passed_over = 0;
      } else {
        ASSERT_FALSE(cache.empty());
        ASSERT_EQ(*next, cache.front());
        cache.pop_front();
        passed_over = others.empty() ? 0 : passed_over + 1;
        ASSERT_LE(passed_over, FlushOrder::kMostInARow);
      }
    }
  }
}

}  // namespace
}  // namespace gpusnap
