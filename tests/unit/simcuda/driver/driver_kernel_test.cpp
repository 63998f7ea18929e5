// Modules, libraries, launches, and what a fault does.

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/unit/simcuda/driver/driver_fixture.h"
#include "tests/unit/tracker/fat_binary_builder.h"

namespace simcuda::test {
namespace {

TEST_F(KernelTest, LaunchesWithPointersToParameters) {
  CUdeviceptr memory = allocate(1000 * 4);
  EXPECT_OK(launch_words(fill_, memory, 1000, 5));
  EXPECT_OK(launch_words(add_, memory, 999, 2));
  auto values = download<uint32_t>(memory, 1000);
  EXPECT_EQ(7u, values[0]);
  EXPECT_EQ(7u, values[998]);
  EXPECT_EQ(5u, values[999]);
}

TEST_F(KernelTest, LaunchesWithABufferOfParameters) {
  CUdeviceptr memory = allocate(64);
  struct {
    CUdeviceptr pointer;
    uint32_t count, value;
  } parameters{memory, 16, 3};
  size_t size = sizeof parameters;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  EXPECT_OK(cuLaunchKernel(fill_, 1, 1, 1, 16, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(std::vector<uint32_t>(16, 3), download<uint32_t>(memory, 16));
  size = 12;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(fill_, 1, 1, 1, 16, 1, 1, 0, nullptr, nullptr, extra));
  void* pointers[] = {&parameters.pointer, &parameters.count, &parameters.value};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(fill_, 1, 1, 1, 16, 1, 1, 0, nullptr, pointers, extra));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(fill_, 1, 1, 1, 16, 1, 1, 0, nullptr, nullptr, nullptr));
}

TEST_F(KernelTest, ParametersAreTakenWhenTheLaunchIsQueued) {
  CUdeviceptr memory = allocate(4);
  uint32_t count = 1;
  uint32_t value = 6;
  void* parameters[] = {&memory, &count, &value};
  Gate gate;
  gate.close(nullptr);
  EXPECT_OK(cuLaunchKernel(fill_, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  value = 7;
  gate.open();
  EXPECT_EQ(6u, word(memory));
}

TEST_F(KernelTest, LaunchExTakesHintsAndRefusesClusters) {
  CUdeviceptr memory = allocate(4);
  uint32_t count = 1;
  uint32_t value = 6;
  void* parameters[] = {&memory, &count, &value};
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  EXPECT_OK(cuLaunchKernelEx(&config, fill_, parameters, nullptr));
  EXPECT_EQ(6u, word(memory));
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {2, 1, 1};
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&config, fill_, parameters, nullptr));
}

TEST_F(KernelTest, CooperativeLaunchesFitOnTheDeviceAtOnce) {
  CUdeviceptr memory = allocate(4);
  uint32_t count = 1;
  uint32_t value = 6;
  void* parameters[] = {&memory, &count, &value};
  int multiprocessors = 0, supported = 0, fit = 0;
  EXPECT_OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0));
  EXPECT_EQ(1, supported);
  EXPECT_OK(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  EXPECT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, fill_, 64, 0));
  const auto most = static_cast<unsigned>(fit * multiprocessors);
  EXPECT_OK(cuLaunchCooperativeKernel(fill_, most, 1, 1, 64, 1, 1, 0, nullptr, parameters));
  EXPECT_EQ(6u, word(memory));
  EXPECT_CU(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
            cuLaunchCooperativeKernel(fill_, most + 1, 1, 1, 64, 1, 1, 0, nullptr, parameters));
  EXPECT_OK(cuLaunchKernel(fill_, most + 1, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr));
}

TEST_F(KernelTest, WhatKernelsPrintIsShownAtSynchronisations) {
  const std::string code = R"(.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[] = {104, 105, 32, 37, 100, 10, 0};
.visible .entry say(.param .u32 n) {
  .reg .b32 %r<3>; .reg .b64 %x<4>; .local .align 8 .b8 a[8];
  ld.param.u32 %r1, [n]; st.local.u32 [a], %r1; mov.u64 %x1, a; cvta.local.u64 %x1, %x1;
  mov.u64 %x2, text; cvta.global.u64 %x2, %x2;
  { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %x2; st.param.b64 [q], %x1;
    call.uni (r), vprintf, (p, q); }
  ret;
})";
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, code.c_str()));
  CUfunction say = nullptr;
  ASSERT_OK(cuModuleGetFunction(&say, module, "say"));
  testing::internal::CaptureStdout();
  std::vector<int (*)()> ways = {[] { return static_cast<int>(cuCtxSynchronize()); },
                                 [] { return static_cast<int>(cuStreamSynchronize(nullptr)); }};
  std::string want;
  for (uint32_t n = 0; n < ways.size(); ++n) {
    void* parameters[] = {&n};
    EXPECT_OK(cuLaunchKernel(say, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    EXPECT_EQ(0, ways[n]());
    std::printf("host %u\n", n);
    want += "hi " + std::to_string(n) + "\nhost " + std::to_string(n) + "\n";
  }
  EXPECT_EQ(want, testing::internal::GetCapturedStdout());
}

TEST_F(KernelTest, ShapesAreChecked) {
  CUdeviceptr memory = allocate(4);
  uint32_t count = 1;
  void* parameters[] = {&memory, &count, &count};
  auto launch = [&](unsigned gx, unsigned gy, unsigned bx, unsigned bz, unsigned shared) {
    return cuLaunchKernel(fill_, gx, gy, 1, bx, 1, bz, shared, nullptr, parameters, nullptr);
  };
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(0, 1, 1, 1, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(1, 65536, 1, 1, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(1, 1, 1025, 1, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(1, 1, 32, 64, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(1, 1, 1, 65, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, launch(1, 1, 1, 1, (48 << 10) + 1));
  EXPECT_OK(cuFuncSetAttribute(fill_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10));
  EXPECT_OK(launch(1, 1, 1, 1, (48 << 10) + 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuFuncSetAttribute(fill_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 << 10));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(reinterpret_cast<CUfunction>(module_), 1, 1,
                                                      1, 1, 1, 1, 0, nullptr, parameters, nullptr));
}

TEST_F(KernelTest, FunctionsTellAboutThemselves) {
  int value = -1;
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill_));
  EXPECT_EQ(1024, value);
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, fill_));
  EXPECT_EQ(60, value);
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, fill_));
  EXPECT_EQ(90, value);
  const char* name = nullptr;
  EXPECT_OK(cuFuncGetName(&name, add_));
  EXPECT_STREQ("add", name);
  CUmodule module = nullptr;
  EXPECT_OK(cuFuncGetModule(&module, add_));
  EXPECT_EQ(module_, module);
  size_t offset = 0;
  size_t size = 0;
  EXPECT_OK(cuFuncGetParamInfo(fill_, 2, &offset, &size));
  EXPECT_EQ(12u, offset);
  EXPECT_EQ(4u, size);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(fill_, 3, &offset, &size));
  unsigned count = 0;
  EXPECT_OK(cuModuleGetFunctionCount(&count, module_));
  EXPECT_EQ(5u, count);
  std::vector<CUfunction> all(5);
  EXPECT_OK(cuModuleEnumerateFunctions(all.data(), 5, module_));
  EXPECT_EQ(add_, all[0]);
  CUfunction none = nullptr;
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&none, module_, "no_such_kernel"));
}

TEST_F(KernelTest, OccupancyIsThatOfTheDevice) {
  int blocks = 0;
  int grid = 0;
  int threads = 0;
  size_t shared = 0;
  EXPECT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill_, 1024, 0));
  EXPECT_GE(blocks, 1);
  EXPECT_LE(blocks, 2);
  EXPECT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill_, 32, 200 << 10));
  EXPECT_EQ(1, blocks);
  EXPECT_OK(cuOccupancyMaxPotentialBlockSize(&grid, &threads, fill_, nullptr, 0, 0));
  EXPECT_GT(threads, 0);
  EXPECT_EQ(0, grid % 8);
  EXPECT_OK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, fill_, 2, 128));
  EXPECT_GT(shared, size_t{100} << 10);
}

TEST_F(KernelTest, VariablesStartAsTheCodeSays) {
  CUdeviceptr counter = 0;
  CUdeviceptr zeroed = 0;
  CUdeviceptr pointer = 0;
  size_t bytes = 0;
  ASSERT_OK(cuModuleGetGlobal_v2(&counter, &bytes, module_, "counter"));
  EXPECT_EQ(4u, bytes);
  ASSERT_OK(cuModuleGetGlobal_v2(&zeroed, &bytes, module_, "zeroed"));
  EXPECT_EQ(12u, bytes);
  ASSERT_OK(cuModuleGetGlobal_v2(&pointer, nullptr, module_, "pointer"));
  EXPECT_EQ(41u, word(counter));
  EXPECT_EQ(std::vector<uint32_t>(3, 0), download<uint32_t>(zeroed, 3));
  EXPECT_EQ(counter, download<uint64_t>(pointer, 1)[0]);
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&counter, &bytes, module_, "nothing"));

  CUdeviceptr out = allocate(8);
  void* parameters[] = {&out};
  EXPECT_OK(cuLaunchKernel(function("state"), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_EQ((std::vector<uint32_t>{41, 20}), download<uint32_t>(out, 2));
  EXPECT_EQ(42u, word(counter));
  // Another load of the same code has variables of its own.
  CUmodule other = nullptr;
  CUdeviceptr others = 0;
  ASSERT_OK(cuModuleLoadData(&other, kPtx));
  ASSERT_OK(cuModuleGetGlobal_v2(&others, &bytes, other, "counter"));
  EXPECT_NE(counter, others);
  EXPECT_EQ(41u, word(others));
  EXPECT_OK(cuModuleUnload(other));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(other));
  uint32_t value = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(&value, others, 4));
}

TEST_F(KernelTest, LibrariesLoadThemselvesIntoEachContext) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  CUmodule module = nullptr;
  CUdeviceptr counter = 0;
  CUdeviceptr other = 0;
  size_t bytes = 0;
  ASSERT_OK(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryGetKernel(&kernel, library, "fill"));
  ASSERT_OK(cuKernelGetFunction(&function, kernel));
  ASSERT_OK(cuLibraryGetModule(&module, library));
  ASSERT_OK(cuLibraryGetGlobal(&counter, &bytes, library, "counter"));
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&other, &bytes, library, "counter"));
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&kernel, library, "nothing"));
  CUdeviceptr memory = allocate(16);
  EXPECT_OK(launch_words(function, memory, 4, 8));
  EXPECT_OK(launch_words(reinterpret_cast<CUfunction>(kernel), memory, 2, 9));
  EXPECT_EQ((std::vector<uint32_t>{9, 9, 8, 8}), download<uint32_t>(memory, 4));
  const char* name = nullptr;
  EXPECT_OK(cuKernelGetName(&name, kernel));
  EXPECT_STREQ("fill", name);
  unsigned count = 0;
  EXPECT_OK(cuLibraryGetKernelCount(&count, library));
  EXPECT_EQ(5u, count);

  CUcontext second = nullptr;
  CUfunction there = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&second, 0, 0));
  ASSERT_OK(cuKernelGetFunction(&there, kernel));
  EXPECT_NE(function, there);
  ASSERT_OK(cuLibraryGetGlobal(&other, &bytes, library, "counter"));
  EXPECT_NE(counter, other);
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, launch_words(function, memory, 4, 8));
  ASSERT_OK(cuCtxDestroy_v2(second));
  EXPECT_OK(cuLibraryUnload(library));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuKernelGetFunction(&function, kernel));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, launch_words(function, memory, 4, 8));
}

std::string fat_binary(const std::string& ptx, bool compressed) {
  gpusnap::FatEntry entry;
  entry.arch = 60;
  entry.payload = ptx + '\0';
  if (compressed) {
    std::string packed(ZSTD_compressBound(entry.payload.size()), '\0');
    entry.unpacked_bytes = entry.payload.size();
    packed.resize(
        ZSTD_compress(packed.data(), packed.size(), entry.payload.data(), entry.payload.size(), 3));
    entry.payload = packed;
    entry.flags = 0x8011;
  }
  gpusnap::FatEntry newer;
  newer.arch = 120;
  newer.payload = std::string("not for this device") + '\0';
  return gpusnap::fat_container(gpusnap::fat_entry(newer) + gpusnap::fat_entry(entry));
}

TEST_F(KernelTest, FatBinariesHoldPtxPlainOrCompressed) {
  for (bool compressed : {false, true}) {
    std::string image = fat_binary(kPtx, compressed);
    CUmodule module = nullptr;
    CUfunction fill = nullptr;
    ASSERT_OK(cuModuleLoadFatBinary(&module, image.data()));
    ASSERT_OK(cuModuleGetFunction(&fill, module, "fill"));
    CUdeviceptr memory = allocate(4);
    EXPECT_OK(launch_words(fill, memory, 1, 99));
    EXPECT_EQ(99u, word(memory));
    // The wrapper that nvcc puts around it.
    struct {
      uint32_t magic, version;
      const void* data;
      void* unused;
    } wrapper{0x466243B1, 1, image.data(), nullptr};
    EXPECT_OK(cuModuleLoadData(&module, &wrapper));
  }
}

TEST_F(KernelTest, ImagesThatDoNotFitAreRefused) {
  CUmodule module = nullptr;
  gpusnap::FatEntry code;
  code.kind = 2;
  code.arch = 90;
  code.payload = std::string(
                     "\x7f"
                     "ELF",
                     4) +
                 std::string(60, '\0');
  std::string image = gpusnap::fat_container(gpusnap::fat_entry(code));
  EXPECT_CU(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, image.data()));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&module, nullptr));
  EXPECT_CU(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/nonexistent/module.ptx"));
}

TEST_F(KernelTest, PtxThatIsNotUnderstoodIsToldByLine) {
  const char* wrong =
      ".version 7.0\n.target sm_60\n.address_size 64\n"
      ".visible .entry k()\n{\n  .reg .b32 %r<2>;\n  frobnicate.u32 %r1, 5;\n  ret;\n}\n";
  std::string log(400, '#');
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  CUmodule module = nullptr;
  testing::internal::CaptureStderr();
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, wrong, 2, options, values));
  std::string told = testing::internal::GetCapturedStderr();
  log.resize(reinterpret_cast<size_t>(values[1]));
  EXPECT_NE(std::string::npos, log.find("line 7"));
  EXPECT_NE(std::string::npos, log.find("frobnicate"));
  EXPECT_EQ("simcuda: " + log + "\n", told);
  // A buffer too small is filled, ended, and not overrun.
  char small[8] = "zzzzzzz";
  values[0] = small;
  values[1] = reinterpret_cast<void*>(size_t{5});
  testing::internal::CaptureStderr();
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, wrong, 2, options, values));
  testing::internal::GetCapturedStderr();
  EXPECT_EQ('\0', small[4]);
  EXPECT_EQ('z', small[5]);
}

TEST_F(KernelTest, KernelsRunBesideTheHost) {
  uint32_t* flag = nullptr;
  ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&flag), 4, CU_MEMHOSTALLOC_DEVICEMAP));
  *flag = 0;
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  auto address = reinterpret_cast<CUdeviceptr>(flag);
  void* parameters[] = {&address};
  EXPECT_OK(cuLaunchKernel(function("spin"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  // Another stream is not held up by it, and ends it.
  EXPECT_OK(cuMemsetD32_v2(address, 1, 1));
  EXPECT_OK(cuStreamSynchronize(stream));
}

class FaultTest : public KernelTest {
 protected:
  // Runs what faults, and returns what it said.
  std::string fault(CUdeviceptr pointer, uint32_t count, CUresult expected) {
    testing::internal::CaptureStderr();
    EXPECT_OK(launch_words(fill_, pointer, count, 1));
    EXPECT_CU(expected, cuCtxSynchronize());
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(FaultTest, AnIllegalAddressIsSticky) {
  CUdeviceptr memory = allocate(100);
  CUdeviceptr other = allocate(4);
  CUevent event = nullptr;
  CUstream stream = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuStreamCreate(&stream, 0));
  std::string told = fault(memory, 26, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(1, std::count(told.begin(), told.end(), '\n')) << told;
  EXPECT_NE(std::string::npos, told.find("fill")) << told;
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemsetD32_v2(other, 0, 1));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&other, 4));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(nullptr));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuEventSynchronize(event));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree_v2(memory));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  // Another context is well.
  CUcontext second = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&second, 0, 0));
  EXPECT_OK(cuMemAlloc_v2(&other, 4));
  EXPECT_OK(cuCtxDestroy_v2(second));
}

TEST_F(FaultTest, FreedMemoryIsIllegal) {
  CUdeviceptr memory = allocate(64);
  CUdeviceptr neighbour = allocate(64);
  EXPECT_OK(cuMemFree_v2(memory));
  EXPECT_NE(0u, neighbour);
  fault(memory, 1, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FaultTest, MemoryFreedBehindAQueuedKernelIsStillThereForIt) {
  CUdeviceptr memory = allocate(64);
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate;
  gate.close(stream);
  uint32_t count = 16;
  uint32_t value = 1;
  void* parameters[] = {&memory, &count, &value};
  EXPECT_OK(cuLaunchKernel(fill_, 1, 1, 1, 16, 1, 1, 0, stream, parameters, nullptr));
  std::thread other([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuMemFree_v2(memory));
  });
  // The address is nobody's any more while the free still waits for the kernel.
  CUdeviceptr base = 0;
  while (cuMemGetAddressRange_v2(&base, nullptr, memory) == CUDA_SUCCESS) std::this_thread::yield();
  gate.open();
  other.join();
  EXPECT_OK(cuStreamSynchronize(stream));
}

TEST_F(FaultTest, HostMemoryIsIllegal) {
  std::vector<uint32_t> values(16);
  fault(reinterpret_cast<CUdeviceptr>(values.data()), 1, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FaultTest, AMisalignedAddressIsToldApart) {
  CUdeviceptr memory = allocate(64);
  fault(memory + 2, 1, CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST_F(FaultTest, WhatIsQueuedBehindAFaultIsNotRun) {
  CUdeviceptr memory = allocate(4);
  uint32_t* flag = nullptr;
  ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&flag), 4, 0));
  *flag = 7;
  Gate gate;
  gate.close(nullptr);
  testing::internal::CaptureStderr();
  EXPECT_OK(launch_words(fill_, memory + 4, 1, 1));
  EXPECT_OK(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(flag), 8, 1, nullptr));
  gate.open();
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(7u, *flag);
}

TEST_F(FaultTest, AFaultStopsKernelsThatWouldRunForEver) {
  CUdeviceptr flag = allocate(4);
  ASSERT_OK(cuMemsetD32_v2(flag, 0, 1));
  ASSERT_OK(cuCtxSynchronize());
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* parameters[] = {&flag};
  EXPECT_OK(cuLaunchKernel(function("spin"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  fault(flag + 4, 1, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(KernelTest, AKernelReadsOnlyWhatItsDeviceMayRead) {
  constexpr size_t kGranule = size_t{2} << 20;
  CUdeviceptr space = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  ASSERT_OK(cuMemAddressReserve(&space, kGranule, 0, 0, 0));
  ASSERT_OK(cuMemCreate(&handle, kGranule, &properties, 0));
  ASSERT_OK(cuMemMap(space, kGranule, 0, handle, 0));
  CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_OK(cuMemSetAccess(space, kGranule, &access, 1));
  EXPECT_OK(launch_words(fill_, space, 4, 11));
  EXPECT_EQ(11u, word(space + 12));
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  ASSERT_OK(cuMemSetAccess(space, kGranule, &access, 1));
  testing::internal::CaptureStderr();
  EXPECT_OK(launch_words(fill_, space, 4, 12));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  testing::internal::GetCapturedStderr();
  EXPECT_OK(cuMemUnmap(space, kGranule));
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemAddressFree(space, kGranule));
}

// ---- launches of before CUDA 4 ----

TEST_F(KernelTest, LaunchesWithWhatWasSetBeforehand) {
  CUdeviceptr memory = allocate(128 * 4);
  ASSERT_OK(cuMemsetD32_v2(memory, 1, 128));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuLaunch(fill_));  // nothing is set
  EXPECT_OK(cuParamSetv(fill_, 0, &memory, sizeof memory));
  EXPECT_OK(cuParamSeti(fill_, 8, 100));
  EXPECT_OK(cuParamSeti(fill_, 12, 5));
  EXPECT_OK(cuParamSetSize(fill_, 16));
  EXPECT_OK(cuFuncSetBlockShape(fill_, 32, 1, 1));
  EXPECT_OK(cuLaunch(fill_));
  EXPECT_EQ(5u, word(memory + 31 * 4));
  EXPECT_EQ(1u, word(memory + 32 * 4));
  EXPECT_OK(cuLaunchGrid(fill_, 4, 1));
  EXPECT_EQ(5u, word(memory + 99 * 4));
  EXPECT_EQ(1u, word(memory + 100 * 4));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  EXPECT_OK(cuParamSeti(fill_, 12, 6));
  EXPECT_OK(cuLaunchGridAsync(fill_, 4, 1, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(6u, word(memory));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(fill_, 0, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuParamSetv(fill_, -4, &memory, sizeof memory));
}

// Real drivers keep constants in memory that kernels write where they are given the address.
TEST_F(DriverTest, AKernelWritesAConstantByItsAddress) {
  constexpr const char* kText = R"(
.version 7.0
.target sm_60
.address_size 64
.const .align 4 .u32 factor = 3;
.visible .entry change(.param .u64 p) {
  .reg .b32 %r<3>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [p];
  cvta.to.global.u64 %d2, %d1;
  ld.const.u32 %r1, [factor];
  add.u32 %r2, %r1, 4;
  st.global.u32 [%d2], %r2;
  ret;
}
)";
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kText));
  CUfunction change = nullptr;
  ASSERT_OK(cuModuleGetFunction(&change, module, "change"));
  CUdeviceptr factor = 0;
  size_t bytes = 0;
  ASSERT_OK(cuModuleGetGlobal_v2(&factor, &bytes, module, "factor"));
  void* parameters[] = {&factor};
  for (const uint32_t expected : {7u, 11u}) {
    EXPECT_OK(cuLaunchKernel(change, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    EXPECT_EQ(expected, word(factor));
  }
}

// ---- linking ----

constexpr const char* kUser = R"(
.version 7.0
.target sm_60
.address_size 64
.extern .global .align 4 .u32 shared_count;  // what the other text has
.extern .func (.param .b32 r) twice (.param .b32 v);
.global .align 4 .u32 own = 3; /* as in the other { text */
.visible .entry use(.param .u64 p) {
  .reg .b32 %r<6>; .reg .b64 %d<3>;
  ld.param.u64 %d1, [p];
  ld.global.u32 %r1, [own];
  ld.global.u32 %r2, [shared_count];
  add.u32 %r3, %r1, %r2;
  {
    .param .b32 v; .param .b32 r;
    st.param.b32 [v], %r3;
    call.uni (r), twice, (v);
    ld.param.b32 %r4, [r];
  }
  st.global.u32 [%d1], %r4;
  ret;
}
)";
constexpr const char* kGiver = R"(
.version 7.1
.target sm_70
.address_size 64
.visible .global .align 4 .u32 shared_count = 100;
.global .align 4 .u32 own[2] = {20, 30};
.visible .func (.param .b32 r) twice (.param .b32 v) {
  .reg .b32 %r<5>;
  ld.param.b32 %r1, [v];
  ld.global.u32 %r2, [own];
  mad.lo.u32 %r3, %r1, 2, %r2;
  st.param.b32 [r], %r3;
  ret;
}
)";

class LinkTest : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    values_[0] = log_;
    values_[1] = reinterpret_cast<void*>(sizeof log_);
    ASSERT_OK(cuLinkCreate_v2(2, options, values_, &link_));
  }
  void TearDown() override {
    EXPECT_OK(cuLinkDestroy(link_));
    EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuLinkDestroy(link_));
    DriverTest::TearDown();
  }
  CUresult add(const char* text, const char* name) {
    return cuLinkAddData_v2(link_, CU_JIT_INPUT_PTX, const_cast<char*>(text), std::strlen(text),
                            name, 0, nullptr, nullptr);
  }
  char log_[200] = "";
  void* values_[2] = {};
  CUlinkState link_ = nullptr;
  void* image_ = nullptr;
  size_t bytes_ = 0;
};

TEST_F(LinkTest, JoinsWhatIsExternAndKeepsApartWhatIsOwn) {
  EXPECT_OK(add(kUser, "user"));
  EXPECT_OK(add(kGiver, "giver"));
  ASSERT_OK(cuLinkComplete(link_, &image_, &bytes_)) << log_;
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, image_));
  CUfunction use = nullptr;
  ASSERT_OK(cuModuleGetFunction(&use, module, "use"));
  CUdeviceptr memory = allocate(4);
  void* parameters[] = {&memory};
  EXPECT_OK(cuLaunchKernel(use, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  EXPECT_EQ((3 + 100) * 2 + 20u, word(memory));
  int target = 0;
  EXPECT_OK(cuFuncGetAttribute(&target, CU_FUNC_ATTRIBUTE_PTX_VERSION, use));
  EXPECT_EQ(70, target);
}

TEST_F(LinkTest, OldFormsDoTheSame) {
  CUlinkState link = nullptr;
  ASSERT_OK(cuLinkCreate(0, nullptr, nullptr, &link));
  for (const char* text : {kUser, kGiver}) {
    EXPECT_OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(text), std::strlen(text),
                            nullptr, 0, nullptr, nullptr));
  }
  EXPECT_CU(CUDA_ERROR_FILE_NOT_FOUND,
            cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/nowhere", 0, nullptr, nullptr));
  ASSERT_OK(cuLinkComplete(link, &image_, &bytes_));
  EXPECT_NE(nullptr, std::strstr(static_cast<const char*>(image_), "twice"));
  EXPECT_OK(cuLinkDestroy(link));
}

TEST_F(LinkTest, SaysWhatIsDefinedNowhere) {
  EXPECT_OK(add(kUser, "user"));
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, cuLinkComplete(link_, &image_, &bytes_));
  EXPECT_STREQ("'shared_count', which user needs, is defined nowhere", log_);
}

TEST_F(LinkTest, SaysWhatIsDefinedTwice) {
  EXPECT_OK(add(kGiver, "one"));
  EXPECT_OK(add(kGiver, "other"));
  EXPECT_CU(CUDA_ERROR_INVALID_PTX, cuLinkComplete(link_, &image_, &bytes_));
  EXPECT_STREQ("'shared_count' is defined in one and in other", log_);
}

}  // namespace
}  // namespace simcuda::test
