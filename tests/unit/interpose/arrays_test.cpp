// Arrays and their copies against a driver of our own, which has every array's copies counted.
#include "interpose/model/arrays.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace gpusnap::arrays_test {

namespace {

constexpr uint64_t kGranule = 2 << 20;

struct FakeDevice {
  uint64_t next = 0x7000'0000'0000;
  std::map<uint64_t, uint64_t> mapped;  // address -> size
  bool full = false;
  std::vector<CUDA_MEMCPY3D> copies;
} device;

CUcontext context_of(uint64_t number) {
  return reinterpret_cast<CUcontext>(number);
}
CUarray array_of(uint64_t number) {
  return reinterpret_cast<CUarray>(number);
}
CUmipmappedArray mipmapped_of(uint64_t number) {
  return reinterpret_cast<CUmipmappedArray>(number);
}

class ArraysTest : public ::testing::Test {
 protected:
  ArraysTest() {
    device = {};
    driver_.cuCtxGetDevice = [](CUdevice* out) { return *out = 0, CUDA_SUCCESS; };
    driver_.cuCtxGetCurrent = [](CUcontext* out) { return *out = nullptr, CUDA_SUCCESS; };
    driver_.cuCtxPushCurrent_v2 = [](CUcontext) { return CUDA_SUCCESS; };
    driver_.cuCtxPopCurrent_v2 = [](CUcontext*) { return CUDA_SUCCESS; };
    driver_.cuMemGetAllocationGranularity = [](size_t* out, const CUmemAllocationProp*,
                                               CUmemAllocationGranularity_flags) {
      return *out = kGranule, CUDA_SUCCESS;
    };
    driver_.cuMemAddressReserve = [](CUdeviceptr* out, size_t size, size_t, CUdeviceptr,
                                     unsigned long long) {
      *out = device.next;
      device.next += size + kGranule;
      return CUDA_SUCCESS;
    };
    driver_.cuMemAddressFree = [](CUdeviceptr, size_t) { return CUDA_SUCCESS; };
    driver_.cuMemCreate = [](CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*,
                             unsigned long long) {
      return device.full ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    };
    driver_.cuMemRelease = [](CUmemGenericAllocationHandle) { return CUDA_SUCCESS; };
    driver_.cuMemMap = [](CUdeviceptr address, size_t size, size_t, CUmemGenericAllocationHandle,
                          unsigned long long) {
      device.mapped[address] = size;
      return CUDA_SUCCESS;
    };
    driver_.cuMemUnmap = [](CUdeviceptr address, size_t) {
      return device.mapped.erase(address) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    };
    driver_.cuMemSetAccess = [](CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
      return CUDA_SUCCESS;
    };
    driver_.cuGetErrorName = [](CUresult, const char** name) {
      return *name = "A_NAME", CUDA_SUCCESS;
    };
    driver_.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
    driver_.cuMemcpy3DAsync_v2 = [](const CUDA_MEMCPY3D* copy, CUstream) {
      device.copies.push_back(*copy);
      return CUDA_SUCCESS;
    };
    driver_.cuMipmappedArrayGetLevel = [](CUarray* out, CUmipmappedArray array, unsigned level) {
      *out = array_of(reinterpret_cast<uint64_t>(array) + level);
      return CUDA_SUCCESS;
    };
  }
  static CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth,
                                       unsigned flags = 0) {
    return {width, height, depth, CU_AD_FORMAT_HALF, 2, flags};
  }
  size_t ranges() const { return memory_.ranges().size(); }

  Driver driver_{};
  MemoryMap memory_;
  Arrays arrays_{driver_, memory_};
};

TEST_F(ArraysTest, CopiesAreRangesOfTheMap) {
  arrays_.add(array_of(1), shape(10, 3, 0), context_of(7));
  EXPECT_EQ(ranges(), 0u) << "not before a cut";
  ASSERT_TRUE(arrays_.make_copies().ok());
  ASSERT_EQ(ranges(), 1u);
  const MemoryRange& range = memory_.ranges().begin()->second;
  EXPECT_EQ(range.kind, MemoryKind::kArray);
  EXPECT_EQ(range.size, 512u) << "three rows of 64 bytes, rounded";
  EXPECT_EQ(range.context, 7u);
  EXPECT_EQ(range.identity.ordinal, 1u);
  EXPECT_EQ(arrays_.copy_of(1, 512), range.address);
  EXPECT_EQ(arrays_.copy_of(1, 511), 0u);
  EXPECT_EQ(arrays_.copy_of(2, 512), 0u);
  EXPECT_EQ(arrays_.own_bytes(context_of(7)), kGranule);
  ASSERT_TRUE(arrays_.make_copies().ok());
  EXPECT_EQ(device.mapped.size(), 1u) << "it is kept";
}

TEST_F(ArraysTest, EveryLevelIsCopiedWhole) {
  arrays_.add(mipmapped_of(100), shape(8, 4, 0), 9, context_of(7));
  ASSERT_TRUE(arrays_.make_copies().ok());
  ASSERT_TRUE(arrays_.move(Arrays::Direction::kToCopies, context_of(7), nullptr).ok());
  ASSERT_EQ(device.copies.size(), 4u);
  const uint64_t sizes[4][2] = {{8, 4}, {4, 2}, {2, 1}, {1, 1}};
  std::set<uint64_t> places;
  for (uint64_t level = 0; level < 4; ++level) {
    const CUDA_MEMCPY3D& copy = device.copies[level];
    EXPECT_EQ(copy.srcMemoryType, CU_MEMORYTYPE_ARRAY);
    EXPECT_EQ(copy.srcArray, array_of(100 + level));
    EXPECT_EQ(copy.WidthInBytes, sizes[level][0] * 4);
    EXPECT_EQ(copy.Height, sizes[level][1]);
    EXPECT_EQ(copy.Depth, 1u);
    EXPECT_GE(copy.dstPitch, copy.WidthInBytes);
    places.insert(copy.dstDevice);
    EXPECT_LE(copy.dstDevice + copy.dstPitch * copy.dstHeight,
              memory_.ranges().begin()->second.end());
  }
  EXPECT_EQ(places.size(), 4u);
  device.copies.clear();
  ASSERT_TRUE(arrays_.move(Arrays::Direction::kFromCopies, context_of(7), nullptr).ok());
  EXPECT_EQ(device.copies[1].dstArray, array_of(101));
  EXPECT_EQ(device.copies[1].srcDevice, *std::next(places.begin()));
  device.copies.clear();
  ASSERT_TRUE(arrays_.move(Arrays::Direction::kToCopies, context_of(8), nullptr).ok());
  EXPECT_TRUE(device.copies.empty()) << "of another context";
}

TEST_F(ArraysTest, LayersDoNotHalve) {
  arrays_.add(mipmapped_of(100), shape(4, 0, 6, CUDA_ARRAY3D_LAYERED), 2, context_of(7));
  ASSERT_TRUE(arrays_.make_copies().ok());
  ASSERT_TRUE(arrays_.move(Arrays::Direction::kToCopies, context_of(7), nullptr).ok());
  ASSERT_EQ(device.copies.size(), 2u);
  EXPECT_EQ(device.copies[1].WidthInBytes, 8u);
  EXPECT_EQ(device.copies[1].Height, 1u);
  EXPECT_EQ(device.copies[1].Depth, 6u);
}

TEST_F(ArraysTest, HandlesAreKnownByTheOrderOfArrays) {
  arrays_.add(array_of(5), shape(4, 4, 0), context_of(7));
  arrays_.add(mipmapped_of(6), shape(4, 4, 0), 2, context_of(7));
  arrays_.add_level(array_of(9), mipmapped_of(6), 1);
  const uint64_t first = arrays_.known(array_of(5));
  const uint64_t level = arrays_.known(array_of(9));
  EXPECT_NE(first, 0u);
  EXPECT_NE(level, arrays_.known(mipmapped_of(6)));
  EXPECT_EQ(arrays_.known(array_of(77)), 0u);
  Arrays others(driver_, memory_);
  others.add(array_of(50), shape(4, 4, 0), context_of(70));
  others.add(mipmapped_of(60), shape(4, 4, 0), 2, context_of(70));
  others.add_level(array_of(90), mipmapped_of(60), 1);
  EXPECT_EQ(others.known(array_of(50)), first);
  EXPECT_EQ(others.known(array_of(90)), level);
  arrays_.remove(mipmapped_of(6));
  EXPECT_EQ(arrays_.known(array_of(9)), 0u);
  arrays_.add(array_of(9), shape(4, 4, 0), context_of(7));
  EXPECT_NE(arrays_.known(array_of(9)), level) << "another array under the handle";
}

TEST_F(ArraysTest, SparseArraysHoldNothing) {
  arrays_.add(array_of(1), shape(256, 256, 0, CUDA_ARRAY3D_SPARSE), context_of(7));
  arrays_.add(mipmapped_of(2), shape(256, 256, 0, CUDA_ARRAY3D_SPARSE), 4, context_of(7));
  ASSERT_TRUE(arrays_.make_copies().ok());
  EXPECT_EQ(ranges(), 0u);
  ASSERT_TRUE(arrays_.move(Arrays::Direction::kToCopies, context_of(7), nullptr).ok());
  EXPECT_TRUE(device.copies.empty());
  EXPECT_EQ(arrays_.number_of(array_of(1)), 1u);
  EXPECT_EQ(arrays_.number_of(mipmapped_of(2)), 2u);
  EXPECT_EQ(arrays_.number_of(array_of(2)), 0u);
}

TEST_F(ArraysTest, CopiesOutliveTheirArraysUntilTheNextCut) {
  arrays_.add(array_of(1), shape(10, 3, 0), context_of(7));
  ASSERT_TRUE(arrays_.make_copies().ok());
  arrays_.remove(array_of(1));
  EXPECT_EQ(ranges(), 1u) << "a snapshot may be of it";
  EXPECT_EQ(device.mapped.size(), 1u);
  ASSERT_TRUE(arrays_.make_copies().ok());
  EXPECT_EQ(ranges(), 0u);
  EXPECT_TRUE(device.mapped.empty());
}

TEST_F(ArraysTest, GivesCopiesAway) {
  arrays_.add(array_of(1), shape(10, 3, 0), context_of(7));
  arrays_.add(array_of(2), shape(10, 3, 0), context_of(8));
  ASSERT_TRUE(arrays_.make_copies().ok());
  EXPECT_EQ(arrays_.take_copies(context_of(7)).size(), 1u);
  EXPECT_EQ(ranges(), 1u);
  EXPECT_EQ(arrays_.copy_of(1, 512), 0u);
  ASSERT_TRUE(arrays_.make_copies().ok());
  EXPECT_NE(arrays_.copy_of(1, 512), 0u) << "made again";
  EXPECT_EQ(arrays_.forget_context(context_of(8)).size(), 1u);
  EXPECT_EQ(arrays_.known(array_of(2)), 0u);
  EXPECT_EQ(arrays_.contexts(), std::vector<CUcontext>{context_of(7)});
  EXPECT_EQ(arrays_.take_copies({}).size(), 1u);
  EXPECT_EQ(ranges(), 0u);
}

TEST_F(ArraysTest, NoRoomForACopyIsNoCheckpoint) {
  arrays_.add(array_of(1), shape(10, 3, 0), context_of(7));
  device.full = true;
  const Status status = arrays_.make_copies();
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_EQ(ranges(), 0u);
}

TEST_F(ArraysTest, WhatIsNotFollowed) {
  auto wanted = shape(4, 4, 0);
  EXPECT_EQ(Arrays::not_followed(wanted), "");
  wanted.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  EXPECT_NE(Arrays::not_followed(wanted), "");
  wanted = shape(4, 4, 0);
  wanted.Format = static_cast<CUarray_format>(0xb0);  // of video
  EXPECT_NE(Arrays::not_followed(wanted), "");
}

}  // namespace
}  // namespace gpusnap::arrays_test
