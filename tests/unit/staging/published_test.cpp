#include "tiers/staging/published.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

namespace gpusnap {
namespace {

// A value whose numbers are all the same.
struct Many {
  uint64_t numbers[100] = {};
  static Many of(uint64_t number) {
    Many many;
    for (uint64_t& each : many.numbers) each = number;
    return many;
  }
  bool is_whole() const {
    for (const uint64_t each : numbers) {
      if (each != numbers[0]) return false;
    }
    return true;
  }
};
using PublishedMany = Published<Many>;

TEST(Published, NothingAtFirst) {
  PublishedMany published;
  EXPECT_FALSE(published.look());
  published.say(Many());
  EXPECT_TRUE(published.look());
}

TEST(Published, IsTheLastThatWasSaid) {
  PublishedMany published;
  for (uint64_t number = 1; number < 5; ++number) {
    published.say(Many::of(number));
    const auto seen = published.look();
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->numbers[99], number);
  }
}

TEST(Published, IsWholeOrNotThere) {
  PublishedMany published;
  std::atomic<bool> over{false};
  std::thread says([&] {
    for (uint64_t number = 1; number <= 100'000; ++number) published.say(Many::of(number));
    over = true;
  });
  uint64_t last = 0;
  while (!over) {
    const auto seen = published.look();
    if (!seen) continue;
    EXPECT_TRUE(seen->is_whole());
    EXPECT_GE(seen->numbers[0], last);
    last = seen->numbers[0];
  }
  says.join();
  EXPECT_EQ(published.look()->numbers[0], 100'000U);
}

// As memory that processes share has it: the first word is what is odd meanwhile.
TEST(Published, OfOneThatWasKilledAmidItIsNothing) {
  PublishedMany published;
  published.say(Many::of(1));
  auto* const turn = reinterpret_cast<std::atomic<uint64_t>*>(&published);
  turn->fetch_add(1);
  EXPECT_FALSE(published.look());
  published.say(Many::of(2));
  const auto seen = published.look();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->numbers[0], 2U);
}

}  // namespace
}  // namespace gpusnap
