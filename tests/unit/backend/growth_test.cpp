#include "tiers/backend/growth.h"

#include <gtest/gtest.h>

#include "backend_support.h"

namespace gpusnap::test {
namespace {

TEST(Growth, IsAtOnceWhenSlotsBecomeFew) {
  Growth growth(8);
  const Growth::Time now{1h};
  growth.grown(now);
  EXPECT_TRUE(growth.is_due(7, true, now));
  EXPECT_TRUE(growth.is_due(7, false, now));
  EXPECT_TRUE(growth.is_needed(7));
  EXPECT_FALSE(growth.is_needed(8));
}

TEST(Growth, IsPacedAheadOfNeed) {
  Growth growth(8);
  const Growth::Time now{1h};
  EXPECT_TRUE(growth.is_due(8, true, now)) << "for the first time";
  growth.grown(now);
  EXPECT_FALSE(growth.is_due(8, true, now));
  EXPECT_FALSE(growth.is_due(8, true, now + Growth::kEvery - 1ns));
  EXPECT_TRUE(growth.is_due(8, true, now + Growth::kEvery));
}

TEST(Growth, WaitsWhileSomethingIsHandedOver) {
  Growth growth(8);
  const Growth::Time now{1h};
  growth.grown(now);
  EXPECT_FALSE(growth.is_due(8, false, now + 1h));
}

// A busy machine only makes it slower. The first 8 of 24 slots come at once.
TEST_F(BackendTest, GrowsAtAPaceAheadOfNeed) {
  const auto begun = std::chrono::steady_clock::now();
  start();
  while (memory_->backed() < 24) std::this_thread::sleep_for(1ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 2 * Growth::kEvery);
  drain();
}

TEST_F(BackendTest, DoesNotGrowWhileACheckpointIsHandedOver) {
  Backend::Options options;
  options.grow_slots = 1;
  job_.ranges = {10 * kSlot};
  uint32_t open_at = 0;
  start(std::move(options));
  Saver saver(*memory_, "/store", job_);
  saver.after_first = [&] {
    while (backend_->counters().checkpoints == 0) std::this_thread::sleep_for(1ms);
    open_at = memory_->backed();
    // It would have grown by five.
    std::this_thread::sleep_for(5 * Growth::kEvery);
    EXPECT_LE(memory_->backed(), open_at + 1) << "one more may have been needed";
  };
  EXPECT_TRUE(saver.wait(saver.save(1)).ok());
  saver.go();
  drain();
  expect_back(1);
}

}  // namespace
}  // namespace gpusnap::test
