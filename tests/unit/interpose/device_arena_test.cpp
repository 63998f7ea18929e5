// SPDX-License-Identifier: Apache-2.0
//
// The arena against a driver of our own: what is mapped where, and what the stand-ins are told.
#include "interpose/model/device_arena.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace gpusnap::device_arena_test {
namespace {

constexpr uint64_t kGranule = BlockAllocator::kGranule;
constexpr uint64_t kFirst = 0x4000'0000'0000;
const auto kContext = reinterpret_cast<CUcontext>(0x10);
const auto kOther = reinterpret_cast<CUcontext>(0x20);

struct FakeDriver {
  CUcontext context = kContext;
  bool takes_hints = true;
  uint64_t memory = 64 * kGranule;  // that there is
  uint64_t used = 0;
  CUmemGenericAllocationHandle handle = 0;
  std::map<CUmemGenericAllocationHandle, uint64_t> created;  // bytes
  std::map<uint64_t, uint64_t> reserved, mapped;             // address -> bytes
  std::map<uint64_t, std::set<int>> access;                  // by mapping
  std::set<CUdeviceptr> stand_ins;
  CUdeviceptr next_stand_in = 0x1000;
  unsigned creations = 0, synchronised = 0;
} fake;

CUresult get_device(CUdevice* device) {
  *device = fake.context == kOther ? 1 : 0;
  return fake.context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
CUresult get_context(CUcontext* context) {
  *context = fake.context;
  return CUDA_SUCCESS;
}
CUresult push(CUcontext) {
  return CUDA_SUCCESS;
}
CUresult pop(CUcontext*) {
  return CUDA_SUCCESS;
}
CUresult synchronise() {
  ++fake.synchronised;
  return CUDA_SUCCESS;
}
CUresult get_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult granularity(size_t* out, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *out = kGranule;
  return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* out, size_t size, size_t, CUdeviceptr hint, unsigned long long) {
  *out = fake.takes_hints ? hint : 0x3'0200'0000;
  fake.reserved[*out] = size;
  return CUDA_SUCCESS;
}
CUresult unreserve(CUdeviceptr address, size_t size) {
  EXPECT_EQ(fake.reserved[address], size);
  fake.reserved.erase(address);
  return CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp*,
                unsigned long long) {
  if (size > fake.memory - fake.used) return CUDA_ERROR_OUT_OF_MEMORY;
  fake.used += size;
  *handle = ++fake.handle;
  fake.created[*handle] = size;
  ++fake.creations;
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
  fake.used -= fake.created.at(handle);
  fake.created.erase(handle);
  return CUDA_SUCCESS;
}
bool overlaps(const std::map<uint64_t, uint64_t>& ranges, uint64_t address, uint64_t size) {
  auto next = ranges.lower_bound(address);
  if (next != ranges.end() && next->first < address + size) return true;
  return next != ranges.begin() && std::prev(next)->first + std::prev(next)->second > address;
}
CUresult map(CUdeviceptr address, size_t size, size_t, CUmemGenericAllocationHandle,
             unsigned long long) {
  EXPECT_FALSE(overlaps(fake.mapped, address, size));
  EXPECT_EQ(address % kGranule + size % kGranule, 0u);
  fake.mapped[address] = size;
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, size_t size) {
  EXPECT_EQ(fake.mapped[address], size);
  fake.mapped.erase(address);
  fake.access.erase(address);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc* one, size_t) {
  EXPECT_EQ(fake.mapped[address], size);
  fake.access[address].insert(one->location.id);
  return CUDA_SUCCESS;
}
CUresult make_stand_in(CUdeviceptr* out) {
  *out = fake.next_stand_in += 512;
  fake.stand_ins.insert(*out);
  return CUDA_SUCCESS;
}
CUresult free_stand_in(CUdeviceptr stand_in) {
  return fake.stand_ins.erase(stand_in) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

class DeviceArenaTest : public ::testing::Test {
 protected:
  DeviceArenaTest() {
    fake = {};
    driver_.cuCtxGetDevice = get_device;
    driver_.cuCtxGetCurrent = get_context;
    driver_.cuCtxPushCurrent_v2 = push;
    driver_.cuCtxPopCurrent_v2 = pop;
    driver_.cuCtxSynchronize = synchronise;
    driver_.cuDeviceGetAttribute = get_attribute;
    driver_.cuMemGetAllocationGranularity = granularity;
    driver_.cuMemAddressReserve = reserve;
    driver_.cuMemAddressFree = unreserve;
    driver_.cuMemCreate = create;
    driver_.cuMemRelease = release;
    driver_.cuMemMap = map;
    driver_.cuMemUnmap = unmap;
    driver_.cuMemSetAccess = set_access;
    arena_.begin();
  }
  CUdeviceptr allocate(uint64_t size, uint64_t at = 0) {
    CUdeviceptr address = 0;
    EXPECT_EQ(arena_.allocate(&address, size, make_stand_in, at), CUDA_SUCCESS);
    return address;
  }
  CUresult free(uint64_t address) { return arena_.free(address, free_stand_in, true); }
  static void expect_mapped(uint64_t address, uint64_t size) {
    for (uint64_t at = address / kGranule * kGranule; at < address + size; at += kGranule) {
      ASSERT_TRUE(overlaps(fake.mapped, at, 1));
    }
  }
  void expect_only_unused_left() {
    EXPECT_TRUE(fake.stand_ins.empty());
    EXPECT_EQ(fake.used, arena_.unused(0));
    (void)arena_.release_unused(0);
    EXPECT_TRUE(fake.mapped.empty());
    EXPECT_TRUE(fake.created.empty());
    EXPECT_EQ(fake.used, 0u);
  }
  Driver driver_;
  DeviceArena arena_{driver_};
};

TEST_F(DeviceArenaTest, AddressesAreFarAndTheSameForTheSameCalls) {
  const CUdeviceptr first = allocate(100), second = allocate(3 * kGranule), third = allocate(1);
  EXPECT_EQ(first, kFirst);
  EXPECT_EQ(second, kFirst + 512);
  EXPECT_EQ(third, second + 3 * kGranule);
  EXPECT_EQ(free(first), CUDA_SUCCESS);
  EXPECT_EQ(allocate(400), first);
  fake.context = kOther;
  const CUdeviceptr of_other_device = allocate(100);
  EXPECT_NE(of_other_device / (kGranule << 10), first / (kGranule << 10));
  EXPECT_TRUE(DeviceArena::covers(of_other_device));
}

TEST_F(DeviceArenaTest, ABlockIsAtItsRecordedAddressOrNotServed) {
  EXPECT_EQ(allocate(1000, kFirst + 5 * kGranule), kFirst + 5 * kGranule);
  CUdeviceptr address = 0;
  EXPECT_FALSE(arena_.allocate(&address, 1, make_stand_in, kFirst + 5 * kGranule + 512));
  EXPECT_EQ(fake.stand_ins.size(), 1u);
}

TEST_F(DeviceArenaTest, WithoutItsAddressesTheDriverServes) {
  fake.takes_hints = false;
  CUdeviceptr address = 0;
  EXPECT_FALSE(arena_.allocate(&address, 1, make_stand_in));
  EXPECT_FALSE(arena_.allocate(&address, 1, make_stand_in));
  EXPECT_TRUE(fake.reserved.empty());
  EXPECT_TRUE(fake.stand_ins.empty());
}

TEST_F(DeviceArenaTest, WhatCannotBeIsTheDriversToRefuse) {
  CUdeviceptr address = 0;
  EXPECT_FALSE(arena_.allocate(nullptr, 1, make_stand_in));
  EXPECT_FALSE(arena_.allocate(&address, 0, make_stand_in));
  EXPECT_FALSE(arena_.allocate(&address, UINT64_MAX, make_stand_in));
  fake.context = nullptr;
  EXPECT_FALSE(arena_.allocate(&address, 1, make_stand_in));
  EXPECT_EQ(free(kFirst), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceArenaTest, AFailureLeavesNothingBehind) {
  fake.memory = 8 * kGranule;
  const CUdeviceptr first = allocate(100);
  CUdeviceptr address = 0;
  EXPECT_EQ(arena_.allocate(&address, 9 * kGranule, make_stand_in), CUDA_ERROR_OUT_OF_MEMORY);
  const auto refuses = [](CUdeviceptr*) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; };
  EXPECT_EQ(arena_.allocate(&address, 100, refuses), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(address, 0u);
  EXPECT_EQ(allocate(100), first + 512);
  EXPECT_EQ(free(first), CUDA_SUCCESS);
  EXPECT_EQ(free(first), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(free(first + 512), CUDA_SUCCESS);
  expect_only_unused_left();
}

TEST_F(DeviceArenaTest, AFailedFreeChangesNothing) {
  const CUdeviceptr block = allocate(100);
  const auto refuses = [](CUdeviceptr) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; };
  EXPECT_EQ(arena_.free(block, refuses, true), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_TRUE(arena_.owns(block));
  EXPECT_EQ(free(block + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(free(block), CUDA_SUCCESS);
  expect_only_unused_left();
}

TEST_F(DeviceArenaTest, UnusedMemoryIsUsedAgainAndGoesWhereItIsShort) {
  fake.memory = 10 * kGranule;
  const CUdeviceptr block = allocate(4 * kGranule);
  EXPECT_EQ(free(block), CUDA_SUCCESS);
  const unsigned creations = fake.creations;
  EXPECT_EQ(allocate(4 * kGranule), block);
  EXPECT_EQ(fake.creations, creations);
  EXPECT_EQ(free(block), CUDA_SUCCESS);
  EXPECT_EQ(arena_.unused(0), 4 * kGranule);
  (void)allocate(10 * kGranule);
  EXPECT_EQ(arena_.unused(0), 0u);
}

TEST_F(DeviceArenaTest, LargeMemoryGoesBackAfterTheDeviceHasRunEmpty) {
  const CUdeviceptr block = allocate(40 * kGranule);
  EXPECT_EQ(fake.synchronised, 0u);
  EXPECT_EQ(free(block), CUDA_SUCCESS);
  EXPECT_EQ(fake.synchronised, 1u);
  EXPECT_EQ(fake.used, 0u);
}

TEST_F(DeviceArenaTest, ASmallBlockKeepsOneGranuleOfALargeOne) {
  const CUdeviceptr large = allocate(20 * kGranule + 1000), small = allocate(100);
  EXPECT_EQ(small, large + 20 * kGranule + 1024);
  EXPECT_EQ(arena_.pieces(large).size(), 2u);
  EXPECT_EQ(free(large), CUDA_SUCCESS);
  (void)arena_.release_unused(0);
  EXPECT_EQ(fake.used, kGranule);
  expect_mapped(small, 100);
}

TEST_F(DeviceArenaTest, StandInsAnswerForBlocks) {
  const CUdeviceptr block = allocate(1000);
  EXPECT_EQ(arena_.asked_about(block + 999), *fake.stand_ins.begin());
  EXPECT_EQ(arena_.asked_about(block + 1000), DeviceArena::kNothing);
  EXPECT_EQ(arena_.asked_about(0x1234), 0x1234u);
  EXPECT_EQ(arena_.find(block + 999)->size, 1000u);
  EXPECT_FALSE(arena_.find(block + 1000));
}

TEST_F(DeviceArenaTest, PeersMayUseWhatThereIsAndWhatComes) {
  const CUdeviceptr block = allocate(kGranule);
  arena_.allow(1);
  const CUdeviceptr next = allocate(kGranule);
  EXPECT_EQ(fake.access.at(block), (std::set<int>{0, 1}));
  EXPECT_EQ(fake.access.at(next), (std::set<int>{0, 1}));
  fake.context = kOther;
  const CUdeviceptr of_other_device = allocate(kGranule);
  EXPECT_EQ(fake.access.at(of_other_device), (std::set<int>{1}));
}

TEST_F(DeviceArenaTest, BlocksEndWithTheirContext) {
  const CUdeviceptr block = allocate(1000);
  fake.context = reinterpret_cast<CUcontext>(0x30);
  const CUdeviceptr other = allocate(1000);
  arena_.forget_context(kContext, 0, false);
  EXPECT_FALSE(arena_.owns(block));
  EXPECT_TRUE(arena_.owns(other));
  EXPECT_EQ(allocate(1000), block);
  arena_.forget_context(fake.context, 0, true);
  EXPECT_TRUE(fake.mapped.empty());
  EXPECT_TRUE(fake.reserved.empty());
  EXPECT_EQ(allocate(1000), block);
}

TEST_F(DeviceArenaTest, RandomLivesKeepEveryBlockMapped) {
  std::mt19937 random(5);
  fake.memory = 96 * kGranule;
  std::map<uint64_t, uint64_t> live;
  for (int step = 0; step < 4000; ++step) {
    if (!live.empty() && random() % 2 == 0) {
      const auto gone = std::next(live.begin(), static_cast<long>(random() % live.size()));
      ASSERT_EQ(free(gone->first), CUDA_SUCCESS);
      live.erase(gone);
    } else {
      const uint64_t size = 1 + random() % (uint64_t{1} << (1 + random() % 26));
      CUdeviceptr address = 0;
      const auto made = arena_.allocate(&address, size, make_stand_in);
      ASSERT_TRUE(made);
      if (*made != CUDA_SUCCESS) continue;
      ASSERT_TRUE(live.emplace(address, size).second);
    }
    if (step % 16 != 0) continue;
    for (const auto& [address, size] : live) {
      expect_mapped(address, size);
      ASSERT_LE(arena_.pieces(address).size(), 3u);
    }
  }
  for (const auto& [address, size] : live) ASSERT_EQ(free(address), CUDA_SUCCESS);
  expect_only_unused_left();
}

TEST_F(DeviceArenaTest, ThreadsGetMemoryOfTheirOwn) {
  constexpr int kThreads = 4;
  std::mutex stand_ins;
  const auto make = [&](CUdeviceptr* out) {
    const std::lock_guard lock(stand_ins);
    return make_stand_in(out);
  };
  const auto end = [&](CUdeviceptr stand_in) {
    const std::lock_guard lock(stand_ins);
    return free_stand_in(stand_in);
  };
  std::map<uint64_t, uint64_t> live;  // of all threads
  std::mutex of_live;
  const auto run = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int step = 0; step < 200; ++step) {
      const uint64_t size = 1 + random() % (kGranule / 2);
      CUdeviceptr address = 0;
      ASSERT_EQ(arena_.allocate(&address, size, make), CUDA_SUCCESS);
      {
        const std::lock_guard lock(of_live);
        ASSERT_FALSE(overlaps(live, address, size));
        live[address] = size;
      }
      EXPECT_EQ(arena_.find(address)->size, size);
      {
        const std::lock_guard lock(of_live);
        live.erase(address);
      }
      ASSERT_EQ(arena_.free(address, end, true), CUDA_SUCCESS);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(run, i);
  for (std::thread& thread : threads) thread.join();
  expect_only_unused_left();
}

}  // namespace
}  // namespace gpusnap::device_arena_test
