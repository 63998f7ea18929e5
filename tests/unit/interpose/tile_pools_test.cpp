// Windows into memory for tiles, on simcuda.
#include "interpose/model/tile_pools.h"

#include <gtest/gtest.h>

#include <numeric>

namespace gpusnap::tile_pools_test {

namespace {

constexpr uint64_t kPool = 66 << 20;  // more tiles than are mapped by one call
constexpr uint64_t kTile = TileMap::kTileBytes;
constexpr unsigned kSide = 128;

class TilePoolsTest : public ::testing::Test {
 protected:
  TilePoolsTest() {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    const char* missing = nullptr;
    const Driver* driver = load_driver(&missing);
    EXPECT_NE(driver, nullptr) << missing;
    driver_ = *driver;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    EXPECT_EQ(cuMemCreate(&pool_, kPool, &properties, 0), CUDA_SUCCESS);
  }
  ~TilePoolsTest() override { EXPECT_EQ(cuMemRelease(pool_), CUDA_SUCCESS); }

  // The program's, of elements of 4 bytes.
  CUarray map_array(uint64_t tile) const {
    const CUDA_ARRAY3D_DESCRIPTOR shape{
        kSide, kSide, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SPARSE};
    CUarray array = nullptr;
    EXPECT_EQ(cuArray3DCreate_v2(&array, &shape), CUDA_SUCCESS);
    CUarrayMapInfo info{};
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresource.sparseLevel = {0, 0, 0, 0, 0, kSide, kSide, 1};
    info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    info.memHandle.memHandle = pool_;
    info.offset = tile * kTile;
    info.deviceBitMask = 1;
    EXPECT_EQ(cuMemMapArrayAsync(&info, 1, nullptr), CUDA_SUCCESS);
    return array;
  }
  static CUDA_MEMCPY2D copy_of(size_t row_bytes, size_t rows) {
    CUDA_MEMCPY2D copy{};
    copy.WidthInBytes = copy.srcPitch = copy.dstPitch = row_bytes;
    copy.Height = rows;
    return copy;
  }
  static std::vector<uint32_t> read(CUarray array, size_t row_bytes, size_t rows) {
    std::vector<uint32_t> words(row_bytes * rows / 4);
    CUDA_MEMCPY2D copy = copy_of(row_bytes, rows);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = words.data();
    EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
    return words;
  }
  static void write(CUarray array, size_t row_bytes, size_t rows,
                    const std::vector<uint32_t>& words) {
    CUDA_MEMCPY2D copy = copy_of(row_bytes, rows);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = words.data();
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    EXPECT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  }
  Status open() { return pools_.open(pool_, kPool, 0, context_, &windows_); }

  CUcontext context_ = nullptr;
  CUmemGenericAllocationHandle pool_ = 0;
  Driver driver_{};
  TilePools pools_{driver_};
  std::vector<CUarray> windows_;
};

TEST_F(TilePoolsTest, AWindowShowsAllThatIsInAPool) {
  std::vector<uint32_t> words(kSide * kSide);
  std::iota(words.begin(), words.end(), 1);
  const CUarray before = map_array(0), array = map_array(kPool / kTile - 1);
  write(before, kSide * 4, kSide, words);
  const Status status = open();
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(windows_.size(), 1u);
  EXPECT_EQ(read(before, kSide * 4, kSide), words) << "opening changes nothing";
  const CUDA_ARRAY3D_DESCRIPTOR shape = TilePools::window_shape(kPool, 0);
  const size_t row_bytes = shape.Width * 16;
  EXPECT_EQ(row_bytes * shape.Height, kPool);
  write(array, kSide * 4, kSide, words);
  const std::vector<uint32_t> saved = read(windows_.front(), row_bytes, shape.Height);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS) << "it is mapped nowhere now";
  write(windows_.front(), row_bytes, shape.Height, std::vector<uint32_t>(kPool / 4, 9));
  const CUarray again = map_array(kPool / kTile - 1);
  EXPECT_NE(read(again, kSide * 4, kSide), words);
  write(windows_.front(), row_bytes, shape.Height, saved);
  EXPECT_EQ(read(again, kSide * 4, kSide), words);
  EXPECT_EQ(read(before, kSide * 4, kSide), words);
  pools_.close(context_, windows_);
  EXPECT_EQ(cuArrayDestroy(again), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayDestroy(before), CUDA_SUCCESS);
}

TEST_F(TilePoolsTest, ADriverThatShowsSomethingElseIsRefused) {
  // This driver maps tiles elsewhere when a call has one of them.
  driver_.cuMemMapArrayAsync = [](CUarrayMapInfo* infos, unsigned count, CUstream stream) {
    if (count == 1) infos->offset += kTile;
    return cuMemMapArrayAsync(infos, count, stream);
  };
  EXPECT_EQ(open().message(), "this driver does not show the same memory in two sparse arrays");
  EXPECT_TRUE(windows_.empty());
  driver_.cuMemMapArrayAsync = [](CUarrayMapInfo*, unsigned count, CUstream) {
    return count == 1 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
  };
  EXPECT_EQ(open().code(), Code::kUnsupported);
  driver_.cuArray3DCreate_v2 = [](CUarray*, const CUDA_ARRAY3D_DESCRIPTOR*) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  };
  EXPECT_EQ(open().code(), Code::kNoSpace);
  driver_.cuMemMapArrayAsync = nullptr;
  EXPECT_EQ(open().code(), Code::kUnsupported);
  EXPECT_TRUE(windows_.empty());
}

TEST_F(TilePoolsTest, LargePoolsHaveSeveralWindows) {
  constexpr uint64_t kSize = (uint64_t{1} << 30) + kPool;
  const auto first = TilePools::window_shape(kSize, 0), second = TilePools::window_shape(kSize, 1);
  EXPECT_EQ((first.Width * first.Height + second.Width * second.Height) * 16, kSize);
  EXPECT_EQ(second.Height, 64u * (kPool >> 21));
}

TEST_F(TilePoolsTest, EndsWhenItIsNeitherHeldNorMapped) {
  const auto window = reinterpret_cast<CUarray>(0x10);
  pools_.tiles.add(4, {kSide, kSide, 1}, reinterpret_cast<uint64_t>(context_));
  pools_.add(77, context_, {window});
  ASSERT_NE(pools_.find(77), nullptr);
  const uint64_t number = pools_.find(77)->number;
  pools_.tiles.map(4, {0, 0, 0, 0, 0, {kSide, kSide, 1}}, number);
  EXPECT_TRUE(pools_.take_ended().empty());
  pools_.find(77)->held = false;
  EXPECT_EQ(pools_.find(77), nullptr) << "the driver may give the handle again";
  EXPECT_TRUE(pools_.take_ended().empty());
  pools_.add(77, context_, {});
  EXPECT_EQ(pools_.find(77)->number, number + 1);
  pools_.tiles.remove(4);
  const std::vector<TilePool> ended = pools_.take_ended();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended.front().windows, std::vector<CUarray>{window});
  EXPECT_EQ(pools_.numbered(number), nullptr);
}

TEST_F(TilePoolsTest, ContextsTakeTheirWindowsAlong) {
  const auto other = reinterpret_cast<CUcontext>(0x20);
  pools_.tiles.add(4, {kSide, kSide, 1}, reinterpret_cast<uint64_t>(other));
  pools_.add(77, other, {});
  pools_.tiles.map(4, {0, 0, 0, 0, 0, {kSide, kSide, 1}}, 1);
  pools_.find(77)->held = false;
  EXPECT_FALSE(pools_.forget_context(other)) << "the array was its last place";
  pools_.add(78, other, {});
  EXPECT_FALSE(pools_.forget_context(context_));
  EXPECT_TRUE(pools_.forget_context(other));
  EXPECT_FALSE(pools_.forget_context(other));
}

}  // namespace
}  // namespace gpusnap::tile_pools_test
