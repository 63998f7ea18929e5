// Arrays, their copies, and textures and surfaces by their handles.
#include <cstring>
#include <numeric>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

constexpr const char* kImagePtx = R"(
.version 7.0
.target sm_60
.address_size 64
.visible .entry take(.param .u64 texture, .param .u64 out, .param .f32 x, .param .f32 y) {
  .reg .b64 %d<4>; .reg .f32 %f<6>;
  ld.param.u64 %d1, [texture]; ld.param.u64 %d2, [out];
  ld.param.f32 %f0, [x]; ld.param.f32 %f1, [y];
  tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%d1, {%f0, %f1}];
  st.global.f32 [%d2], %f2;
  ret;
}
.visible .entry put(.param .u64 surface, .param .u32 x, .param .u32 y, .param .u32 value) {
  .reg .b64 %d1; .reg .b32 %r<4>;
  ld.param.u64 %d1, [surface]; ld.param.u32 %r0, [x]; ld.param.u32 %r1, [y];
  ld.param.u32 %r2, [value];
  sust.b.2d.b32.trap [%d1, {%r0, %r1}], {%r2};
  ret;
}
)";

constexpr const char* kReferencePtx = R"(
.version 7.0
.target sm_60
.address_size 64
.global .texref from;
.global .surfref to;
.visible .entry move() {
  .reg .b32 %r<8>;
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; mov.u32 %r2, 0;
  tex.1d.v4.u32.s32 {%r3, %r4, %r5, %r6}, [from, {%r0}];
  sust.b.2d.b32.trap [to, {%r1, %r2}], {%r3};
  ret;
}
)";

CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth, unsigned flags = 0) {
  return {width, height, depth, CU_AD_FORMAT_UNSIGNED_INT32, 1, flags};
}

class ArrayTest : public DriverTest {
 protected:
  static CUarray make(const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
    CUarray array = nullptr;
    EXPECT_OK(cuArray3DCreate_v2(&array, &wanted));
    return array;
  }
  // A box of words between the host, packed, and an array.
  static CUDA_MEMCPY3D box(size_t width, size_t height, size_t depth) {
    CUDA_MEMCPY3D copy{};
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes = width * 4;
    copy.srcHeight = copy.dstHeight = copy.Height = height;
    copy.Depth = depth;
    return copy;
  }
  static CUDA_MEMCPY3D into(CUarray array, const uint32_t* from, size_t width, size_t height,
                            size_t depth) {
    CUDA_MEMCPY3D copy = box(width, height, depth);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = from;
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    return copy;
  }
  static CUDA_MEMCPY3D out_of(CUarray array, uint32_t* to, size_t width, size_t height,
                              size_t depth) {
    CUDA_MEMCPY3D copy = box(width, height, depth);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = to;
    return copy;
  }
  static std::vector<uint32_t> counting(size_t count) {
    std::vector<uint32_t> values(count);
    std::iota(values.begin(), values.end(), 100);
    return values;
  }
  static CUDA_RESOURCE_DESC resource(CUarray array) {
    CUDA_RESOURCE_DESC of{};
    of.resType = CU_RESOURCE_TYPE_ARRAY;
    of.res.array.hArray = array;
    return of;
  }
};

TEST_F(ArrayTest, KeepsWhatIsCopiedIntoIt) {
  constexpr unsigned kCubes = CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED;
  const CUDA_ARRAY3D_DESCRIPTOR shapes[] = {shape(5, 0, 0),
                                            shape(5, 3, 0),
                                            shape(5, 3, 4),
                                            shape(5, 3, 4, CUDA_ARRAY3D_LAYERED),
                                            shape(5, 0, 4, CUDA_ARRAY3D_LAYERED),
                                            shape(5, 5, 6, CUDA_ARRAY3D_CUBEMAP),
                                            shape(5, 5, 12, kCubes)};
  for (const auto& wanted : shapes) {
    CUarray array = make(wanted);
    const size_t height = std::max<size_t>(wanted.Height, 1);
    const size_t depth = std::max<size_t>(wanted.Depth, 1);
    const auto values = counting(5 * height * depth);
    const CUDA_MEMCPY3D in = into(array, values.data(), 5, height, depth);
    EXPECT_OK(cuMemcpy3D_v2(&in));
    std::vector<uint32_t> back(values.size());
    const CUDA_MEMCPY3D out = out_of(array, back.data(), 5, height, depth);
    EXPECT_OK(cuMemcpy3D_v2(&out));
    EXPECT_EQ(values, back);
    CUDA_ARRAY3D_DESCRIPTOR known{};
    EXPECT_OK(cuArray3DGetDescriptor_v2(&known, array));
    EXPECT_EQ(0, std::memcmp(&known, &wanted, sizeof known));
    EXPECT_OK(cuArrayDestroy(array));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&out));
  }
}

TEST_F(ArrayTest, PartsOfIt) {
  CUarray array = make(shape(4, 4, 2));
  const auto values = counting(32);
  CUDA_MEMCPY3D in = into(array, values.data(), 4, 4, 2);
  EXPECT_OK(cuMemcpy3D_v2(&in));
  std::vector<uint32_t> part(4);
  CUDA_MEMCPY3D out = out_of(array, part.data(), 2, 2, 1);
  out.srcXInBytes = 8;
  out.srcY = 1;
  out.srcZ = 1;
  EXPECT_OK(cuMemcpy3DAsync_v2(&out, nullptr));
  EXPECT_EQ((std::vector<uint32_t>{values[22], values[23], values[26], values[27]}), part);
  out.srcXInBytes = 12;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&out));
  out.srcXInBytes = 0;
  out.srcZ = 2;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&out));
  EXPECT_OK(cuArrayDestroy(array));
}

TEST_F(ArrayTest, RowsFromAndToEverywhere) {
  CUarray first = make(shape(8, 0, 0));
  CUarray second = make(shape(8, 0, 0));
  const auto values = counting(8);
  CUdeviceptr device = upload(values);
  EXPECT_OK(cuMemcpyHtoA_v2(first, 0, values.data(), 32));
  EXPECT_OK(cuMemcpyDtoA_v2(first, 4, device, 8));
  EXPECT_OK(cuMemcpyAtoA_v2(second, 0, first, 4, 28));
  EXPECT_OK(cuMemcpyHtoAAsync_v2(second, 28, values.data(), 4, nullptr));
  EXPECT_OK(cuMemcpyAtoD_v2(device, second, 0, 32));
  std::vector<uint32_t> host(8);
  EXPECT_OK(cuMemcpyAtoHAsync_v2(host.data(), second, 0, 32, nullptr));
  const std::vector<uint32_t> want{100, 101, 103, 104, 105, 106, 107, 100};
  EXPECT_EQ(want, host);
  EXPECT_EQ(want, download<uint32_t>(device, 8));
  EXPECT_OK(cuMemcpyAtoH_v2(host.data(), first, 0, 4));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH_v2(host.data(), first, 28, 8));
}

TEST_F(ArrayTest, WhatCannotBe) {
  CUarray array = nullptr;
  for (const auto& wanted :
       {shape(0, 1, 0), shape(4, 0, 4), shape(4, 4, 0, CUDA_ARRAY3D_LAYERED),
        shape(4, 2, 6, CUDA_ARRAY3D_CUBEMAP), shape(4, 4, 12, CUDA_ARRAY3D_CUBEMAP),
        shape(4, 4, 0, CUDA_ARRAY3D_CUBEMAP), shape(4, 0, 6, CUDA_ARRAY3D_CUBEMAP),
        shape(4, 4, 8, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED)}) {
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate_v2(&array, &wanted));
  }
  auto cube = shape(4, 4, 6, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_SPARSE);
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuArray3DCreate_v2(&array, &cube));
  auto large = shape(size_t{1} << 20, size_t{1} << 14, 0);  // 64 GiB
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuArray3DCreate_v2(&array, &large));
}

TEST_F(ArrayTest, TakesMemoryUntilItIsDestroyed) {
  size_t before = 0;
  size_t with = 0;
  size_t after = 0;
  size_t total = 0;
  EXPECT_OK(cuMemGetInfo_v2(&before, &total));
  CUarray array = make(shape(1024, 1024, 0));
  EXPECT_OK(cuMemGetInfo_v2(&with, &total));
  EXPECT_OK(cuArrayDestroy(array));
  EXPECT_OK(cuMemGetInfo_v2(&after, &total));
  EXPECT_EQ(before - with, size_t{4} << 20);
  EXPECT_EQ(before, after);
}

TEST_F(ArrayTest, LevelsHalve) {
  CUmipmappedArray levels = nullptr;
  const auto wanted = shape(8, 4, 0);
  EXPECT_OK(cuMipmappedArrayCreate(&levels, &wanted, 9));
  const size_t sizes[4][2] = {{8, 4}, {4, 2}, {2, 1}, {1, 1}};
  for (unsigned i = 0; i < 4; ++i) {
    CUarray level = nullptr;
    CUDA_ARRAY_DESCRIPTOR known{};
    EXPECT_OK(cuMipmappedArrayGetLevel(&level, levels, i));
    EXPECT_OK(cuArrayGetDescriptor_v2(&known, level));
    EXPECT_EQ(known.Width, sizes[i][0]);
    EXPECT_EQ(known.Height, sizes[i][1]);
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(level));
  }
  CUarray level = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, levels, 4));
  EXPECT_OK(cuMipmappedArrayGetLevel(&level, levels, 0));
  EXPECT_OK(cuMipmappedArrayDestroy(levels));
  CUDA_ARRAY_DESCRIPTOR known{};
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuArrayGetDescriptor_v2(&known, level));
}

TEST_F(ArrayTest, CopiesAreCaptured) {
  CUarray array = make(shape(4, 4, 0));
  const auto values = counting(16);
  CUdeviceptr device = upload(values);
  CUstream stream = nullptr;
  EXPECT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUDA_MEMCPY3D in = box(2, 2, 1);
  in.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  in.srcDevice = device;
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = array;
  in.dstXInBytes = 4;
  in.dstY = 2;
  EXPECT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(cuMemcpy3DAsync_v2(&in, stream));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  EXPECT_OK(cuStreamEndCapture(stream, &graph));
  EXPECT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  std::vector<uint32_t> row(4);
  CUDA_MEMCPY3D out = out_of(array, row.data(), 4, 1, 1);
  out.srcY = 3;
  EXPECT_OK(cuMemcpy3D_v2(&out));
  EXPECT_EQ(row[1], 102u);
  EXPECT_EQ(row[2], 103u);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(ArrayTest, KernelsReadTexturesAndWriteSurfaces) {
  CUmodule module = nullptr;
  CUfunction take = nullptr;
  CUfunction put = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kImagePtx));
  ASSERT_OK(cuModuleGetFunction(&take, module, "take"));
  ASSERT_OK(cuModuleGetFunction(&put, module, "put"));
  CUDA_ARRAY3D_DESCRIPTOR wanted{4, 4, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
  CUarray array = make(wanted);
  CUarray plain = make(shape(4, 4, 0));
  const CUDA_RESOURCE_DESC of = resource(array);
  const CUDA_RESOURCE_DESC of_plain = resource(plain);
  CUsurfObject surface = 0;
  CUtexObject texture = 0;
  CUDA_TEXTURE_DESC description{};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&surface, &of_plain));
  EXPECT_OK(cuSurfObjectCreate(&surface, &of));
  EXPECT_OK(cuTexObjectCreate(&texture, &of, &description, nullptr));
  description.filterMode = CU_TR_FILTER_MODE_LINEAR;
  CUtexObject unfiltered = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuTexObjectCreate(&unfiltered, &of_plain, &description, nullptr));

  uint32_t x = 8;
  uint32_t y = 3;
  const float value = 2.5f;
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  void* to_put[] = {&surface, &x, &y, &bits};
  EXPECT_OK(cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, nullptr, to_put, nullptr));
  CUdeviceptr out = allocate(4);
  float at[2] = {2.5f, 3.5f};
  void* to_take[] = {&texture, &out, &at[0], &at[1]};
  EXPECT_OK(cuLaunchKernel(take, 1, 1, 1, 1, 1, 1, 0, nullptr, to_take, nullptr));
  EXPECT_EQ(download<float>(out, 1)[0], value);

  CUDA_RESOURCE_DESC known{};
  CUDA_TEXTURE_DESC told{};
  EXPECT_OK(cuTexObjectGetResourceDesc(&known, texture));
  EXPECT_EQ(known.res.array.hArray, array);
  EXPECT_OK(cuTexObjectGetTextureDesc(&told, texture));
  EXPECT_EQ(told.filterMode, CU_TR_FILTER_MODE_POINT);
  EXPECT_OK(cuSurfObjectGetResourceDesc(&known, surface));
  EXPECT_EQ(known.res.array.hArray, array);

  // The array goes, the texture stays: to read it is a fault.
  EXPECT_OK(cuArrayDestroy(array));
  EXPECT_OK(cuLaunchKernel(take, 1, 1, 1, 1, 1, 1, 0, nullptr, to_take, nullptr));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(ArrayTest, MemoryAsATexture) {
  CUmodule module = nullptr;
  CUfunction take = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kImagePtx));
  ASSERT_OK(cuModuleGetFunction(&take, module, "take"));
  std::vector<float> values(64);
  std::iota(values.begin(), values.end(), 0.0f);
  CUdeviceptr memory = 0;
  size_t pitch = 0;
  ASSERT_OK(cuMemAllocPitch_v2(&memory, &pitch, 32, 8, 4));
  CUDA_MEMCPY2D in{};
  in.srcMemoryType = CU_MEMORYTYPE_HOST;
  in.srcHost = values.data();
  in.srcPitch = 32;
  in.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  in.dstDevice = memory;
  in.dstPitch = pitch;
  in.WidthInBytes = 32;
  in.Height = 8;
  ASSERT_OK(cuMemcpy2D_v2(&in));
  CUDA_RESOURCE_DESC of{};
  of.resType = CU_RESOURCE_TYPE_PITCH2D;
  of.res.pitch2D = {memory, CU_AD_FORMAT_FLOAT, 1, 8, 8, pitch};
  CUDA_TEXTURE_DESC description{};
  description.filterMode = CU_TR_FILTER_MODE_LINEAR;
  description.addressMode[0] = description.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
  CUtexObject texture = 0;
  ASSERT_OK(cuTexObjectCreate(&texture, &of, &description, nullptr));
  CUdeviceptr out = allocate(4);
  float at[2] = {3, 4.5f};
  void* to_take[] = {&texture, &out, &at[0], &at[1]};
  EXPECT_OK(cuLaunchKernel(take, 1, 1, 1, 1, 1, 1, 0, nullptr, to_take, nullptr));
  EXPECT_EQ(download<float>(out, 1)[0], 34.5f);
  of.res.pitch2D.height = 1 << 20;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &of, &description, nullptr));
  EXPECT_OK(cuMemFree_v2(memory));
  EXPECT_OK(cuLaunchKernel(take, 1, 1, 1, 1, 1, 1, 0, nullptr, to_take, nullptr));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

TEST_F(ArrayTest, ADirectionIsToldFromZeroToOne) {
  CUarray array = make(shape(4, 4, 6, CUDA_ARRAY3D_CUBEMAP));
  const CUDA_RESOURCE_DESC of = resource(array);
  CUDA_TEXTURE_DESC description{};
  description.flags = CU_TRSF_READ_AS_INTEGER;
  CUtexObject texture = 0;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuTexObjectCreate(&texture, &of, &description, nullptr));
  description.flags |= CU_TRSF_NORMALIZED_COORDINATES;
  EXPECT_OK(cuTexObjectCreate(&texture, &of, &description, nullptr));
  EXPECT_OK(cuTexObjectDestroy(texture));
  constexpr unsigned kSeamless = 0x40;
  description.flags |= kSeamless;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuTexObjectCreate(&texture, &of, &description, nullptr));
  CUmipmappedArray levels = nullptr;
  const auto wanted = shape(4, 4, 6, CUDA_ARRAY3D_CUBEMAP);
  ASSERT_OK(cuMipmappedArrayCreate(&levels, &wanted, 3));
  CUarray last = nullptr;
  ASSERT_OK(cuMipmappedArrayGetLevel(&last, levels, 2));
  CUDA_ARRAY3D_DESCRIPTOR known{};
  EXPECT_OK(cuArray3DGetDescriptor_v2(&known, last));
  EXPECT_EQ(1U, known.Width);
  EXPECT_EQ(6U, known.Depth);
}

TEST_F(ArrayTest, ReferencesAreBoundToWhatTheCodeThenUses) {
  CUmodule module = nullptr;
  CUfunction move = nullptr;
  CUtexref from = nullptr, own = nullptr;
  CUsurfref to = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kReferencePtx));
  ASSERT_OK(cuModuleGetFunction(&move, module, "move"));
  ASSERT_OK(cuModuleGetTexRef(&from, module, "from"));
  ASSERT_OK(cuModuleGetSurfRef(&to, module, "to"));
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&own, module, "to"));
  ASSERT_OK(cuTexRefCreate(&own));
  EXPECT_OK(cuTexRefDestroy(own));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuTexRefDestroy(from));  // the module's

  CUarray board = make(shape(4, 1, 0, CUDA_ARRAY3D_SURFACE_LDST)), plain = make(shape(4, 1, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuSurfRefSetArray(to, plain, 0));
  ASSERT_OK(cuSurfRefSetArray(to, board, 0));
  CUarray bound = nullptr;
  EXPECT_OK(cuSurfRefGetArray(&bound, to));
  EXPECT_EQ(bound, board);
  ASSERT_OK(cuTexRefSetFlags(from, CU_TRSF_READ_AS_INTEGER));
  ASSERT_OK(cuTexRefSetFormat(from, CU_AD_FORMAT_UNSIGNED_INT32, 1));
  const auto moved = [&] {
    EXPECT_OK(cuLaunchKernel(move, 1, 1, 1, 4, 1, 1, 0, nullptr, nullptr, nullptr));
    std::vector<uint32_t> found(4);
    const CUDA_MEMCPY3D copy = out_of(board, found.data(), 4, 1, 1);
    EXPECT_OK(cuMemcpy3D_v2(&copy));
    return found;
  };
  // The address may lie behind where a texture can begin: the program is told by how much.
  const CUdeviceptr memory = upload(std::vector<uint32_t>{5, 6, 7, 8, 9});
  size_t offset = 1;
  ASSERT_OK(cuTexRefSetAddress_v2(&offset, from, memory, 16));
  EXPECT_EQ(offset, 0U);
  EXPECT_EQ(moved(), (std::vector<uint32_t>{5, 6, 7, 8}));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress_v2(nullptr, from, memory + 4, 16));
  ASSERT_OK(cuTexRefSetAddress_v2(&offset, from, memory + 4, 16));
  EXPECT_EQ(offset, 4U);
  EXPECT_EQ(moved(), (std::vector<uint32_t>{5, 6, 7, 8}));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuTexRefGetArray(&bound, from));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuTexRefSetArray(from, plain, 0));
  // The array that the reference is bound to is gone.
  EXPECT_OK(cuArrayDestroy(board));
  EXPECT_OK(cuLaunchKernel(move, 1, 1, 1, 4, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

}  // namespace
}  // namespace simcuda::test
