// Placement against a driver of our own, whose address space is a set of granules.
#include "interpose/model/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace gpusnap::placement_test {
namespace {

constexpr uint64_t kGranule = 2 << 20;
constexpr uint64_t kBase = 0x7000'0000'0000;

struct FakeSpace {
  std::map<uint64_t, uint64_t> reserved, mapped;  // address -> size
  std::set<uint64_t> taken;                       // granules that nobody gets
  uint64_t live_handles = 0;
  bool accessible = true;
  int decompresses = 0;            // algorithms
  CUresult shares = CUDA_SUCCESS;  // what comes of memory that is to be shared
  unsigned usage = 0;              // of what was made last
  bool is_shareable = false;       // likewise
} space;

CUresult get_device(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
CUresult granularity(size_t* out, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *out = kGranule;
  return CUDA_SUCCESS;
}
bool overlaps(const std::map<uint64_t, uint64_t>& ranges, uint64_t address, uint64_t size) {
  for (auto [at, length] : ranges) {
    if (at < address + size && address < at + length) return true;
  }
  return false;
}
CUresult reserve(CUdeviceptr* out, size_t size, size_t, CUdeviceptr hint, unsigned long long) {
  if (hint == 0) {
    hint = kBase;
    while (overlaps(space.reserved, hint, size)) hint += kGranule;
  }
  bool free = !overlaps(space.reserved, hint, size);
  for (uint64_t at = hint; at < hint + size; at += kGranule) free &= !space.taken.contains(at);
  *out = free ? hint : hint + (uint64_t{1} << 40);
  space.reserved[*out] = size;
  return CUDA_SUCCESS;
}
CUresult unreserve(CUdeviceptr address, size_t size) {
  EXPECT_EQ(space.reserved[address], size);
  EXPECT_FALSE(overlaps(space.mapped, address, size));
  space.reserved.erase(address);
  return CUDA_SUCCESS;
}
CUresult get_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK ? space.decompresses : -1;
  return CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* handle, size_t, const CUmemAllocationProp* properties,
                unsigned long long) {
  space.usage = properties->allocFlags.usage;
  space.is_shareable = properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  if (space.is_shareable && space.shares != CUDA_SUCCESS) return space.shares;
  *handle = ++space.live_handles;
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle) {
  --space.live_handles;
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr address, size_t size, size_t, CUmemGenericAllocationHandle,
             unsigned long long) {
  EXPECT_FALSE(overlaps(space.mapped, address, size));
  space.mapped[address] = size;
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, size_t size) {
  EXPECT_EQ(space.mapped[address], size);
  space.mapped.erase(address);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  return space.accessible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult get_name(CUresult, const char** name) {
  *name = "A_NAME";
  return CUDA_SUCCESS;
}

class PlacementTest : public ::testing::Test {
 protected:
  PlacementTest() {
    space = {};
    driver_.cuCtxGetDevice = get_device;
    driver_.cuDeviceGetAttribute = get_attribute;
    driver_.cuMemGetAllocationGranularity = granularity;
    driver_.cuMemAddressReserve = reserve;
    driver_.cuMemAddressFree = unreserve;
    driver_.cuMemCreate = create;
    driver_.cuMemRelease = release;
    driver_.cuMemMap = map;
    driver_.cuMemUnmap = unmap;
    driver_.cuMemSetAccess = set_access;
    driver_.cuGetErrorName = get_name;
  }
  static bool is_mapped(uint64_t address, uint64_t size) {
    for (uint64_t at = address; at < address + size; ++at) {
      if (!overlaps(space.mapped, at, 1)) return false;
      at = at / kGranule * kGranule + kGranule - 1;
    }
    return true;
  }
  static void expect_nothing_left() {
    EXPECT_TRUE(space.reserved.empty());
    EXPECT_TRUE(space.mapped.empty());
    EXPECT_EQ(space.live_handles, 0U);
  }
  void free(uint64_t address) {
    for (const MappedMemory& memory : placement_.free(address)) unmap_memory(driver_, memory);
  }
  Driver driver_;
  AddressPlacement placement_{driver_};
};

TEST_F(PlacementTest, SmallAllocationsShareAGranuleUntilTheLastIsFreed) {
  EXPECT_TRUE(placement_.place(kBase, 512).ok());
  EXPECT_TRUE(placement_.place(kBase + 512, 256).ok());
  EXPECT_EQ(space.mapped.size(), 1U);
  free(kBase);
  EXPECT_TRUE(is_mapped(kBase + 512, 256));
  EXPECT_FALSE(placement_.owns(kBase));
  EXPECT_TRUE(placement_.owns(kBase + 512));
  free(kBase + 512);
  expect_nothing_left();
}

TEST_F(PlacementTest, WhatIsPlacedCanBeDecompressedIntoWhereTheDeviceDoesThat) {
  EXPECT_TRUE(placement_.place(kBase, 512).ok());
  EXPECT_EQ(space.usage, 0U);
  free(kBase);
  space.decompresses = CU_MEM_DECOMPRESS_ALGORITHM_LZ4;
  EXPECT_TRUE(placement_.place(kBase, 512).ok());
  EXPECT_EQ(space.usage, unsigned{CU_MEM_CREATE_USAGE_HW_DECOMPRESS});
  free(kBase);
}

TEST_F(PlacementTest, WhatIsPlacedCanBeSharedWhereTheDriverDoesThat) {
  EXPECT_TRUE(placement_.place(kBase, 512).ok());
  EXPECT_FALSE(space.is_shareable);
  placement_.make_shareable();
  EXPECT_TRUE(placement_.place(kBase + kGranule, 512).ok());
  EXPECT_TRUE(space.is_shareable);
  space.shares = CUDA_ERROR_NOT_SUPPORTED;
  EXPECT_TRUE(placement_.place(kBase + 2 * kGranule, 512).ok());
  EXPECT_FALSE(space.is_shareable);
  // Then there is no more of the other kind either.
  space.shares = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_FALSE(placement_.place(kBase + 3 * kGranule, 512).ok());
  for (const uint64_t at : {0, 1, 2}) free(kBase + at * kGranule);
  expect_nothing_left();
}

TEST_F(PlacementTest, ThePiecesOfAnAllocationAreThoseThatItLiesIn) {
  EXPECT_TRUE(placement_.place(kBase, 512).ok());
  EXPECT_TRUE(placement_.place(kBase + 4096, 2 * kGranule).ok());
  EXPECT_EQ(placement_.pieces(kBase).size(), 1U);
  const auto pieces = placement_.pieces(kBase + 4096);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].address, kBase);
  EXPECT_EQ(pieces[0].size, kGranule);
  EXPECT_EQ(pieces[1].address, kBase + kGranule);
  EXPECT_EQ(pieces[1].size, 2 * kGranule);
  EXPECT_TRUE(placement_.pieces(kBase + 256).empty());
  free(kBase);
  EXPECT_EQ(placement_.pieces(kBase + 4096).size(), 2U);
  free(kBase + 4096);
  expect_nothing_left();
}

TEST_F(PlacementTest, AnAllocationMayReachOverSharedAndNewGranules) {
  EXPECT_TRUE(placement_.place(kBase + kGranule, 100).ok());
  EXPECT_TRUE(placement_.place(kBase + 3 * kGranule, 100).ok());
  EXPECT_TRUE(placement_.place(kBase + 4096, 5 * kGranule).ok());
  EXPECT_TRUE(is_mapped(kBase + 4096, 5 * kGranule));
  free(kBase + kGranule);
  EXPECT_TRUE(is_mapped(kBase + 4096, 5 * kGranule));
  free(kBase + 4096);
  EXPECT_TRUE(is_mapped(kBase + 3 * kGranule, 100));
  free(kBase + 3 * kGranule);
  expect_nothing_left();
}

TEST_F(PlacementTest, ATakenRangeIsNamedAndLeavesNothingBehind) {
  space.taken.insert(kBase + 2 * kGranule);
  EXPECT_TRUE(placement_.place(kBase + kGranule, 100).ok());
  const Status status = placement_.place(kBase, 4 * kGranule);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("0x7000"), std::string::npos) << status.message();
  free(kBase + kGranule);
  expect_nothing_left();
}

TEST_F(PlacementTest, AFailureAfterTheReservationLeavesNothingBehind) {
  space.accessible = false;
  EXPECT_FALSE(placement_.place(kBase, 100).ok());
  expect_nothing_left();
}

TEST_F(PlacementTest, RandomLivesKeepEveryLiveAllocationMapped) {
  std::mt19937_64 random(7);
  std::map<uint64_t, uint64_t> live;
  for (int step = 0; step < 3000; ++step) {
    if (live.size() > 12 || (!live.empty() && random() % 3 == 0)) {
      auto it = std::next(live.begin(), static_cast<ptrdiff_t>(random() % live.size()));
      free(it->first);
      live.erase(it);
    } else {
      const uint64_t address = kBase + random() % (16 * kGranule) / 256 * 256;
      const uint64_t size = 1 + random() % (random() % 2 == 0 ? 4096 : 4 * kGranule);
      if (overlaps(live, address, size)) continue;
      ASSERT_TRUE(placement_.place(address, size).ok());
      live[address] = size;
    }
    for (auto [address, size] : live) ASSERT_TRUE(is_mapped(address, size));
  }
  for (auto [address, size] : live) free(address);
  expect_nothing_left();
}

TEST_F(PlacementTest, OursTakesNoAddressThatTheProgramWouldBeGiven) {
  const auto first = map_memory(driver_, 0, 2 * kGranule, 0);
  const auto second = map_memory(driver_, 0, kGranule, 0);
  ASSERT_TRUE(first.ok() && second.ok());
  CUdeviceptr theirs = 0;
  ASSERT_EQ(reserve(&theirs, kGranule, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(theirs, kBase);
  constexpr CUdeviceptr kFar = 0x5000'0000'0000;
  EXPECT_GE(first->address, kFar);
  EXPECT_LT(first->address, kFar + (uint64_t{1} << 40));
  EXPECT_GE(second->address, first->address + first->size);
  // Less the driver takes from what it has at hand.
  EXPECT_EQ(second->address % (32 << 20), 0u);
  EXPECT_EQ(second->addresses, 32u << 20);
  unmap_memory(driver_, first.value());
  unmap_memory(driver_, second.value());
  ASSERT_EQ(unreserve(theirs, kGranule), CUDA_SUCCESS);
  expect_nothing_left();
}

}  // namespace
}  // namespace gpusnap::placement_test
