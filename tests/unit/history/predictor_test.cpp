// SPDX-License-Identifier: Apache-2.0
#include "tiers/history/predictor.h"

#include <gtest/gtest.h>

namespace gpusnap::history {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(Predictor, TheBandwidthIsThatOfTheLastTransfers) {
  Predictor predictor(100);
  EXPECT_EQ(predictor.bandwidth(), 100);
  predictor.transferred(1000, kSecond);
  EXPECT_EQ(predictor.bandwidth(), 1000);
  for (int i = 0; i < 16; ++i) predictor.transferred(4000, 2 * kSecond);
  EXPECT_EQ(predictor.bandwidth(), 2000);
  predictor.transferred(4000, 0);  // no clock is that coarse
  EXPECT_EQ(predictor.bandwidth(), 2000);
}

TEST(Predictor, AFlushWaitsForThoseBeforeItAndForItsBytes) {
  const Predictor predictor(1000);
  EXPECT_EQ(predictor.ready_in_ns(AwaitedFlush{3000, 1000, kSecond}, std::nullopt), 5 * kSecond);
}

TEST(Predictor, ARestoreWaitsForThoseBeforeIt) {
  Predictor predictor(1000);
  EXPECT_EQ(predictor.ready_in_ns(std::nullopt, AwaitedRestore{5, 3}), 5);
  predictor.restored(kSecond);
  predictor.restored(3 * kSecond);
  EXPECT_EQ(predictor.ready_in_ns(std::nullopt, AwaitedRestore{5, 3}), 8 * kSecond + 5);
}

TEST(Predictor, TheLaterOfBothCounts) {
  Predictor predictor(1000);
  predictor.restored(kSecond);
  EXPECT_EQ(predictor.ready_in_ns(std::nullopt, std::nullopt), 0);
  EXPECT_EQ(predictor.ready_in_ns(AwaitedFlush{0, 5000, 0}, AwaitedRestore{0, 0}), 5 * kSecond);
  EXPECT_EQ(predictor.ready_in_ns(AwaitedFlush{0, 500, 0}, AwaitedRestore{0, 0}), kSecond);
}

}  // namespace
}  // namespace gpusnap::history
