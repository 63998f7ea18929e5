// SPDX-License-Identifier: Apache-2.0
//
// A restore reads on where others keep all slots.
#include "interpose/snapshot/slot_buffers.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/tiers/staging_support.h"
#include "tiers/staging/server.h"

namespace gpusnap {
namespace {

using namespace std::chrono_literals;
using test::StagingArea;

TEST(SlotBuffers, AreSlotsWhereThereAreAny) {
  const StagingArea area(4096, 2 * 4096);
  const StagingServer server(*area.memory);
  SlotBuffers buffers(*area.pool);
  for (const uint32_t left : {1U, 0U}) {
    EXPECT_NE(buffers.take(false).value(), nullptr);
    EXPECT_EQ(area.pool->free_slots(), left);
  }
  EXPECT_EQ(buffers.take(false).value(), nullptr);
}

TEST(SlotBuffers, AreElsewhereWhereOthersKeepAllSlots) {
  const StagingArea area(4096, 2 * 4096);
  const StagingServer server(*area.memory);
  StagingPool& pool = *area.pool;
  Slot* const first = pool.acquire(0ns).value();
  Slot* const second = pool.acquire(0ns).value();
  SlotBuffers buffers(pool);
  EXPECT_EQ(buffers.take(false).value(), nullptr);
  std::byte* const outside = buffers.take(true).value();
  ASSERT_NE(outside, nullptr);
  for (const Slot* slot : {first, second}) EXPECT_NE(outside, slot->data);
  outside[buffers.bytes() - 1] = std::byte{1};
  buffers.give_back(outside);
  EXPECT_EQ(buffers.take(true).value(), outside) << "the same again";
  buffers.give_back(outside);

  pool.release(first);
  std::byte* const inside = buffers.take(true).value();
  EXPECT_EQ(inside, first->data) << "a slot, as soon as there is one";
  buffers.give_back(inside);
  EXPECT_EQ(pool.free_slots(), 1U);
  pool.release(second);
}

}  // namespace
}  // namespace gpusnap
