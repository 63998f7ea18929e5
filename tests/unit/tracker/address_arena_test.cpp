#include "tracker/address_arena.h"

#include <gtest/gtest.h>

namespace gpusnap {
namespace {

std::optional<uint64_t> taken(const std::optional<AddressArena::Place>& place) {
  return place ? std::optional(place->address) : std::nullopt;
}

TEST(AddressArena, GivesSideBySide) {
  AddressArena arena;
  EXPECT_FALSE(arena.take(1));
  arena.add_chunk(1000, 100);
  EXPECT_EQ(taken(arena.take(40)), 1000U);
  EXPECT_EQ(taken(arena.take(40)), 1040U);
  EXPECT_EQ(taken(arena.take(40)), std::nullopt);
  const auto last = arena.take(20);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->address, 1080U);
  EXPECT_EQ(last->chunk, 1000U);
  EXPECT_EQ(last->chunk_bytes, 100U);
  EXPECT_FALSE(arena.take(1));
}

TEST(AddressArena, GivesAgainWhatCameBack) {
  AddressArena arena;
  arena.add_chunk(1000, 100);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(arena.take(20));
  arena.give_back(1020, 20);
  arena.give_back(1060, 20);
  EXPECT_FALSE(arena.take(40));
  // The part between them makes them one.
  arena.give_back(1040, 20);
  EXPECT_EQ(taken(arena.take(60)), 1020U);
}

TEST(AddressArena, NothingReachesFromOneChunkIntoAnother) {
  AddressArena arena;
  arena.add_chunk(1000, 50);
  arena.add_chunk(1050, 50);
  EXPECT_FALSE(arena.take(60));
  EXPECT_EQ(taken(arena.take(50)), 1000U);
  EXPECT_EQ(taken(arena.take(50)), 1050U);
  arena.give_back(1050, 50);
  arena.give_back(1000, 50);
  EXPECT_FALSE(arena.take(60));
}

TEST(AddressArena, GivesTheAskedOneOrNone) {
  AddressArena arena;
  EXPECT_FALSE(arena.take_at(1000, 10));
  arena.add_chunk(1000, 100);
  EXPECT_EQ(taken(arena.take_at(1030, 20)), 1030U);
  EXPECT_FALSE(arena.take_at(1040, 5));
  EXPECT_FALSE(arena.take_at(1020, 11));
  EXPECT_FALSE(arena.take_at(1090, 11));
  EXPECT_FALSE(arena.take_at(900, 10));
  EXPECT_EQ(taken(arena.take(30)), 1000U);
  EXPECT_EQ(taken(arena.take(1)), 1050U);
}

}  // namespace
}  // namespace gpusnap
