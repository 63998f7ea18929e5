// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/device_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace gpusnap::shots {

namespace {

void bring(DeviceBlocks& device, Version version, size_t blocks) {
  device.reserve(blocks);
  device.add({version, blocks});
}

bool keeps_none(Version) {
  return false;
}

TEST(DeviceBlocks, CountsWholeBlocks) {
  EXPECT_EQ(blocks_of(1), 1U);
  EXPECT_EQ(blocks_of(kBlock), 1U);
  EXPECT_EQ(blocks_of(kBlock + 1), 2U);
}

TEST(DeviceBlocks, WhatCameFirstLeavesFirst) {
  DeviceBlocks device(8);
  bring(device, 1, 2);
  bring(device, 2, 3);
  bring(device, 1, 1);
  EXPECT_EQ(device.next_oldest(keeps_none), Version{1});
  EXPECT_EQ(device.take(1, 5).blocks, 2U);  // those that came together
  EXPECT_EQ(device.next_oldest(keeps_none), Version{2});
  EXPECT_EQ(device.resident(1), 1U);
}

TEST(DeviceBlocks, APrefetchOfWhatIsThereMakesItTheLastToLeave) {
  DeviceBlocks device(8);
  bring(device, 1, 2);
  bring(device, 2, 2);
  device.touch(1);
  device.touch(3);  // which is not there
  EXPECT_EQ(device.next_oldest(keeps_none), Version{2});
  EXPECT_EQ(device.resident(1), 2U);
  EXPECT_EQ(device.resident(3), 0U);
}

TEST(DeviceBlocks, AdviceComesBeforeAge) {
  DeviceBlocks device(8);
  bring(device, 1, 2);
  bring(device, 2, 2);
  EXPECT_FALSE(device.next_advised());
  device.prefer_host(2);
  EXPECT_EQ(device.next_advised(), Version{2});
  device.take(2, 2);
  EXPECT_FALSE(device.next_advised());
  bring(device, 2, 2);  // the advice was followed
  EXPECT_FALSE(device.next_advised());
}

TEST(DeviceBlocks, WhatIsKeptStays) {
  DeviceBlocks device(8);
  bring(device, 1, 2);
  bring(device, 2, 2);
  EXPECT_EQ(device.next_oldest([](Version version) { return version == 1; }), Version{2});
  EXPECT_FALSE(device.next_oldest([](Version) { return true; }));
}

TEST(DeviceBlocks, RoomIsTakenUntilTheCopyHasEnded) {
  DeviceBlocks device(4);
  bring(device, 1, 4);
  EXPECT_EQ(device.take(1, 3).blocks, 3U);
  EXPECT_EQ(device.resident(1), 1U);
  EXPECT_EQ(device.free(), 0U);
  device.release(3);
  EXPECT_EQ(device.free(), 3U);
  EXPECT_EQ(device.peak(), 4U);
}

// Beside a list of single blocks.
TEST(DeviceBlocks, AgreesWithOneBlockAtATime) {
  std::mt19937 random(7);
  DeviceBlocks device(64);
  std::vector<Version> blocks;
  for (int i = 0; i < 20'000; ++i) {
    const Version version = random() % 12;
    const size_t count = 1 + random() % 6;
    if (random() % 4 == 0) {
      device.touch(version);
      const auto same = std::stable_partition(blocks.begin(), blocks.end(),
                                              [version](Version each) { return each != version; });
      EXPECT_EQ(device.resident(version), static_cast<size_t>(blocks.end() - same));
    } else if (count <= device.free()) {
      bring(device, version, count);
      blocks.insert(blocks.end(), count, version);
    } else {
      ASSERT_EQ(device.next_oldest(keeps_none), blocks.front());
      const BlockRun gone = device.take(blocks.front(), count);
      device.release(gone.blocks);
      for (size_t block = 0; block < gone.blocks; ++block) {
        ASSERT_EQ(blocks.front(), gone.version);
        blocks.erase(blocks.begin());
      }
    }
    ASSERT_EQ(device.free(), device.capacity() - blocks.size());
  }
}

TEST(HostPages, AreMappedOneAfterTheOther) {
  HostPages host(4, static_cast<double>(kBlock));  // a block a second
  EXPECT_EQ(host.reserve(2), 2'000'000'000);
  host.release(1);
  EXPECT_EQ(host.reserve(1), 2'000'000'000);  // mapped before
  EXPECT_EQ(host.reserve(2), 4'000'000'000);
  EXPECT_EQ(host.free(), 0U);
  EXPECT_EQ(host.peak(), 4U);
}

TEST(HostPages, MayHaveBeenMappedBefore) {
  HostPages host(4, 0);
  EXPECT_EQ(host.reserve(4), 0);
}

}  // namespace

}  // namespace gpusnap::shots
