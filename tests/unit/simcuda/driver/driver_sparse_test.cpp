// Sparse arrays, and the memory that is mapped into them.
#include <numeric>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

constexpr uint64_t kTile = 65536;
constexpr uint64_t kPool = uint64_t{2} << 20;

CUDA_ARRAY3D_DESCRIPTOR sparse(size_t width, size_t height, size_t depth, unsigned channels = 1,
                               unsigned flags = 0) {
  return {width, height, depth, CU_AD_FORMAT_UNSIGNED_INT32, channels, flags | CUDA_ARRAY3D_SPARSE};
}

class SparseTest : public DriverTest {
 protected:
  static CUarray make(const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
    CUarray array = nullptr;
    EXPECT_OK(cuArray3DCreate_v2(&array, &wanted));
    return array;
  }
  static CUmemGenericAllocationHandle make_pool() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    CUmemGenericAllocationHandle pool = 0;
    EXPECT_OK(cuMemCreate(&pool, kPool, &properties, 0));
    return pool;
  }
  static CUarrayMapInfo box(CUarray array, unsigned x, unsigned y, unsigned width,
                            unsigned height) {
    CUarrayMapInfo info{};
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresource.sparseLevel = {0, 0, x, y, 0, width, height, 1};
    info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    info.deviceBitMask = 1;
    return info;
  }
  static CUarrayMapInfo tail(CUmipmappedArray array, uint64_t size) {
    CUarrayMapInfo info{};
    info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    info.resource.mipmap = array;
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    info.subresource.miptail.size = size;
    info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    info.deviceBitMask = 1;
    return info;
  }
  static CUarrayMapInfo to(CUarrayMapInfo info, CUmemGenericAllocationHandle pool,
                           uint64_t offset = 0) {
    info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    info.memHandle.memHandle = pool;
    info.offset = offset;
    return info;
  }
  static CUresult map(CUarrayMapInfo info, CUstream stream = nullptr) {
    return cuMemMapArrayAsync(&info, 1, stream);
  }
  // Words between the host, packed, and a box of an array that begins at x, y, z.
  static CUDA_MEMCPY3D words(CUarray array, size_t x, size_t y, size_t z, size_t width,
                             size_t height, size_t depth, bool in, uint32_t* host) {
    CUDA_MEMCPY3D copy{};
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes = width * 4;
    copy.srcHeight = copy.dstHeight = copy.Height = height;
    copy.Depth = depth;
    (in ? copy.srcMemoryType : copy.dstMemoryType) = CU_MEMORYTYPE_HOST;
    (in ? copy.dstMemoryType : copy.srcMemoryType) = CU_MEMORYTYPE_ARRAY;
    (in ? copy.dstArray : copy.srcArray) = array;
    (in ? copy.dstXInBytes : copy.srcXInBytes) = x * 4;
    (in ? copy.dstY : copy.srcY) = y;
    (in ? copy.dstZ : copy.srcZ) = z;
    if (in) {
      copy.srcHost = host;
    } else {
      copy.dstHost = host;
    }
    return copy;
  }
  static void write(CUarray array, size_t x, size_t y, size_t z, size_t width, size_t height,
                    size_t depth, std::vector<uint32_t> host) {
    const auto copy = words(array, x, y, z, width, height, depth, true, host.data());
    EXPECT_OK(cuMemcpy3D_v2(&copy));
  }
  static std::vector<uint32_t> read(CUarray array, size_t x, size_t y, size_t z, size_t width,
                                    size_t height, size_t depth = 1) {
    std::vector<uint32_t> host(width * height * depth);
    const auto copy = words(array, x, y, z, width, height, depth, false, host.data());
    EXPECT_OK(cuMemcpy3D_v2(&copy));
    return host;
  }
  static std::vector<uint32_t> counted(size_t count, uint32_t from) {
    std::vector<uint32_t> values(count);
    std::iota(values.begin(), values.end(), from);
    return values;
  }
};

TEST_F(SparseTest, TilesHaveTheStandardShapes) {
  const struct {
    CUarray_format format;
    unsigned channels, flat[3], deep[3];
  } known[] = {
      {CU_AD_FORMAT_UNSIGNED_INT8, 1, {256, 256, 1}, {64, 32, 32}},
      {CU_AD_FORMAT_HALF, 1, {256, 128, 1}, {32, 32, 32}},
      {CU_AD_FORMAT_FLOAT, 1, {128, 128, 1}, {32, 32, 16}},
      {CU_AD_FORMAT_FLOAT, 2, {128, 64, 1}, {32, 16, 16}},
      {CU_AD_FORMAT_FLOAT, 4, {64, 64, 1}, {16, 16, 16}},
  };
  for (const auto& one : known) {
    for (const size_t depth : {size_t{0}, size_t{64}}) {
      CUDA_ARRAY3D_DESCRIPTOR wanted{512,        512,          depth,
                                     one.format, one.channels, CUDA_ARRAY3D_SPARSE};
      CUarray array = make(wanted);
      CUDA_ARRAY_SPARSE_PROPERTIES found{};
      EXPECT_OK(cuArrayGetSparseProperties(&found, array));
      const unsigned(&tile)[3] = depth == 0 ? one.flat : one.deep;
      EXPECT_EQ(found.tileExtent.width, tile[0]);
      EXPECT_EQ(found.tileExtent.height, tile[1]);
      EXPECT_EQ(found.tileExtent.depth, tile[2]);
      EXPECT_EQ(found.miptailSize, 0u);
      EXPECT_EQ(found.flags, 0u);
      EXPECT_OK(cuArrayDestroy(array));
    }
  }
}

TEST_F(SparseTest, SmallLevelsAreTheTail) {
  CUmipmappedArray levels = nullptr;
  auto wanted = sparse(512, 256, 0);
  EXPECT_OK(cuMipmappedArrayCreate(&levels, &wanted, 10));
  CUDA_ARRAY_SPARSE_PROPERTIES found{};
  EXPECT_OK(cuMipmappedArrayGetSparseProperties(&found, levels));
  EXPECT_EQ(found.miptailFirstLevel, 2u) << "128 x 64 is less than 128 x 128";
  EXPECT_EQ(found.miptailSize, kTile);
  EXPECT_EQ(found.flags, 0u);
  CUarray level = nullptr;
  EXPECT_OK(cuMipmappedArrayGetLevel(&level, levels, 3));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuArrayGetSparseProperties(&found, level));
  const CUmemGenericAllocationHandle pool = make_pool();
  EXPECT_OK(map(to(tail(levels, kTile), pool, kTile)));
  const auto values = counted(64 * 32, 1);
  write(level, 0, 0, 0, 64, 32, 1, values);
  EXPECT_OK(map(tail(levels, kTile)));
  EXPECT_NE(read(level, 0, 0, 0, 64, 32), values);
  EXPECT_OK(map(to(tail(levels, kTile), pool, kTile)));
  EXPECT_EQ(read(level, 0, 0, 0, 64, 32), values);
  EXPECT_OK(cuMipmappedArrayDestroy(levels));

  wanted = sparse(64, 64, 3, 1, CUDA_ARRAY3D_LAYERED);
  CUarray small = make(wanted);
  EXPECT_OK(cuArrayGetSparseProperties(&found, small));
  EXPECT_EQ(found.flags, unsigned{CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL});
  EXPECT_EQ(found.miptailSize, kTile) << "all layers";
  EXPECT_OK(cuArrayDestroy(small));
  EXPECT_OK(cuMemRelease(pool));
}

TEST_F(SparseTest, ContentsAreThoseOfTheMemory) {
  CUarray first = make(sparse(256, 384, 0)), second = make(sparse(256, 256, 0));
  const CUmemGenericAllocationHandle pool = make_pool();
  // Tiles take memory row by row.
  EXPECT_OK(map(to(box(first, 0, 0, 256, 256), pool, kTile)));
  const auto values = counted(256 * 256, 5);
  write(first, 0, 0, 0, 256, 256, 1, values);
  EXPECT_EQ(read(first, 0, 0, 0, 256, 256), values) << "across tiles";
  EXPECT_EQ(read(first, 127, 127, 0, 2, 2),
            (std::vector<uint32_t>{5 + 127 * 256 + 127, 5 + 127 * 256 + 128, 5 + 128 * 256 + 127,
                                   5 + 128 * 256 + 128}));
  EXPECT_OK(map(to(box(second, 0, 0, 128, 128), pool, 4 * kTile)));
  EXPECT_EQ(read(second, 0, 0, 0, 128, 128), read(first, 128, 128, 0, 128, 128))
      << "the same memory in two arrays";
  write(second, 3, 3, 0, 1, 1, 1, {77});
  EXPECT_EQ(read(first, 131, 131, 0, 1, 1), std::vector<uint32_t>{77});
  EXPECT_OK(map(box(first, 128, 128, 128, 128)));
  EXPECT_NE(read(first, 131, 131, 0, 1, 1), std::vector<uint32_t>{77});
  EXPECT_EQ(read(second, 3, 3, 0, 1, 1), std::vector<uint32_t>{77});
  EXPECT_OK(cuMemRelease(pool));
  EXPECT_EQ(read(second, 3, 3, 0, 1, 1), std::vector<uint32_t>{77}) << "it lives while mapped";
  EXPECT_OK(cuArrayDestroy(first));
  EXPECT_OK(cuArrayDestroy(second));
}

TEST_F(SparseTest, BoxesAndLayers) {
  CUarray deep = make(sparse(64, 64, 32)),
          layers = make(sparse(128, 128, 3, 1, CUDA_ARRAY3D_LAYERED));
  const CUmemGenericAllocationHandle pool = make_pool();
  auto info = to(box(deep, 32, 0, 32, 64), pool);
  info.subresource.sparseLevel.extentDepth = 32;
  EXPECT_OK(map(info));
  const auto values = counted(32 * 64 * 32, 9);
  write(deep, 32, 0, 0, 32, 64, 32, values);
  EXPECT_EQ(read(deep, 32, 0, 0, 32, 64, 32), values);
  info = to(box(layers, 0, 0, 128, 128), pool);
  info.subresource.sparseLevel.layer = 2;
  EXPECT_OK(map(info));
  EXPECT_EQ(read(layers, 0, 0, 2, 1, 1), read(deep, 32, 0, 0, 1, 1));
  info.subresource.sparseLevel.layer = 3;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, map(info));
  EXPECT_OK(cuArrayDestroy(deep));
  EXPECT_OK(cuArrayDestroy(layers));
  EXPECT_OK(cuMemRelease(pool));
}

TEST_F(SparseTest, MapsInTheOrderOfTheStream) {
  CUarray array = make(sparse(128, 128, 0));
  const CUmemGenericAllocationHandle pool = make_pool();
  EXPECT_OK(map(to(box(array, 0, 0, 128, 128), pool)));
  write(array, 0, 0, 0, 1, 1, 1, {1});
  CUstream stream = nullptr;
  EXPECT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  uint32_t *before = nullptr, *after = nullptr;
  EXPECT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&before), 4, 0));
  EXPECT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&after), 4, 0));
  const auto first = words(array, 0, 0, 0, 1, 1, 1, false, before);
  const auto last = words(array, 0, 0, 0, 1, 1, 1, false, after);
  EXPECT_OK(cuMemcpy3DAsync_v2(&first, stream));
  EXPECT_OK(map(to(box(array, 0, 0, 128, 128), pool, kTile), stream));
  EXPECT_OK(cuMemcpy3DAsync_v2(&last, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(*before, 1u);
  EXPECT_NE(*after, 1u);
  EXPECT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, map(box(array, 0, 0, 128, 128), stream));
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
  EXPECT_OK(cuStreamDestroy_v2(stream));
  EXPECT_OK(cuMemFreeHost(before));
  EXPECT_OK(cuMemFreeHost(after));
  EXPECT_OK(cuArrayDestroy(array));
  EXPECT_OK(cuMemRelease(pool));
}

TEST_F(SparseTest, WhatCannotBe) {
  CUarray array = make(sparse(300, 256, 0)), plain = make({256, 256, 0, CU_AD_FORMAT_FLOAT, 1, 0});
  CUDA_ARRAY_SPARSE_PROPERTIES found{};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuArrayGetSparseProperties(&found, plain));
  const auto line = sparse(300, 0, 0);
  CUarray none = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&none, &line));
  auto later = sparse(300, 256, 0);
  later.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuArray3DCreate_v2(&none, &later));
  const CUmemGenericAllocationHandle pool = make_pool();
  CUdeviceptr space = 0;
  EXPECT_OK(cuMemAddressReserve(&space, kPool, 0, 0, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemMap(space, kPool, 0, pool, 0));
  EXPECT_OK(cuMemAddressFree(space, kPool));
  for (auto wrong :
       {box(array, 1, 0, 128, 128), box(array, 0, 0, 127, 128), box(array, 0, 256, 128, 128),
        box(array, 0, 0, 0, 128), box(plain, 0, 0, 128, 128)}) {
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, map(to(wrong, pool)));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, map(wrong));
  }
  const auto right = box(array, 256, 0, 44, 256);
  EXPECT_OK(map(to(right, pool, 30 * kTile))) << "up to the edge";
  EXPECT_OK(map(to(box(array, 256, 0, 128, 256), pool))) << "whole tiles across it";
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, map(to(right, pool, 31 * kTile)));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, map(to(right, pool, 4096)));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, map(to(right, pool + 1)));
  auto elsewhere = right;
  elsewhere.deviceBitMask = 2;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, map(elsewhere));
  EXPECT_OK(cuArrayDestroy(array));
  EXPECT_OK(cuArrayDestroy(plain));
  EXPECT_OK(cuMemRelease(pool));
}

}  // namespace
}  // namespace simcuda::test
