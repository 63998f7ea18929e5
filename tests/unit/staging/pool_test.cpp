#include "tiers/staging/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/unit/tiers/staging_support.h"
#include "tiers/staging/server.h"

namespace gpusnap {
namespace {

using namespace std::chrono_literals;
using test::StagingArea;

TEST(StagingPool, GivesOutWhatThereIs) {
  const StagingArea area(4096, 3 * 4096);
  const StagingServer server(*area.memory);
  StagingPool& pool = *area.pool;
  EXPECT_EQ(pool.slot_bytes(), 4096U);
  EXPECT_EQ(pool.pieces_per_slot(), 1U);
  std::vector<Slot*> slots;
  for (int i = 0; i < 3; ++i) {
    const auto slot = pool.acquire(0ns);
    ASSERT_TRUE(slot.ok()) << slot.status().message();
    EXPECT_EQ(slot.value()->capacity, 4096U);
    EXPECT_EQ(slot.value()->data, area.memory->bytes(slot.value()->index).data());
    slots.push_back(slot.value());
  }
  EXPECT_EQ(pool.acquire(0ns).status().code(), Code::kBusy);
  EXPECT_EQ(pool.acquire(1ms).status().code(), Code::kBusy);
  slots[1]->used = 7;
  pool.release(slots[1]);
  EXPECT_EQ(pool.acquire().value(), slots[1]);
  EXPECT_EQ(slots[1]->used, 0U);
}

TEST(StagingPool, PrefersTheLeadingSlots) {
  const StagingArea area(4096, 8 * 4096);
  area.pool->prefer(2);
  for (const bool preferred : {true, true, false}) {
    EXPECT_EQ(area.pool->acquire().value()->index < 2, preferred);
  }
}

TEST(StagingPool, WhoWaitsComesBeforeWhoDoesNot) {
  const StagingArea area(4096, 2 * 4096);
  StagingPool& pool = *area.pool;
  Slot* first = pool.acquire().value();
  Slot* second = pool.acquire().value();
  std::atomic<bool> got{false};
  std::thread waiting([&] {
    Slot* slot = pool.acquire().value();
    got = true;
    pool.release(slot);
  });
  // As an offloader does, which takes whatever there is.
  pool.release(first);
  while (!got) {
    if (const auto slot = pool.acquire(0ns); slot.ok()) pool.release(slot.value());
  }
  waiting.join();
  pool.release(second);
}

TEST(StagingPool, WhatComesFreeIsForWhoHasAClaim) {
  const StagingArea area(4096, 2 * 4096);
  std::optional<StagingPool::Claim> claim(*area.pool);
  EXPECT_EQ(area.pool->acquire(0ns).status().code(), Code::kBusy);
  EXPECT_TRUE(area.pool->acquire(1ms).ok());
  claim.reset();
  EXPECT_TRUE(area.pool->acquire(0ns).ok());
}

TEST(StagingPool, WhoComesAgainAndAgainHasAPlaceInTheLine) {
  const StagingArea area(4096, 2 * 4096);
  const StagingServer server(*area.memory);
  StagingPool other(*area.memory, *area.client, *area.watch);
  StagingPool& pool = *area.pool;
  Slot* first = pool.acquire().value();
  Slot* second = pool.acquire().value();
  std::optional<StagingPool::Standing> standing(pool);
  EXPECT_EQ(pool.acquire(0ns).status().code(), Code::kBusy);
  pool.release(first);
  EXPECT_EQ(other.acquire(0ns).status().code(), Code::kBusy);
  EXPECT_EQ(other.acquire(1ms).status().code(), Code::kBusy);
  EXPECT_EQ(pool.acquire(0ns).value(), first);
  // Without it, nothing is kept for who may not come back.
  EXPECT_EQ(pool.acquire(0ns).status().code(), Code::kBusy);
  standing.reset();
  pool.release(second);
  EXPECT_TRUE(other.acquire(0ns).ok());
}

// The place may have been granted a slot, which who comes again and again leaves to who waits.
TEST(StagingPool, WhoWaitsTakesThePlaceOfWhoDoesNot) {
  const StagingArea area(4096, 2 * 4096);
  StagingServer server(*area.memory);
  StagingPool& pool = *area.pool;
  const StagingPool::Standing standing(pool);
  Slot* first = pool.acquire().value();
  (void)pool.acquire().value();
  EXPECT_EQ(pool.acquire(0ns).status().code(), Code::kBusy);
  pool.release(first);
  (void)server.look();
  EXPECT_EQ(area.memory->slots()[first->index].word.load().state, SlotState::kGranted);
  EXPECT_EQ(pool.acquire(10s).value(), first);
}

TEST(StagingPool, ItsSlotGoesToTheServer) {
  const StagingArea area(8192, 2 * 8192);
  StagingServer server(*area.memory);
  const uint32_t stream = area.client->open(StreamKind::kCheckpoint, "text").value();
  Slot* slot = area.pool->acquire().value();
  slot->used = 5;
  const Piece pieces[] = {{0, 0, 3}, {1, 7, 2}};
  area.client->hand_over(stream, slot->index, slot->used, pieces);
  const auto news = server.look();
  ASSERT_EQ(news.arrived.size(), 1U);
  EXPECT_EQ(server.bytes(news.arrived[0].slot).size(), 5U);
  EXPECT_EQ(server.pieces(news.arrived[0].slot).size(), 2U);
}

TEST(StagingPool, DoesNotWaitWhereNobodyWillEmptySlots) {
  const StagingArea area(4096, 2 * 4096);
  area.memory->header().server.store(0);
  Slot* first = area.pool->acquire().value();
  Slot* second = area.pool->acquire().value();
  EXPECT_EQ(area.pool->acquire().status().code(), Code::kIo);
  area.pool->release(first);
  area.pool->release(second);
}

// As an offloader does: it may be the only one that asks, while all slots are full.
TEST(StagingPool, HasAServerStartedForWhoComesAgainAndAgain) {
  const StagingArea area(4096, 2 * 4096);
  area.memory->header().server.store(0);
  std::optional<StagingServer> server;
  ServerWatch watch(*area.memory, [&] {
    server.emplace(*area.memory);
    return Status();
  });
  StagingPool pool(*area.memory, *area.client, watch);
  Slot* first = pool.acquire(0ns).value();
  Slot* second = pool.acquire(0ns).value();
  EXPECT_FALSE(server);
  EXPECT_EQ(pool.acquire(0ns).status().code(), Code::kBusy);
  EXPECT_TRUE(server);
  pool.release(first);
  pool.release(second);
}

TEST(ServerWatch, StartsAnotherServerWhereThereIsNone) {
  const StagingArea area;
  std::optional<StagingServer> server;
  int starts = 0;
  ServerWatch watch(*area.memory, [&] {
    ++starts;
    server.emplace(*area.memory);
    return Status();
  });
  EXPECT_TRUE(watch.look().ok());
  EXPECT_EQ(starts, 1);
  std::this_thread::sleep_for(150ms);
  EXPECT_TRUE(watch.look().ok());
  EXPECT_EQ(starts, 1);
}

}  // namespace
}  // namespace gpusnap
