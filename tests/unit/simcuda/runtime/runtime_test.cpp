// The runtime library over a fake driver: what it asks for, registers, launches, and which errors
// it gives and remembers. The test plays the part of a program compiled by nvcc.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/unit/simcuda/runtime/fake_driver.h"
#include "tools/simcuda/runtime/cudart_abi.h"

// One of those that are not: there they have no arguments.
extern "C" cudaError_t cudaGLGetDevices(void);

namespace {

fake::Driver& driver() {
  static fake::Driver* const instance = [] {
    // By its path first: then the runtime's libcuda.so.1 is this one, whatever lies in run paths.
    const char* path = std::getenv("FAKE_DRIVER");
    void* library = dlopen(path == nullptr ? "libcuda.so.1" : path, RTLD_NOW);
    if (library == nullptr) throw std::runtime_error(dlerror());
    auto* find = reinterpret_cast<fake::Driver* (*)()>(dlsym(library, "fake_driver"));
    if (find == nullptr) throw std::runtime_error("libcuda.so.1 is not the fake driver");
    return find();
  }();
  return *instance;
}

// Stand for the functions and variables of host code.
void host_add() {}
void host_absent() {}
char host_table[16];
void* host_managed = nullptr;

const void* key(void (*function)()) {
  return reinterpret_cast<const void*>(function);
}
char* text_key(void (*function)()) {
  return reinterpret_cast<char*>(function);
}

class Runtime : public testing::Test {
 protected:
  void SetUp() override {
    const auto asked = driver().asked;  // filled in once in the process
    driver() = fake::Driver();
    driver().asked = asked;
    driver().kernels["_Z3addPii"] = {"_Z3addPii", {sizeof(void*), sizeof(int)}};
    driver().variables["table"].resize(16);
    driver().variables["managed"].resize(8);
    ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
    driver().primary_references = 0;
    (void)cudaGetLastError();
    image_ = __cudaRegisterFatBinary(&wrapper_);
    __cudaRegisterFunction(image_, text_key(host_add), nullptr, "_Z3addPii", -1, nullptr, nullptr,
                           nullptr, nullptr, nullptr);
    __cudaRegisterFunction(image_, text_key(host_absent), nullptr, "_Z6absentv", -1, nullptr,
                           nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterVar(image_, host_table, nullptr, "table", 0, sizeof(host_table), 1, 0);
    __cudaRegisterManagedVar(image_, &host_managed, nullptr, "managed", 0, 8, 0, 0);
    __cudaRegisterFatBinaryEnd(image_);
    host_managed = nullptr;
  }
  void TearDown() override { __cudaUnregisterFatBinary(image_); }

  // Does the same as the stub that nvcc writes for
  // `add<<<grid, block, shared, stream>>>(pointer, number)`.
  static void launch_add(dim3 grid, dim3 block, size_t shared, cudaStream_t stream, int* pointer,
                         int number, bool per_thread = false) {
    ASSERT_EQ(__cudaPushCallConfiguration(grid, block, shared, stream), 0u);
    cudaKernel_t kernel = nullptr;
    (void)__cudaGetKernel(&kernel, key(host_add));
    void* arguments[] = {&pointer, &number};
    ASSERT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
    if (per_thread)
      (void)__cudaLaunchKernel_ptsz(kernel, grid, block, arguments, shared, stream);
    else
      (void)__cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
  }

  int wrapper_ = 0;
  void** image_ = nullptr;
};

TEST_F(Runtime, AsksForUnsuffixedNamesWithVersionAndFlags) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  const auto& asked = driver().asked;
  const auto has = [&](const char* entry) {
    return std::find(asked.begin(), asked.end(), entry) != asked.end();
  };
  EXPECT_TRUE(has("cuMemAlloc/3020/1"));
  EXPECT_TRUE(has("cuMemcpyHtoD/3020/1"));
  EXPECT_TRUE(has("cuMemcpyHtoD/7000/2"));
  EXPECT_TRUE(has("cuLaunchKernel/4000/1"));
  EXPECT_TRUE(has("cuLaunchKernel/7000/2"));
  EXPECT_TRUE(has("cuLibraryLoadData/12000/1"));
  for (const std::string& entry : asked) {
    EXPECT_EQ(entry.find("_v"), std::string::npos) << entry;
    EXPECT_EQ(entry.find("_pt"), std::string::npos) << entry;
  }
}

TEST_F(Runtime, LoadsAnImageAtFirstUseAndOnce) {
  EXPECT_EQ(driver().loaded_images.size(), 0u);
  int data = 0;
  launch_add({1, 1, 1}, {1, 1, 1}, 0, nullptr, &data, 1);
  launch_add({1, 1, 1}, {1, 1, 1}, 0, nullptr, &data, 2);
  ASSERT_EQ(driver().loaded_images.size(), 1u);
  EXPECT_EQ(driver().loaded_images[0], &wrapper_);
  EXPECT_EQ(driver().count("cuLibraryGetKernel"), 1u);
  EXPECT_EQ(driver().count("cuDevicePrimaryCtxRetain"), 1u);
}

TEST_F(Runtime, LaunchesWithTheArgumentsOfTheCall) {
  int data = 0;
  const auto stream = reinterpret_cast<cudaStream_t>(0x1234);
  launch_add({3, 2, 1}, {32, 4, 1}, 128, stream, &data, 77);
  ASSERT_EQ(driver().launches.size(), 1u);
  const fake::Launch& launch = driver().launches[0];
  EXPECT_EQ(launch.kernel, "_Z3addPii");
  EXPECT_EQ(launch.geometry, (std::vector<unsigned int>{3, 2, 1, 32, 4, 1}));
  EXPECT_EQ(launch.shared_bytes, 128u);
  EXPECT_EQ(launch.stream, stream);
  EXPECT_FALSE(launch.per_thread);
  int* pointer = nullptr;
  int number = 0;
  std::memcpy(&pointer, launch.arguments[0].data(), sizeof(pointer));
  std::memcpy(&number, launch.arguments[1].data(), sizeof(number));
  EXPECT_EQ(pointer, &data);
  EXPECT_EQ(number, 77);
}

TEST_F(Runtime, LaunchesBySymbolAndByHandle) {
  int data = 0;
  int* pointer = &data;
  int number = 5;
  void* arguments[] = {&pointer, &number};
  EXPECT_EQ(cudaLaunchKernel(key(host_add), {1, 1, 1}, {8, 1, 1}, arguments, 0, nullptr),
            cudaSuccess);
  cudaKernel_t kernel = nullptr;
  ASSERT_EQ(cudaGetKernel(&kernel, key(host_add)), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(kernel, {1, 1, 1}, {8, 1, 1}, arguments, 0, nullptr), cudaSuccess);
  cudaLaunchConfig_t config = {{2, 1, 1}, {4, 1, 1}, 64, nullptr, nullptr, 0};
  EXPECT_EQ(cudaLaunchKernelExC(&config, key(host_add), arguments), cudaSuccess);
  ASSERT_EQ(driver().launches.size(), 3u);
  EXPECT_EQ(driver().launches[2].geometry[0], 2u);
  EXPECT_EQ(driver().launches[2].shared_bytes, 64u);
}

TEST_F(Runtime, PerThreadEntryPointsUseTheDriversOwn) {
  int data = 0;
  launch_add({1, 1, 1}, {1, 1, 1}, 0, nullptr, &data, 1, true);
  ASSERT_EQ(driver().launches.size(), 1u);
  EXPECT_TRUE(driver().launches[0].per_thread);
  char bytes[4] = {1, 2, 3, 4};
  char copy[4] = {};
  EXPECT_EQ(cudaMemcpy_ptds(copy, bytes, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(copy, bytes, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize_ptsz(nullptr), cudaSuccess);
  EXPECT_EQ(driver().count("cuMemcpyHtoD_pt"), 1u);
  EXPECT_EQ(driver().count("cuMemcpyHtoD"), 1u);
  EXPECT_EQ(driver().count("cuStreamSynchronize_pt"), 1u);
}

TEST_F(Runtime, ConfigurationsNest) {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(__cudaPushCallConfiguration({1, 1, 1}, {2, 1, 1}, 3, nullptr), 0u);
  ASSERT_EQ(__cudaPushCallConfiguration({4, 1, 1}, {5, 1, 1}, 6, nullptr), 0u);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  EXPECT_EQ(grid.x, 4u);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  EXPECT_EQ(block.x, 2u);
  EXPECT_EQ(shared, 3u);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream),
            cudaErrorMissingConfiguration);
}

TEST_F(Runtime, AnErrorIsRememberedUntilItIsFetched) {
  driver().fails["cuMemAlloc"] = CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorMemoryAllocation);
  driver().fails.clear();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // success does not clear it
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(Runtime, LastErrorsAreTheThreadsOwn) {
  EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 8, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  cudaError_t elsewhere = cudaErrorUnknown;
  std::thread([&] { elsewhere = cudaPeekAtLastError(); }).join();
  EXPECT_EQ(elsewhere, cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
}

TEST_F(Runtime, NotReadyIsAnAnswer) {
  driver().fails["cuStreamQuery"] = CUDA_ERROR_NOT_READY;
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Runtime, AStickyErrorComesBackFromEveryCallUntilAReset) {
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 8), cudaSuccess);
  driver().sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&memory, 8), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemset(memory, 0, 8), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(Runtime, AResetContextIsMadeAnew) {
  ASSERT_EQ(cudaFree(nullptr), cudaSuccess);
  const size_t before = driver().count("cuDevicePrimaryCtxRetain");
  std::thread other([&] {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    std::thread([] { EXPECT_EQ(cudaDeviceReset(), cudaSuccess); }).join();
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  });
  other.join();
  EXPECT_EQ(driver().count("cuDevicePrimaryCtxRetain"), before + 1);
  EXPECT_EQ(driver().primary_references, 1);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(driver().count("cuDevicePrimaryCtxRetain"), before + 1);
}

TEST_F(Runtime, ABadGeometryIsAnInvalidConfiguration) {
  int data = 0;
  launch_add({1, 1, 1}, {2000, 1, 1}, 0, nullptr, &data, 1);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  driver().fails["cuLaunchKernel"] = CUDA_ERROR_INVALID_VALUE;
  launch_add({1, 1, 1}, {20, 1, 1}, 0, nullptr, &data, 1);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Runtime, AnImageThatDoesNotLoadIsReportedByTheLaunch) {
  driver().fails["cuLibraryLoadData"] = CUDA_ERROR_NO_BINARY_FOR_GPU;
  int data = 0;
  launch_add({1, 1, 1}, {1, 1, 1}, 0, nullptr, &data, 1);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNoKernelImageForDevice);
  EXPECT_TRUE(driver().launches.empty());
}

TEST_F(Runtime, UnknownKernelsAndSymbolsAreNamedAsSuch) {
  cudaKernel_t kernel = nullptr;
  EXPECT_EQ(cudaGetKernel(&kernel, &wrapper_), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaGetKernel(&kernel, key(host_absent)), cudaErrorInvalidDeviceFunction);
  void* address = nullptr;
  EXPECT_EQ(cudaGetSymbolAddress(&address, &wrapper_), cudaErrorInvalidSymbol);
}

TEST_F(Runtime, CopiesToAndFromSymbols) {
  const char text[] = "0123456789";
  ASSERT_EQ(cudaMemcpyToSymbol(host_table, text, 10, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(std::memcmp(driver().variables["table"].data() + 4, text, 10), 0);
  char back[3] = {};
  ASSERT_EQ(cudaMemcpyFromSymbol(back, host_table, 3, 5, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::string(back, 3), "123");
  EXPECT_EQ(cudaMemcpyToSymbol(host_table, text, 10, 7, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyToSymbol(host_table, text, 4, 0, cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
  size_t size = 0;
  EXPECT_EQ(cudaGetSymbolSize(&size, host_table), cudaSuccess);
  EXPECT_EQ(size, 16u);
}

TEST_F(Runtime, ManagedVariablesAreKnownToHostCodeOnceTheImageIsLoaded) {
  EXPECT_EQ(host_managed, nullptr);
  EXPECT_EQ(__cudaInitModule(image_), 1);
  EXPECT_EQ(host_managed, driver().variables["managed"].data());
}

TEST_F(Runtime, CopiesRows) {
  const char source[12] = {'a', 'b', 0, 0, 'c', 'd', 0, 0, 'e', 'f', 0, 0};
  char target[6] = {};
  EXPECT_EQ(cudaMemcpy2D(target, 2, source, 4, 2, 3, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::string(target, 6), "abcdef");
  EXPECT_EQ(cudaMemcpy2D(target, 1, source, 4, 2, 3, cudaMemcpyDeviceToHost),
            cudaErrorInvalidPitchValue);
}

TEST_F(Runtime, CallbacksGetARuntimeError) {
  cudaError_t seen = cudaErrorUnknown;
  const auto callback = [](cudaStream_t, cudaError_t status, void* user) {
    *static_cast<cudaError_t*>(user) = status;
  };
  EXPECT_EQ(cudaStreamAddCallback(nullptr, callback, &seen, 0), cudaSuccess);
  EXPECT_EQ(seen, cudaSuccess);
}

TEST_F(Runtime, WhatTheDriverLacksIsNotCalled) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreate(&event), cudaErrorCallRequiresNewerDriver);
}

TEST_F(Runtime, WhatIsNotSimulatedSaysSo) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaGLGetDevices(), cudaErrorNotSupported);
  EXPECT_EQ(cudaGLGetDevices(), cudaErrorNotSupported);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "simcuda: cudaGLGetDevices is not simulated\n");
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
}

TEST_F(Runtime, FillsInDeviceProperties) {
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "Fake");
  EXPECT_EQ(properties.major, 7);
  EXPECT_EQ(properties.totalGlobalMem, size_t{1} << 20);
  EXPECT_EQ(properties.maxThreadsPerBlock, 1024);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
}

TEST_F(Runtime, ErrorsHaveNames) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
  driver().fails["cuCtxSynchronize"] = static_cast<CUresult>(4242);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorUnknown);
}

TEST_F(Runtime, ForgetsAnImageThatIsUnregistered) {
  int data = 0;
  launch_add({1, 1, 1}, {1, 1, 1}, 0, nullptr, &data, 1);
  __cudaUnregisterFatBinary(image_);
  EXPECT_EQ(driver().count("cuLibraryUnload"), 1u);
  cudaKernel_t kernel = nullptr;
  EXPECT_EQ(cudaGetKernel(&kernel, key(host_add)), cudaErrorInvalidDeviceFunction);
}

}  // namespace
