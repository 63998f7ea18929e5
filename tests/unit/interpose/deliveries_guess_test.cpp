// SPDX-License-Identifier: Apache-2.0
//
// Guesses of what kernels write that are trusted, and turn out to be wrong.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <vector>

#include "interpose/record/deliveries.h"

namespace gpusnap {
namespace {

class DeliveriesOfGuesses : public ::testing::Test {
 protected:
  DeliveriesOfGuesses() {
    memory_.add(other(), sizeof other_);
    memory_.add(at(0), large_.size() * sizeof large_[0]);
    memory_.watch(at(0));
    memory_.is_settled();
    words_.add(nullptr, page_, 0);
  }
  uint64_t other() const { return reinterpret_cast<uint64_t>(other_.data()); }
  uint64_t at(size_t word) const { return reinterpret_cast<uint64_t>(&large_[word]); }
  // A kernel of which a guess says that it writes one word there.
  void launch(uint64_t address) {
    HostWrite* const write = deliveries_.begin_write(nullptr, nullptr, 0);
    write->is_marked = true;
    WriteSet set;
    set.add(address, 8);
    set.add_guess(1);
    deliveries_.add_write(set, write);
    deliveries_.end_write(write);
  }
  // A wait during which the device does that.
  template <class Act>
  bool wait_while(Act&& act) {
    deliveries_.begin_watch();
    act();
    return deliveries_.end_watch();
  }

  std::array<std::atomic<uint32_t>, 16> page_{};
  std::array<uint64_t, 2> other_{};
  std::vector<uint64_t> large_ = std::vector<uint64_t>(1 << 20);
  HostMemory memory_;
  ProgressWords words_;
  Deliveries deliveries_{memory_, words_};
};

TEST_F(DeliveriesOfGuesses, WhatNoWriteTellsOfIsFoundInItsTurn) {
  const auto write_near_the_end = [this] { ++large_[large_.size() - 9]; };
  EXPECT_TRUE(wait_while(write_near_the_end)) << "no guess has been trusted";
  launch(other());
  size_t waits = 1;
  while (wait_while(write_near_the_end)) ASSERT_LT(++waits, 100U);
  EXPECT_EQ(waits, 64U) << "each part is as large as the others";
  EXPECT_TRUE(wait_while([] {}));
}

TEST_F(DeliveriesOfGuesses, WhatAWriteTellsOfIsNoNews) {
  launch(at(5));
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(wait_while([this] { ++large_[0]; }));
  }
}

TEST_F(DeliveriesOfGuesses, WhatHostFunctionsAndCopiesMayWriteIsNoNews) {
  launch(other());
  EXPECT_TRUE(wait_while([this] {
    ++large_[0];
    deliveries_.function_begins();
    deliveries_.function_ends();
  }));
  ProgressWord* const word = words_.take(nullptr);
  deliveries_.add_copy(plain_block(large_.data(), 8), {word, ++word->issued}, false, nullptr);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(wait_while([this] { ++large_[0]; }));
  }
}

TEST_F(DeliveriesOfGuesses, NothingIsLookedForWhenTheDeviceIsIdle) {
  launch(other());
  (void)deliveries_.collect(Deliveries::Moment::kIdle, true);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(wait_while([this] { ++large_[0]; }));
  }
}

}  // namespace
}  // namespace gpusnap
