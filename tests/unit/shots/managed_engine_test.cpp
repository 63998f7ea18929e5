// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/managed_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace gpusnap::shots {

namespace {

// Bandwidths at which a block of the device takes a thousandth of a second on its way to the host,
// as it does by a prefetch, and five by faults.
constexpr double kBlocksPerSecond = static_cast<double>(kBlock) * 1000;
constexpr int64_t kMs = 1'000'000;

Machine machine() {
  Machine machine;
  machine.device = 1e15;
  machine.link = kBlocksPerSecond * 1000;
  machine.drives = kBlocksPerSecond / 10;
  machine.migrations = kBlocksPerSecond;
  machine.faults = kBlocksPerSecond / 5;
  return machine;
}

class ManagedEngineTest : public testing::Test {
 protected:
  // Room in blocks.
  void make(size_t device, size_t host) {
    options_.device_cache = device * kBlock;
    options_.host_cache = host * kBlock;
    options_.batch = 1;
    engine_ = std::make_unique<ManagedEngine>(clock_, node_, 0, options_);
  }

  // Each returns when the request has ended, and how long it took, in ms.
  int64_t write(Version version, size_t blocks) {
    return run([&](Runtime::Done done) { engine_->write(version, blocks * kBlock, done); });
  }
  int64_t restore(Version version) {
    return run([&](Runtime::Done done) { engine_->restore(version, done); });
  }
  void flush() {
    bool is_flushed = false;
    engine_->when_flushed([&is_flushed] { is_flushed = true; });
    clock_.run();
    ASSERT_TRUE(is_flushed);
  }

  template <typename Request>
  int64_t run(const Request& request) {
    const int64_t begun_ns = clock_.now_ns();
    int64_t ended_ns = -1;
    request([&](bool is_done) {
      EXPECT_TRUE(is_done);
      ended_ns = clock_.now_ns();
    });
    clock_.run();  // to the end of what goes on behind it, too
    EXPECT_NE(ended_ns, -1);
    return (ended_ns - begun_ns) / kMs;
  }

  Clock clock_;
  Node node_{clock_, machine()};
  ManagedEngine::Options options_;
  std::unique_ptr<ManagedEngine> engine_;
};

TEST_F(ManagedEngineTest, AFlushMovesACheckpoint) {
  make(4, 8);
  EXPECT_EQ(write(1, 4), 0);
  EXPECT_FALSE(engine_->is_on_device(1));
  EXPECT_EQ(restore(1), 20);  // faults
  EXPECT_EQ(engine_->read_from(1), Medium::kHost);
}

TEST_F(ManagedEngineTest, APrefetchIsFasterThanFaults) {
  make(4, 8);
  write(1, 4);
  write(2, 4);
  flush();
  engine_->hint(2);
  engine_->start_prefetching();
  EXPECT_EQ(restore(2), 4);
  EXPECT_EQ(restore(1), 20);
}

TEST_F(ManagedEngineTest, WhatIsPrefetchedIsThereAtOnce) {
  make(4, 8);
  write(1, 4);
  flush();
  engine_->hint(1);
  engine_->start_prefetching();
  clock_.run();
  EXPECT_TRUE(engine_->is_on_device(1));
  EXPECT_EQ(restore(1), 0);
  EXPECT_FALSE(engine_->is_on_device(1));
}

TEST_F(ManagedEngineTest, PrefetchesWaitUntilRoomIsConsumed) {
  make(4, 16);
  for (Version version = 1; version <= 3; ++version) write(version, 2);
  flush();
  for (Version version = 1; version <= 3; ++version) engine_->hint(version);
  engine_->start_prefetching();
  clock_.run();
  EXPECT_TRUE(engine_->is_on_device(1));
  EXPECT_TRUE(engine_->is_on_device(2));
  EXPECT_FALSE(engine_->is_on_device(3));
  restore(1);
  EXPECT_TRUE(engine_->is_on_device(3));
  EXPECT_EQ(engine_->peak(0), 4 * kBlock);
}

TEST_F(ManagedEngineTest, AWriteWaitsForWhatLeaves) {
  make(4, 8);
  bool is_written = false;
  engine_->write(1, 4 * kBlock, [&is_written](bool is_done) { is_written = is_done; });
  clock_.after(kMs / 100, [this, &is_written] {
    ASSERT_TRUE(is_written);
    const int64_t begun_ns = clock_.now_ns();
    engine_->write(2, 2 * kBlock, [this, begun_ns](bool is_done) {
      EXPECT_TRUE(is_done);
      EXPECT_NEAR(static_cast<double>(clock_.now_ns() - begun_ns), 2 * kMs, kMs / 100.0);
    });
  });
  clock_.run();
}

TEST_F(ManagedEngineTest, WhatTheHostHasNoRoomForIsReadFromTheDrives) {
  make(2, 4);
  for (Version version = 1; version <= 3; ++version) write(version, 2);
  flush();
  EXPECT_EQ(restore(1), 20 + 10);  // 10 ms a block from the drives, 5 ms a block by faults
  EXPECT_EQ(engine_->read_from(1), Medium::kDrives);
  EXPECT_EQ(restore(3), 10);
  EXPECT_EQ(engine_->peak(1), 4 * kBlock);
}

TEST_F(ManagedEngineTest, TheHostKeepsWhatIsReadFirst) {
  make(2, 4);
  for (Version version = 1; version <= 3; ++version) engine_->hint(version);
  for (Version version = 1; version <= 3; ++version) write(version, 2);
  flush();
  engine_->start_prefetching();
  restore(1);
  EXPECT_EQ(engine_->read_from(1), Medium::kHost);
}

TEST_F(ManagedEngineTest, WhatIsHintedInTimeStaysOnTheDevice) {
  options_.discards_consumed = true;
  make(4, 8);
  engine_->hint(1);
  engine_->start_prefetching();
  write(1, 4);
  EXPECT_TRUE(engine_->is_on_device(1));
  EXPECT_EQ(restore(1), 0);
  EXPECT_EQ(engine_->read_from(1), Medium::kDevice);
}

TEST_F(ManagedEngineTest, WhatWasReadIsFlushedIfItHasToBeKept) {
  make(4, 8);
  engine_->hint(1);
  engine_->start_prefetching();
  write(1, 4);
  restore(1);
  flush();
  EXPECT_EQ(engine_->peak(1), 4 * kBlock);
}

TEST_F(ManagedEngineTest, WhatWasReadMayBeFreedInstead) {
  options_.discards_consumed = true;
  options_.moves_consumed = false;
  make(4, 8);
  engine_->hint(1);
  engine_->start_prefetching();
  write(1, 4);
  restore(1);
  EXPECT_EQ(engine_->peak(1), 0U);
}

TEST_F(ManagedEngineTest, ARestoreThatDeviatesFromHintsEvictsWhatWasPrefetched) {
  make(4, 16);
  for (Version version = 1; version <= 3; ++version) write(version, 2);
  flush();
  for (Version version = 1; version <= 3; ++version) engine_->hint(version);
  engine_->start_prefetching();
  clock_.run();
  EXPECT_FALSE(engine_->is_on_device(3));
  EXPECT_EQ(restore(3), 4);  // a block leaves, one comes, and again
  EXPECT_EQ(restore(1), 0);
  EXPECT_EQ(restore(2), 0);
}

// Everything is restored in the room that there is, at any sizes, hints and orders.
TEST_F(ManagedEngineTest, AllIsRestored) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    options_ = {};
    options_.discards_consumed = random() % 2 == 0;
    options_.moves_consumed = random() % 2 == 0;
    options_.flushes_by_hints = random() % 2 == 0;
    make(6, 12 + random() % 12);
    std::vector<Version> versions(12);
    std::iota(versions.begin(), versions.end(), 0);
    const size_t hinted = random() % 13;
    std::ranges::shuffle(versions, random);
    for (size_t i = 0; i < hinted; ++i) engine_->hint(versions[i]);
    for (Version version = 0; version < 12; ++version) write(version, 1 + random() % 5);
    if (random() % 2 == 0) flush();
    if (random() % 4 != 0) engine_->start_prefetching();
    if (random() % 2 == 0) std::ranges::shuffle(versions, random);
    for (const Version version : versions) ASSERT_GE(restore(version), 0) << "seed " << seed;
    EXPECT_LE(engine_->peak(0), options_.device_cache);
    EXPECT_LE(engine_->peak(1), options_.host_cache);
    EXPECT_EQ(engine_->fault(), "");
    if (!options_.discards_consumed) flush();
  }
}

TEST_F(ManagedEngineTest, WhatFitsNowhereFails) {
  make(4, 8);
  bool is_done = true;
  engine_->write(1, 5 * kBlock, [&is_done](bool done) { is_done = done; });
  EXPECT_FALSE(is_done);
  is_done = true;
  engine_->restore(1, [&is_done](bool done) { is_done = done; });
  EXPECT_FALSE(is_done);
}

TEST_F(ManagedEngineTest, AVersionIsWrittenOnce) {
  make(4, 8);
  write(1, 1);
  EXPECT_EQ(engine_->fault(), "");
  engine_->write(1, kBlock, [](bool) {});
  EXPECT_NE(engine_->fault(), "");
}

}  // namespace

}  // namespace gpusnap::shots
