// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/device_lane.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace gpusnap {
namespace {

constexpr uint64_t kZone = 64 << 10;
constexpr uint64_t kPart = 32 << 20;
constexpr uint64_t kCache = 80 << 20;

std::atomic<int> allocations_made{0};
const NodeLock* watched = nullptr;  // to be held during an allocation

const Driver& watched_driver() {
  static const Driver driver = [] {
    Driver found;
    void* const linked = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
#define X(name) found.name = reinterpret_cast<decltype(&::name)>(dlsym(linked, #name));
    GPUSNAP_DRIVER_FUNCTIONS(X)
    GPUSNAP_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X
    found.cuMemCreate = [](CUmemGenericAllocationHandle* handle, size_t bytes,
                           const CUmemAllocationProp* properties, unsigned long long flags) {
      if (watched != nullptr) {
        EXPECT_FALSE(watched->try_hold().value().has_value()) << "without the turn";
        ++allocations_made;
      }
      return cuMemCreate(handle, bytes, properties, flags);
    };
    return found;
  }();
  return driver;
}

class DeviceLaneTest : public simcuda::test::DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    auto lane = DeviceLane::make(watched_driver(), context_, &turns_);
    ASSERT_TRUE(lane.ok()) << lane.status().message();
    lane_ = std::move(lane.value());
    tables_ = lane_->own_bytes();
    watched = &turns_;
    allocations_made = 0;
  }
  void TearDown() override {
    watched = nullptr;
    lane_.reset();
    DriverTest::TearDown();
  }
  uint64_t cache_bytes() const { return lane_->own_bytes() - tables_; }

  const NodeLock turns_{::testing::TempDir() + "growth-turns-" + std::to_string(::getpid())};
  std::unique_ptr<DeviceLane> lane_;
  uint64_t tables_ = 0;
};

TEST_F(DeviceLaneTest, TheBufferGrowsByParts) {
  for (const uint64_t bytes : {kPart, 2 * kPart, kCache, kCache}) {
    lane_->grow_cache(kCache, kZone);
    EXPECT_EQ(cache_bytes(), bytes);
    EXPECT_EQ(lane_->blocks(), bytes / kZone);
  }
  EXPECT_EQ(allocations_made, 3);
}

TEST_F(DeviceLaneTest, TheBufferDoesNotGrowInTheTurnOfAnother) {
  lane_->grow_cache(kCache, kZone);
  {
    const NodeLock another(turns_.path());
    const auto held = another.try_hold();
    ASSERT_TRUE(held.ok() && held->has_value());
    lane_->grow_cache(kCache, kZone);
    lane_->grow_cache(kCache, kZone);
    EXPECT_EQ(cache_bytes(), kPart);
    EXPECT_EQ(allocations_made, 1);
  }
  lane_->grow_cache(kCache, kZone);
  EXPECT_EQ(cache_bytes(), 2 * kPart);
  EXPECT_EQ(lane_->take_cache().size, 2 * kPart) << "it is in nobody's use";
}

// There is one device here: that it may write needs no link.
TEST_F(DeviceLaneTest, OtherDevicesGetBlocksOnceTheyHaveAccess) {
  EXPECT_EQ(lane_->room_bytes(kCache), kCache) << "it is still to come";
  EXPECT_EQ(lane_->free_bytes(), 0U);
  EXPECT_EQ(lane_->take_blocks_for(0, 8).count, 0U) << "there is no buffer";
  lane_->let_devices_in();
  lane_->grow_cache(kCache, kZone);
  EXPECT_EQ(lane_->take_blocks_for(0, 8).count, 0U) << "nobody has let it in";
  lane_->let_devices_in();
  const BlockPool::Run guests = lane_->take_blocks_for(0, 8);
  EXPECT_EQ(guests.count, 8U);
  EXPECT_EQ(lane_->free_bytes(), kPart - 8 * kZone);
  EXPECT_EQ(lane_->room_bytes(kCache), kCache - 8 * kZone);
  lane_->give_back_guests(guests);
  EXPECT_EQ(lane_->free_bytes(), kPart);
}

TEST_F(DeviceLaneTest, ADeviceWithoutAccessGetsNoBlocks) {
  constexpr int kNoSuchDevice = 7;
  lane_->grow_cache(kCache, kZone);
  for (int time = 0; time < 3; ++time) {
    EXPECT_EQ(lane_->take_blocks_for(kNoSuchDevice, 8).count, 0U);
    lane_->let_devices_in();
  }
  EXPECT_EQ(lane_->take_cache().size, kPart) << "it is in nobody's use";
}

TEST_F(DeviceLaneTest, BlocksOfGuestsAreNotMissedByTheDevicesOwn) {
  lane_->grow_cache(kPart, kZone);
  (void)lane_->take_blocks_for(0, 1);
  lane_->let_devices_in();
  const uint64_t all = kPart / kZone;
  EXPECT_EQ(lane_->take_blocks_for(0, all / 2).count, all / 2);
  EXPECT_FALSE(lane_->few_blocks_left());
  EXPECT_EQ(lane_->take_blocks(all / 4).count, all / 4);
  EXPECT_FALSE(lane_->few_blocks_left());
  EXPECT_EQ(lane_->take_blocks(1).count, 1U);
  EXPECT_TRUE(lane_->few_blocks_left());
}

}  // namespace
}  // namespace gpusnap
