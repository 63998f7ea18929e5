// SPDX-License-Identifier: Apache-2.0
// When a checkpoint's memory is put back into a program that is no replay of it.
#include "interpose/replay/reload.h"

#include <gtest/gtest.h>

namespace gpusnap {
namespace {

class ReloadTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSite = 7, kBytes = 4096;
  ReloadTest() {
    restored_.checkpoint.ranks.resize(1);
    save(MemoryKind::kDevice, 0);
    save(MemoryKind::kDevice, 1);
  }
  void save(MemoryKind kind, uint32_t ordinal) {
    SavedRange saved;
    saved.kind = static_cast<uint8_t>(kind);
    saved.call_site = kSite;
    saved.ordinal = ordinal;
    saved.size = kBytes;
    restored_.checkpoint.ranks[0].ranges.push_back(saved);
  }
  void allocate(uint32_t ordinal, uint64_t bytes = kBytes) {
    MemoryRange range;
    range.address = 0x10000 * (ordinal + 1ULL);
    range.size = bytes;
    range.identity = {kSite, ordinal};
    ASSERT_TRUE(memory_.insert(std::move(range)));
  }

  RestoredRank restored_;
  MemoryMap memory_;
};

TEST_F(ReloadTest, WaitsUntilAllMemoryIsThere) {
  Reload reload(restored_, 0);
  allocate(0);
  EXPECT_FALSE(reload.count_launch(memory_));
  EXPECT_NE(reload.why_not_yet().find("number 2"), std::string::npos) << reload.why_not_yet();
  EXPECT_FALSE(reload.count_launch(memory_));  // nothing has been allocated since
  allocate(1);
  EXPECT_TRUE(reload.count_launch(memory_));
}

TEST_F(ReloadTest, TellsThatNoKernelWasLaunched) {
  const Reload reload(restored_, 0);
  EXPECT_EQ(reload.why_not_yet(), "no kernel was launched");
}

TEST_F(ReloadTest, AnAllocationOfAnotherSizeIsNotTheOne) {
  Reload reload(restored_, 0);
  allocate(0);
  allocate(1, 2 * kBytes);
  EXPECT_FALSE(reload.count_launch(memory_));
  EXPECT_NE(reload.why_not_yet().find("8192 bytes here"), std::string::npos)
      << reload.why_not_yet();
}

TEST_F(ReloadTest, LetsLaunchesThroughWhenAllIsThere) {
  Reload reload(restored_, 2);
  allocate(0);
  EXPECT_FALSE(reload.count_launch(memory_));  // this one does not count
  allocate(1);
  EXPECT_FALSE(reload.count_launch(memory_));
  EXPECT_FALSE(reload.count_launch(memory_));
  EXPECT_TRUE(reload.count_launch(memory_));
}

TEST_F(ReloadTest, NamesWhatRulesItOut) {
  const Reload reload(restored_, 0);
  EXPECT_EQ(reload.obstacle(false, false), "");
  EXPECT_NE(reload.obstacle(false, true).find("ranks share"), std::string::npos);
  EXPECT_NE(reload.obstacle(true, false).find("arrays"), std::string::npos);
  save(MemoryKind::kArray, 0);
  EXPECT_NE(reload.obstacle(false, false).find("arrays"), std::string::npos);
  save(MemoryKind::kPhysical, 0);
  EXPECT_NE(reload.obstacle(false, false).find("cuMemCreate"), std::string::npos);
}

}  // namespace
}  // namespace gpusnap
