// Stream-ordered memory: what is used again, when, and what is an illegal address.

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

class PoolTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    ASSERT_OK(cuStreamCreate(&a_, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuStreamCreate(&b_, CU_STREAM_NON_BLOCKING));
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    ASSERT_OK(cuMemPoolCreate(&pool_, &properties));
  }
  void TearDown() override {
    EXPECT_OK(cuMemPoolDestroy(pool_));
    KernelTest::TearDown();
  }

  CUdeviceptr take(size_t bytes, CUstream stream) const {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemAllocFromPoolAsync(&address, bytes, pool_, stream));
    return address;
  }
  void set(CUmemPool_attribute attribute, uint64_t value) const {
    EXPECT_OK(cuMemPoolSetAttribute(pool_, attribute, &value));
  }
  uint64_t get(CUmemPool_attribute attribute) const {
    uint64_t value = 0;
    EXPECT_OK(cuMemPoolGetAttribute(pool_, attribute, &value));
    return value;
  }
  void launch_read(CUdeviceptr from, CUdeviceptr out, CUstream stream) const {
    void* parameters[] = {&from, &out};
    EXPECT_OK(cuLaunchKernel(function("read"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  }

  CUstream a_ = nullptr;
  CUstream b_ = nullptr;
  CUmemoryPool pool_ = nullptr;
};

TEST_F(PoolTest, MemoryWorksInItsStream) {
  CUdeviceptr p = 0;
  uint32_t value = 0;
  ASSERT_OK(cuMemAllocAsync(&p, 4000, a_));
  ASSERT_OK(launch_words(fill_, p, 1000, 7, a_));
  ASSERT_OK(cuMemcpyDtoHAsync_v2(&value, p + 3996, 4, a_));
  EXPECT_EQ(7u, value);
  ASSERT_OK(cuMemFreeAsync(p, a_));
  EXPECT_OK(cuStreamSynchronize(a_));
}

TEST_F(PoolTest, BoundsAreExact) {
  CUdeviceptr p = take(1000, a_);
  ASSERT_OK(launch_words(fill_, p, 251, 7, a_));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(a_));
}

TEST_F(PoolTest, AStreamUsesAgainWhatItGaveBackThoughNothingHasRunYet) {
  Gate gate;
  CUdeviceptr p = take(1 << 21, a_);
  gate.close(a_);
  ASSERT_OK(cuMemsetD32Async(p, 5, 1, a_));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  EXPECT_EQ(p, take(1 << 21, a_));
  ASSERT_OK(cuMemsetD32Async(p + 4, 6, 1, a_));
  gate.open();
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(6u, word(p + 4));
  // Fresh memory holds junk, also where somebody had it before.
  EXPECT_NE(5u, word(p));
  EXPECT_OK(cuMemFreeAsync(p, a_));
}

TEST_F(PoolTest, AnotherStreamWaitsForWhatItUsesAgain) {
  Gate gate;
  CUdeviceptr p = take(4096, a_);
  gate.close(a_);
  ASSERT_OK(cuMemFreeAsync(p, a_));
  EXPECT_EQ(p, take(4096, b_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(b_));
  gate.open();
  EXPECT_OK(cuStreamSynchronize(b_));
  EXPECT_OK(cuMemFreeAsync(p, b_));
}

TEST_F(PoolTest, WithoutDependenciesOfItsOwnItFollowsThoseOfEvents) {
  Gate gate;
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
  set(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0);
  CUdeviceptr p = take(4096, a_);
  gate.close(a_);
  ASSERT_OK(cuMemFreeAsync(p, a_));
  CUdeviceptr other = take(4096, b_);
  EXPECT_NE(p, other);
  ASSERT_OK(cuEventRecord(event, a_));
  ASSERT_OK(cuStreamWaitEvent(b_, event, 0));
  EXPECT_EQ(p, take(4096, b_));
  gate.open();
  EXPECT_OK(cuMemFreeAsync(p, b_));
  EXPECT_OK(cuMemFreeAsync(other, b_));
  EXPECT_OK(cuStreamSynchronize(b_));
}

TEST_F(PoolTest, WhatIsGivenBackStaysUntilASynchronisation) {
  CUdeviceptr out = allocate(4);
  CUdeviceptr p = take(4096, a_);
  ASSERT_OK(cuMemsetD32Async(p, 5, 1, a_));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  launch_read(p, out, a_);  // wrong, but the memory is still there
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(5u, word(out));
  launch_read(p, out, a_);
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(a_));
}

TEST_F(PoolTest, ASynchronisationReleasesOnlyWhatIsOrderedBeforeIt) {
  CUdeviceptr p = take(1 << 21, a_);
  CUdeviceptr q = take(1 << 21, b_);
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuMemFreeAsync(q, b_));
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(uint64_t{1} << 21, get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(0u, get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

TEST_F(PoolTest, TheThresholdKeepsMemory) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, uint64_t{3} << 20);
  CUdeviceptr p = take(1 << 21, a_);
  CUdeviceptr q = take(1 << 21, a_);
  EXPECT_EQ(uint64_t{4} << 20, get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  ASSERT_OK(cuMemFreeAsync(p, a_));
  ASSERT_OK(cuMemFreeAsync(q, a_));
  ASSERT_OK(cuStreamSynchronize(a_));
  EXPECT_EQ(uint64_t{2} << 20, get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  EXPECT_EQ(0u, get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  EXPECT_EQ(uint64_t{4} << 20, get(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
  // Any stream may have memory whose freeing the host has synchronised with.
  set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
  set(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0);
  EXPECT_EQ(q, take(1 << 21, b_));
  ASSERT_OK(cuMemFreeAsync(q, b_));
  ASSERT_OK(cuStreamSynchronize(b_));
  ASSERT_OK(cuMemPoolTrimTo(pool_, 0));
  EXPECT_EQ(0u, get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
  EXPECT_EQ(0u, get(CU_MEMPOOL_ATTR_USED_MEM_HIGH));
}

TEST_F(PoolTest, MemoryThatWasGivenBackCannotBeNamed) {
  CUdeviceptr p = take(4096, a_);
  ASSERT_OK(cuMemFreeAsync(p, a_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, a_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(p));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async(p, 1, 1, a_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p + 8, a_));
  EXPECT_OK(cuMemFreeAsync(0, a_));
}

TEST_F(PoolTest, BothKindsOfFreeTakeBothKindsOfMemory) {
  CUdeviceptr p = take(1 << 21, a_);
  EXPECT_OK(cuMemFree_v2(p));
  EXPECT_EQ(0u, get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  ASSERT_OK(cuMemGetInfo_v2(&before, &total));
  CUdeviceptr q = allocate(1 << 21);
  ASSERT_OK(cuMemsetD32Async(q, 1, 1, a_));
  EXPECT_OK(cuMemFreeAsync(q, a_));
  EXPECT_OK(cuStreamSynchronize(a_));
  ASSERT_OK(cuMemGetInfo_v2(&after, &total));
  EXPECT_EQ(before, after);
}

TEST_F(PoolTest, ADestroyedPoolLivesAsLongAsItsMemory) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = 4096;
  CUmemoryPool pool = nullptr;
  CUmemoryPool current = nullptr;
  CUmemoryPool standard = nullptr;
  CUdeviceptr p = 0;
  CUdeviceptr q = 0;
  ASSERT_OK(cuMemPoolCreate(&pool, &properties));
  ASSERT_OK(cuDeviceSetMemPool(0, pool));
  ASSERT_OK(cuMemAllocAsync(&p, 4096, a_));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&q, 1, a_));
  ASSERT_OK(cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
  EXPECT_EQ(pool, current);
  ASSERT_OK(cuMemPoolDestroy(pool));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&q, 1, pool, a_));
  ASSERT_OK(cuDeviceGetMemPool(&current, 0));
  ASSERT_OK(cuDeviceGetDefaultMemPool(&standard, 0));
  EXPECT_EQ(standard, current);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(standard));
  EXPECT_OK(cuMemsetD32Async(p, 1, 1024, a_));
  EXPECT_OK(cuMemFreeAsync(p, a_));
  EXPECT_OK(cuStreamSynchronize(a_));
}

TEST_F(PoolTest, TheSameCallsGiveTheSameAddresses) {
  auto run = [&] {
    std::vector<CUdeviceptr> addresses;
    std::vector<CUdeviceptr> held;
    for (unsigned i = 0; i < 60; ++i) {
      CUstream stream = i % 3 == 0 ? a_ : b_;
      held.push_back(take(500 * (i % 7 + 1), stream));
      addresses.push_back(held.back());
      EXPECT_OK(cuMemsetD32Async(held.back(), i, 100, stream));
      if (i % 2 == 0) {
        EXPECT_OK(cuMemFreeAsync(held[i / 4], i % 5 == 0 ? a_ : b_));
        held.erase(held.begin() + i / 4);
      }
      if (i % 11 != 0) continue;
      EXPECT_OK(cuStreamSynchronize(a_));
    }
    for (CUdeviceptr p : held) EXPECT_OK(cuMemFreeAsync(p, a_));
    EXPECT_OK(cuCtxSynchronize());
    return addresses;
  };
  auto first = run();
  EXPECT_EQ(first, run());
}

}  // namespace
}  // namespace simcuda::test
