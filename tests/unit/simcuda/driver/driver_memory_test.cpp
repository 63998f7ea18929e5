// Memory: where it lies, what may be done with it, and every form of copy.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

constexpr uint64_t kGranule = uint64_t{2} << 20;
constexpr uint64_t kLowest = 0x0000'a000'0000'0000;

class MemoryTest : public DriverTest {
 protected:
  static std::vector<uint8_t> counting(size_t bytes) {
    std::vector<uint8_t> values(bytes);
    std::iota(values.begin(), values.end(), uint8_t{1});
    return values;
  }
};

TEST_F(MemoryTest, SmallAllocationsShareAGranuleWithGaps) {
  CUdeviceptr one = allocate(100);
  CUdeviceptr two = allocate(256);
  CUdeviceptr three = allocate(1);
  EXPECT_GE(one, kLowest);
  // Textures need this alignment, too.
  for (const CUdeviceptr each : {one, two, three}) EXPECT_EQ(0u, each % 512);
  EXPECT_EQ(one / kGranule, three / kGranule);
  EXPECT_GE(two, one + 100 + 256);
  EXPECT_GE(three, two + 512);
  CUdeviceptr large = allocate(kGranule + 1);
  CUdeviceptr next = allocate(kGranule);
  EXPECT_EQ(0u, large % kGranule);
  EXPECT_GT(next, large + 2 * kGranule);
}

TEST_F(MemoryTest, FreedAddressesComeBackInTheSameOrder) {
  CUdeviceptr one = allocate(1000);
  CUdeviceptr two = allocate(1000);
  EXPECT_OK(cuMemFree_v2(one));
  EXPECT_EQ(one, allocate(900));
  EXPECT_OK(cuMemFree_v2(two));
  EXPECT_OK(cuMemFree_v2(one));
  EXPECT_EQ(one, allocate(3000));
}

TEST_F(MemoryTest, FreshMemoryIsJunkTheSameEachTime) {
  for (size_t bytes : {size_t{64}, size_t{3} << 20}) {
    CUdeviceptr address = allocate(bytes);
    auto before = download<uint64_t>(address, 8);
    EXPECT_EQ(before.end(), std::find(before.begin(), before.end(), 0u));
    EXPECT_OK(cuMemsetD8_v2(address, 0, bytes));
    EXPECT_OK(cuMemFree_v2(address));
    EXPECT_EQ(address, allocate(bytes));
    EXPECT_EQ(before, download<uint64_t>(address, 8));
  }
}

TEST_F(MemoryTest, BoundsAreExact) {
  CUdeviceptr address = allocate(100);
  std::vector<uint8_t> bytes(101);
  EXPECT_OK(cuMemcpyDtoH_v2(bytes.data(), address, 100));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(bytes.data(), address, 101));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(bytes.data(), address + 100, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(address - 1, bytes.data(), 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(address + 1, 0, 100));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(address + 2, 0, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(bytes.data(), address, SIZE_MAX));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address + 4));
  EXPECT_OK(cuMemFree_v2(address));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(bytes.data(), address, 1));
  EXPECT_OK(cuMemFree_v2(0));
}

TEST_F(MemoryTest, WrongArgumentsAreRefused) {
  CUdeviceptr address = 0;
  size_t pitch = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&address, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(nullptr, 16));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&address, 16, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&address, &pitch, 16, 16, 3));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(&address));
  EXPECT_CU(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(&address));
}

TEST_F(MemoryTest, FreesNeedNoCurrentContext) {
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&other, 0, 0));
  std::vector<uint32_t> own(256);
  for (const CUcontext elsewhere : {CUcontext{nullptr}, other}) {
    SCOPED_TRACE(elsewhere == nullptr ? "none is current" : "another one is current");
    ASSERT_OK(cuCtxSetCurrent(context_));
    const CUdeviceptr device = allocate(1000);
    CUdeviceptr managed = 0, pooled = 0;
    void* pinned = nullptr;
    ASSERT_OK(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    ASSERT_OK(cuMemAllocAsync(&pooled, 100, nullptr));
    ASSERT_OK(cuMemHostAlloc(&pinned, 100, 0));
    ASSERT_OK(cuMemHostRegister_v2(own.data(), 1024, 0));
    ASSERT_OK(cuCtxSetCurrent(elsewhere));
    for (const CUdeviceptr each : {device, managed, pooled}) {
      EXPECT_OK(cuMemFree_v2(each));
      EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(each));
    }
    EXPECT_OK(cuMemFreeHost(pinned));
    EXPECT_OK(cuMemHostUnregister(own.data()));
    EXPECT_CU(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(own.data()));
    EXPECT_OK(cuMemFree_v2(0));
    EXPECT_OK(cuMemFreeHost(nullptr));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister(nullptr));
  }
  EXPECT_OK(cuCtxDestroy_v2(other));
}

TEST_F(MemoryTest, AFreeWaitsForTheContextThatMadeTheMemory) {
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&other, 0, 0));
  ASSERT_OK(cuCtxSetCurrent(context_));
  const CUdeviceptr address = allocate(1000);
  Gate gate;
  gate.close(nullptr);
  ASSERT_OK(cuMemsetD8Async(address, 7, 1000, nullptr));
  ASSERT_OK(cuCtxSetCurrent(nullptr));
  std::atomic<bool> freed{false};
  std::thread user([&] {
    EXPECT_OK(cuMemFree_v2(address));
    freed = true;
  });
  // While the stream is held, the memory is on its way out, and no more.
  unsigned type = 0;
  while (!freed &&
         cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(freed);
  gate.open();
  user.join();
  EXPECT_OK(cuCtxDestroy_v2(other));
}

TEST_F(MemoryTest, ThereIsOnlySoMuch) {
  size_t free_before = 0;
  size_t total = 0;
  size_t free_after = 0;
  ASSERT_OK(cuMemGetInfo_v2(&free_before, &total));
  EXPECT_EQ(size_t{4} << 30, total);
  CUdeviceptr address = 0;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&address, total + 1));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&address, SIZE_MAX));
  ASSERT_OK(cuMemAlloc_v2(&address, size_t{3} << 30));
  CUdeviceptr other = 0;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&other, size_t{2} << 30));
  ASSERT_OK(cuMemGetInfo_v2(&free_after, &total));
  EXPECT_EQ(free_before - (size_t{3} << 30), free_after);
  ASSERT_OK(cuMemFree_v2(address));
  ASSERT_OK(cuMemGetInfo_v2(&free_after, &total));
  EXPECT_EQ(free_before, free_after);
}

TEST_F(MemoryTest, PointersTellWhatTheyAre) {
  CUdeviceptr device = allocate(1000);
  void* pinned = nullptr;
  CUdeviceptr managed = 0;
  ASSERT_OK(cuMemHostAlloc(&pinned, 100, CU_MEMHOSTALLOC_PORTABLE));
  ASSERT_OK(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
  unsigned type = 0;
  EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 999));
  EXPECT_EQ(unsigned{CU_MEMORYTYPE_DEVICE}, type);
  EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  reinterpret_cast<CUdeviceptr>(pinned)));
  EXPECT_EQ(unsigned{CU_MEMORYTYPE_HOST}, type);
  EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed));
  EXPECT_EQ(1u, type);
  int local = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                            reinterpret_cast<CUdeviceptr>(&local)));
  CUdeviceptr base = 0;
  size_t size = 0;
  EXPECT_OK(cuMemGetAddressRange_v2(&base, &size, device + 10));
  EXPECT_EQ(device, base);
  EXPECT_EQ(1000u, size);
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&type, &size};
  EXPECT_OK(cuPointerGetAttributes(2, wanted, values, reinterpret_cast<CUdeviceptr>(&local)));
  EXPECT_EQ(0u, type);
  EXPECT_OK(cuPointerGetAttributes(2, wanted, values, device));
  EXPECT_EQ(1000u, size);
}

TEST_F(MemoryTest, PinnedMemoryHasOneAddress) {
  void* pinned = nullptr;
  CUdeviceptr address = 0;
  unsigned flags = 0;
  ASSERT_OK(cuMemHostAlloc(&pinned, 5000, CU_MEMHOSTALLOC_DEVICEMAP));
  EXPECT_OK(cuMemHostGetDevicePointer_v2(&address, pinned, 0));
  EXPECT_EQ(reinterpret_cast<CUdeviceptr>(pinned), address);
  EXPECT_OK(cuMemHostGetFlags(&flags, pinned));
  EXPECT_EQ(unsigned{CU_MEMHOSTALLOC_DEVICEMAP}, flags);
  EXPECT_OK(cuMemsetD8_v2(address, 0x5a, 5000));
  EXPECT_EQ(0x5a, static_cast<uint8_t*>(pinned)[4999]);
  EXPECT_OK(cuMemFreeHost(pinned));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pinned));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer_v2(&address, pinned, 0));
}

TEST_F(MemoryTest, HostMemoryCanBeRegistered) {
  std::vector<uint32_t> values(256, 3);
  EXPECT_OK(cuMemHostRegister_v2(values.data(), 1024, 0));
  EXPECT_CU(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
            cuMemHostRegister_v2(values.data() + 1, 4, 0));
  CUdeviceptr address = 0;
  EXPECT_OK(cuMemHostGetDevicePointer_v2(&address, values.data(), 0));
  EXPECT_OK(cuMemsetD32_v2(address, 9, 256));
  EXPECT_EQ(9u, values[255]);
  EXPECT_OK(cuMemHostUnregister(values.data()));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(address, 1, 1));
}

TEST_F(MemoryTest, ManagedMemoryIsTheHostsToo) {
  CUdeviceptr managed = 0;
  ASSERT_OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  auto* host = reinterpret_cast<uint32_t*>(managed);
  host[3] = 77;
  EXPECT_EQ(77u, word(managed + 12));
  EXPECT_OK(cuMemsetD32_v2(managed, 5, 1024));
  EXPECT_EQ(5u, host[1023]);
  EXPECT_OK(cuMemPrefetchAsync(managed, 4096, 0, nullptr));
  EXPECT_OK(cuMemFree_v2(managed));
}

TEST_F(MemoryTest, UnifiedCopiesFindOutWhatIsWhere) {
  auto values = counting(64);
  CUdeviceptr one = allocate(64);
  CUdeviceptr two = allocate(64);
  std::vector<uint8_t> back(64);
  EXPECT_OK(cuMemcpy(one, reinterpret_cast<CUdeviceptr>(values.data()), 64));
  EXPECT_OK(cuMemcpy(two, one, 64));
  EXPECT_OK(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(back.data()), two, 64, nullptr));
  EXPECT_EQ(values, back);
  back.assign(64, 0);
  EXPECT_OK(cuMemcpyPeer(one, context_, two, context_, 64));
  EXPECT_OK(cuMemcpy(reinterpret_cast<CUdeviceptr>(back.data()),
                     reinterpret_cast<CUdeviceptr>(values.data()), 64));
  EXPECT_EQ(values, back);
  EXPECT_OK(cuMemcpy(one, two, 0));
}

class BatchTest : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    memory_ = allocate(256);
    ASSERT_OK(cuMemcpyHtoD_v2(memory_, values_.data(), 256));
    attributes_.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  // Copies within memory_, to its host side, and from it.
  CUresult batch() {
    return cuMemcpyBatchAsync_v2(to_.data(), from_.data(), sizes_.data(), to_.size(), &attributes_,
                                 &first_, 1, stream_);
  }
  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
  std::vector<uint8_t> values_ = counting(256);
  std::vector<CUdeviceptr> to_, from_;
  std::vector<size_t> sizes_;
  CUmemcpyAttributes attributes_{};
  size_t first_ = 0;
};

TEST_F(BatchTest, CopiesInEachDirection) {
  std::vector<uint8_t> back(16), given(8, 200);
  to_ = {memory_ + 128, reinterpret_cast<CUdeviceptr>(back.data()), memory_ + 240};
  from_ = {memory_, memory_ + 32, reinterpret_cast<CUdeviceptr>(given.data())};
  sizes_ = {16, 16, 8};
  EXPECT_OK(batch());
  // The one into pageable memory is waited for, as by other copies, and with it the batch.
  EXPECT_TRUE(std::equal(back.begin(), back.end(), values_.begin() + 32));
  auto all = download<uint8_t>(memory_, 256);
  EXPECT_TRUE(std::equal(values_.begin(), values_.begin() + 16, all.begin() + 128));
  EXPECT_EQ(200, all[240]);
  EXPECT_EQ(200, all[247]);
  EXPECT_EQ(values_[248], all[248]);
}

TEST_F(BatchTest, TakesAttributesForEachStretch) {
  std::vector<uint8_t> given(8, 200);
  to_ = {memory_, memory_ + 8};
  from_ = {reinterpret_cast<CUdeviceptr>(given.data()), memory_ + 100};
  sizes_ = {8, 8};
  CUmemcpyAttributes attributes[2] = {attributes_, attributes_};
  attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  size_t firsts[2] = {0, 1}, failed = 0;
  EXPECT_OK(cuMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), 2, attributes, firsts, 2,
                               &failed, stream_));
  given.assign(8, 0);
  EXPECT_OK(cuStreamSynchronize(stream_));
  auto all = download<uint8_t>(memory_, 16);
  EXPECT_EQ(200, all[0]);
  EXPECT_EQ(values_[100], all[8]);
}

TEST_F(BatchTest, RefusesWhatIsNoBatch) {
  to_ = {memory_, memory_ + 64};
  from_ = {memory_ + 128, memory_ + 192};
  sizes_ = {16, 16};
  EXPECT_OK(batch());
  size_t failed = 0;
  sizes_[1] = 65;  // beyond the end
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), 2, &attributes_, &first_, 1,
                               &failed, stream_));
  EXPECT_EQ(1u, failed);
  sizes_[1] = 16;
  attributes_.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, batch());
  attributes_.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  first_ = 1;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, batch());
  first_ = 0;
  EXPECT_OK(cuCtxSynchronize());
  stream_ = nullptr;  // the legacy default stream takes none
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, batch());
  EXPECT_OK(cuMemcpyBatchAsync_v2_ptsz(to_.data(), from_.data(), sizes_.data(), 2, &attributes_,
                                       &first_, 1, stream_));
}

TEST_F(BatchTest, CopiesBoxes) {
  std::vector<uint8_t> back(12);
  CUDA_MEMCPY3D_BATCH_OP boxes[2]{};
  for (CUDA_MEMCPY3D_BATCH_OP& box : boxes) {
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.extent = {3, 2, 2};
    box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  // Rows of 8 bytes and layers of 4 rows, packed into the host's memory, and within the device.
  boxes[0].src.op.ptr = {memory_ + 1, 8, 4, {}};
  boxes[0].dst.op.ptr = {reinterpret_cast<CUdeviceptr>(back.data()), 0, 0, {}};
  boxes[1].src.op.ptr = {memory_, 0, 0, {}};
  boxes[1].dst.op.ptr = {memory_ + 128, 16, 0, {}};
  EXPECT_OK(cuMemcpy3DBatchAsync_v2(2, boxes, 0, stream_));
  const std::vector<uint8_t> expected = {values_[1],  values_[2],  values_[3],  values_[9],
                                         values_[10], values_[11], values_[33], values_[34],
                                         values_[35], values_[41], values_[42], values_[43]};
  EXPECT_EQ(expected, back);
  auto all = download<uint8_t>(memory_, 256);
  EXPECT_TRUE(std::equal(values_.begin() + 3, values_.begin() + 6, all.begin() + 144));
  EXPECT_TRUE(std::equal(values_.begin() + 9, values_.begin() + 12, all.begin() + 176));
  EXPECT_EQ(values_[131], all[131]);
}

TEST_F(BatchTest, RefusesBoxesThatAreNone) {
  CUDA_MEMCPY3D_BATCH_OP box{};
  box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  box.src.op.ptr.ptr = memory_;
  box.dst.op.ptr.ptr = memory_ + 128;
  box.extent = {4, 2, 1};
  box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  EXPECT_OK(cuMemcpy3DBatchAsync_v2(1, &box, 0, stream_));
  size_t failed = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync_v2(1, &box, 1, stream_));
  box.dst.op.ptr.rowLength = 3;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, &box, &failed, 0, stream_));
  EXPECT_EQ(SIZE_MAX, failed);
  box.dst.op.ptr.rowLength = 200;  // the second row is beyond the end
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, &box, &failed, 0, stream_));
  EXPECT_EQ(0u, failed);
  box.dst.op.ptr.rowLength = 0;
  box.src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync_v2(1, &box, 0, stream_));
}

TEST_F(BatchTest, WhatIsDiscardedIsJunk) {
  CUdeviceptr managed[2] = {};
  size_t sizes[2] = {64, 32}, first = 0;
  CUmemLocation place{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  for (CUdeviceptr& each : managed) {
    ASSERT_OK(cuMemAllocManaged(&each, 64, CU_MEM_ATTACH_GLOBAL));
    std::memset(reinterpret_cast<void*>(each), 7, 64);
  }
  EXPECT_OK(cuMemPrefetchBatchAsync(managed, sizes, 2, &place, &first, 1, 0, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  const auto* bytes = reinterpret_cast<const uint8_t*>(managed[1]);
  EXPECT_EQ(7, bytes[0]);
  EXPECT_OK(cuMemDiscardAndPrefetchBatchAsync(managed, sizes, 2, &place, &first, 1, 0, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_NE(7, bytes[31]);
  EXPECT_EQ(7, bytes[32]);
  managed[1] = memory_;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemDiscardBatchAsync(managed, sizes, 2, 0, stream_));
  int mostly = 5;
  EXPECT_OK(cuMemRangeGetAttribute(&mostly, sizeof mostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                   managed[0], 64));
  EXPECT_EQ(0, mostly);
}

TEST_F(MemoryTest, SetsComeInThreeWidthsAndTwoShapes) {
  CUdeviceptr address = allocate(64);
  EXPECT_OK(cuMemsetD8_v2(address, 1, 64));
  EXPECT_OK(cuMemsetD16_v2(address + 2, 0x0203, 2));
  EXPECT_OK(cuMemsetD32_v2(address + 8, 0x04050607, 1));
  auto bytes = download<uint8_t>(address, 16);
  EXPECT_EQ((std::vector<uint8_t>{1, 1, 3, 2, 3, 2, 1, 1, 7, 6, 5, 4, 1, 1, 1, 1}), bytes);
  EXPECT_OK(cuMemsetD2D8_v2(address, 16, 9, 2, 4));
  EXPECT_OK(cuMemsetD2D32Async(address + 4, 16, 8, 1, 2, nullptr));
  bytes = download<uint8_t>(address, 64);
  EXPECT_EQ((std::vector<uint8_t>{9, 9, 3, 2, 8, 0, 0, 0}),
            std::vector<uint8_t>(bytes.begin(), bytes.begin() + 8));
  EXPECT_EQ(9, bytes[49]);
  EXPECT_EQ(1, bytes[50]);
  EXPECT_EQ(1, bytes[36]);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(address, 16, 9, 17, 2));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D8_v2(address, 16, 9, 16, 5));
}

TEST_F(MemoryTest, CopiesOfRectangles) {
  auto values = counting(100);  // 10 x 10
  CUdeviceptr device = 0;
  size_t pitch = 0;
  ASSERT_OK(cuMemAllocPitch_v2(&device, &pitch, 10, 10, 4));
  EXPECT_GE(pitch, 10u);
  EXPECT_EQ(0u, pitch % 512);
  CUDA_MEMCPY2D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = values.data();
  in.srcPitch = 10;
  in.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  in.dstDevice = device;
  in.dstPitch = pitch;
  in.WidthInBytes = 10;
  in.Height = 10;
  EXPECT_OK(cuMemcpy2D_v2(&in));
  std::vector<uint8_t> part(6);
  CUDA_MEMCPY2D out{};
  out.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  out.srcDevice = device;
  out.srcPitch = pitch;
  out.srcXInBytes = 4;
  out.srcY = 2;
  out.dstMemoryType = CU_MEMORYTYPE_HOST;
  out.dstHost = part.data();
  out.WidthInBytes = 3;
  out.Height = 2;
  EXPECT_OK(cuMemcpy2DAsync_v2(&out, nullptr));
  EXPECT_EQ((std::vector<uint8_t>{25, 26, 27, 35, 36, 37}), part);
  out.WidthInBytes = pitch;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy2DUnaligned_v2(&out));
  out.WidthInBytes = 3;
  out.Height = 9;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&out));
  out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&out));
}

TEST_F(MemoryTest, CopiesOfBoxes) {
  auto values = counting(4 * 3 * 2);
  CUdeviceptr device = upload(values);
  std::vector<uint8_t> part(4);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = device;
  copy.srcPitch = 4;
  copy.srcHeight = 3;
  copy.srcXInBytes = 1;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = part.data();
  copy.dstPitch = 1;
  copy.dstHeight = 2;
  copy.WidthInBytes = 1;
  copy.Height = 2;
  copy.Depth = 2;
  EXPECT_OK(cuMemcpy3D_v2(&copy));
  EXPECT_EQ((std::vector<uint8_t>{6, 10, 18, 22}), part);
  copy.srcHeight = 1;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&copy));
  copy.srcHeight = 3;
  copy.Depth = 3;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DAsync_v2(&copy, nullptr));
}

class VirtualMemoryTest : public MemoryTest {
 protected:
  static CUmemAllocationProp properties() {
    CUmemAllocationProp wanted{};
    wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    return wanted;
  }
  static CUmemGenericAllocationHandle create(size_t size) {
    CUmemGenericAllocationHandle handle = 0;
    auto wanted = properties();
    EXPECT_OK(cuMemCreate(&handle, size, &wanted, 0));
    return handle;
  }
  static CUresult allow(CUdeviceptr address, size_t size, CUmemAccess_flags flags) {
    CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    return cuMemSetAccess(address, size, &access, 1);
  }
};

TEST_F(VirtualMemoryTest, AHintIsHonouredWhereItIsFree) {
  size_t granularity = 0;
  auto wanted = properties();
  ASSERT_OK(cuMemGetAllocationGranularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  ASSERT_EQ(kGranule, granularity);
  CUdeviceptr before = allocate(3 * kGranule);
  ASSERT_OK(cuMemFree_v2(before));
  CUdeviceptr placed = 0;
  ASSERT_OK(cuMemAddressReserve(&placed, 4 * kGranule, 0, before, 0));
  EXPECT_EQ(before, placed);
  CUdeviceptr other = 0;
  ASSERT_OK(cuMemAddressReserve(&other, kGranule, 0, before + kGranule, 0));
  EXPECT_NE(before + kGranule, other);
  EXPECT_NE(0u, other);
  CUdeviceptr large = allocate(3 * kGranule);
  EXPECT_TRUE(large >= placed + 4 * kGranule || large + 3 * kGranule <= placed);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&other, 4096, 0, 0, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(placed, kGranule));
  EXPECT_OK(cuMemAddressFree(placed, 4 * kGranule));
  EXPECT_OK(cuMemAddressFree(other, kGranule));
}

TEST_F(VirtualMemoryTest, MappedMemoryNeedsAccessAndCanBeSeenTwice) {
  CUdeviceptr space = 0;
  ASSERT_OK(cuMemAddressReserve(&space, 4 * kGranule, 0, 0, 0));
  auto one = create(kGranule);
  auto two = create(kGranule);
  uint32_t value = 0;
  ASSERT_OK(cuMemMap(space, kGranule, 0, one, 0));
  ASSERT_OK(cuMemMap(space + kGranule, kGranule, 0, two, 0));
  ASSERT_OK(cuMemMap(space + 2 * kGranule, kGranule, 0, one, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemMap(space, kGranule, 0, two, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&value, space, 4));
  ASSERT_OK(allow(space, 3 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  unsigned long long flags = 0;
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  EXPECT_OK(cuMemGetAccess(&flags, &here, space));
  EXPECT_EQ(3u, flags);
  // A set over the border of two mappings, seen through the second mapping of the first.
  EXPECT_OK(cuMemsetD32_v2(space + kGranule - 8, 42, 4));
  EXPECT_EQ(42u, word(space + 3 * kGranule - 4));
  EXPECT_EQ(42u, word(space + kGranule + 4));
  EXPECT_NE(0u, word(space));
  CUmemGenericAllocationHandle again = 0;
  EXPECT_OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(space + kGranule)));
  EXPECT_EQ(two, again);
  EXPECT_OK(cuMemRelease(again));
  EXPECT_OK(cuMemRelease(one));
  EXPECT_OK(cuMemRelease(two));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemRelease(two));
  EXPECT_EQ(42u, word(space + kGranule));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(space, kGranule / 2));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(space, 4 * kGranule));
  EXPECT_OK(cuMemUnmap(space, 3 * kGranule));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&value, space, 4));
  EXPECT_OK(cuMemAddressFree(space, 4 * kGranule));
}

TEST_F(VirtualMemoryTest, PhysicalMemoryCounts) {
  size_t before = 0;
  size_t after = 0;
  size_t total = 0;
  ASSERT_OK(cuMemGetInfo_v2(&before, &total));
  auto handle = create(4 * kGranule);
  ASSERT_OK(cuMemGetInfo_v2(&after, &total));
  EXPECT_EQ(before - 4 * kGranule, after);
  EXPECT_OK(cuMemRelease(handle));
  ASSERT_OK(cuMemGetInfo_v2(&after, &total));
  EXPECT_EQ(before, after);
  auto wanted = properties();
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 4096, &wanted, 0));
  wanted.location.id = 5;
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&handle, kGranule, &wanted, 0));
}

}  // namespace
}  // namespace simcuda::test
