// Start, entry points, errors, devices and contexts.

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "tests/unit/simcuda/driver/driver_fixture.h"

namespace simcuda::test {
namespace {

struct Row {
  const char* name;
  int since;
  const char* symbol;
  const char* per_thread;
};
constexpr Row kRows[] = {
#define SIMCUDA_PLAIN(name, since, symbol) {#name, since, #symbol, nullptr},
#define SIMCUDA_BOTH(name, since, symbol, per_thread, count) {#name, since, #symbol, #per_thread},
#include "tools/simcuda/driver/calls.inc"
};

void* look_up(const char* name, int version, cuuint64_t flags) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  EXPECT_OK(cuGetProcAddress_v2(name, &found, version, flags, &status)) << name;
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SUCCESS, status);
  return found;
}

TEST(EntryPoints, EveryRowIsExportedAndFoundByItsVersion) {
  for (const Row& row : kRows) {
    void* symbol = dlsym(RTLD_DEFAULT, row.symbol);
    ASSERT_NE(nullptr, symbol) << row.symbol;
    EXPECT_EQ(symbol, look_up(row.name, row.since, CU_GET_PROC_ADDRESS_DEFAULT)) << row.symbol;
    EXPECT_EQ(symbol, look_up(row.name, row.since, CU_GET_PROC_ADDRESS_LEGACY_STREAM));
    void* threads = look_up(row.name, row.since, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    if (row.per_thread == nullptr) {
      EXPECT_EQ(symbol, threads) << row.symbol;
    } else {
      EXPECT_EQ(dlsym(RTLD_DEFAULT, row.per_thread), threads) << row.per_thread;
      EXPECT_NE(symbol, threads);
    }
  }
}

TEST(EntryPoints, WhatIsNotSimulatedSaysSo) {
  auto* const map = reinterpret_cast<CUresult (*)()>(dlsym(RTLD_DEFAULT, "cuGraphicsMapResources"));
  ASSERT_NE(nullptr, map);
  for (const char* line : {"simcuda: cuGraphicsMapResources is not simulated\n", ""}) {
    testing::internal::CaptureStderr();
    EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, map());
    EXPECT_EQ(line, testing::internal::GetCapturedStderr());
  }
}

TEST(EntryPoints, TheVersionChoosesTheForm) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuCtxCreate_v2"), look_up("cuCtxCreate", 11030, 0));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuCtxCreate_v3"), look_up("cuCtxCreate", 11040, 0));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuCtxCreate_v4"), look_up("cuCtxCreate", 13000, 0));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuDeviceGetUuid"), look_up("cuDeviceGetUuid", 9020, 0));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuDeviceGetUuid_v2"), look_up("cuDeviceGetUuid", 11040, 0));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuCtxSynchronize_v2"), look_up("cuCtxSynchronize", 13000, 0));
}

TEST(EntryPoints, WhatIsNotThereIsToldApartFromWhatIsTooNew) {
  void* found = &found;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("cuNoSuchCall", &found, 12000, 0, &status));
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
  EXPECT_EQ(nullptr, found);
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("", &found, 12000, 0, &status));
  EXPECT_EQ(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
  EXPECT_CU(CUDA_ERROR_NOT_FOUND,
            cuGetProcAddress_v2("cuLibraryLoadData", &found, 11080, 0, &status));
  EXPECT_EQ(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, status);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &found, 13010, 0, &status));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2(nullptr, &found, 12000, 0, &status));
  EXPECT_OK(cuGetProcAddress("cuInit", &found, 12000, 0));
  EXPECT_OK(cuGetProcAddress_v2("cuInit", &found, 12000, 0, nullptr));
}

TEST(EntryPoints, ThePerThreadResolverDefaultsToPerThreadForms) {
  void* found = nullptr;
  EXPECT_OK(cuGetProcAddress_v2_ptsz("cuLaunchKernel", &found, 12000, 0, nullptr));
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuLaunchKernel_ptsz"), found);
}

TEST(EntryPoints, ErrorsHaveNamesAndTexts) {
  const char* text = nullptr;
  EXPECT_OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ("CUDA_ERROR_ILLEGAL_ADDRESS", text);
  EXPECT_OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ("out of memory", text);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(static_cast<CUresult>(12345), &text));
  EXPECT_EQ(nullptr, text);
}

TEST(EntryPoints, ThereAreNoExportTables) {
  CUuuid id{};
  const void* table = &id;
  EXPECT_CU(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, &id));
  EXPECT_EQ(nullptr, table);
}

TEST(EntryPoints, NothingIsImported) {
  ASSERT_OK(cuInit(0));
  CUcontext context = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&context, 0, 0));
  CUexternalMemory memory = nullptr;
  CUexternalSemaphore semaphore = nullptr;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalMemory(&memory, nullptr));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalSemaphore(&semaphore, nullptr));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED,
            cuWaitExternalSemaphoresAsync(&semaphore, nullptr, 1, nullptr));
  EXPECT_OK(cuCtxDestroy_v2(context));
}

// In a process of its own, where nothing has called cuInit yet.
int calls_before_init() {
  CUcontext context = nullptr;
  CUdeviceptr address = 0;
  int version = 0;
  int count = 0;
  bool good = cuDriverGetVersion(&version) == CUDA_SUCCESS && version == 13000 &&
              cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
              cuMemAlloc_v2(&address, 16) == CUDA_ERROR_NOT_INITIALIZED &&
              cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED &&
              cuInit(1) == CUDA_ERROR_INVALID_VALUE && cuInit(0) == CUDA_SUCCESS &&
              cuMemAlloc_v2(&address, 16) == CUDA_ERROR_INVALID_CONTEXT;
  return good ? 0 : 1;
}

TEST(Start, NothingWorksBeforeInit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(_exit(calls_before_init()), ::testing::ExitedWithCode(0), "");
}

TEST(Start, AForkedChildHasNoDriver) {
  ASSERT_OK(cuInit(0));
  pid_t child = fork();
  if (child == 0) {
    int count = 0;
    bool good = cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
  int count = 0;
  EXPECT_OK(cuDeviceGetCount(&count));
}

TEST(Devices, TellWhatTheyAre) {
  ASSERT_OK(cuInit(0));
  int value = 0;
  ASSERT_OK(cuDeviceGetCount(&value));
  EXPECT_EQ(1, value);
  CUdevice device = -1;
  ASSERT_OK(cuDeviceGet(&device, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 1));
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
  char name[64] = "";
  EXPECT_OK(cuDeviceGetName(name, sizeof name, device));
  EXPECT_NE(nullptr, std::strstr(name, "simcuda"));
  char cut[4] = "";
  EXPECT_OK(cuDeviceGetName(cut, sizeof cut, device));
  EXPECT_STREQ("sim", cut);
  EXPECT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device));
  EXPECT_EQ(32, value);
  EXPECT_OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  EXPECT_EQ(9, value);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(100000), device));
  size_t bytes = 0;
  EXPECT_OK(cuDeviceTotalMem_v2(&bytes, device));
  EXPECT_EQ(size_t{4} << 30, bytes);
  char bus[16] = "";
  EXPECT_OK(cuDeviceGetPCIBusId(bus, sizeof bus, device));
  CUdevice by_bus = -1;
  EXPECT_OK(cuDeviceGetByPCIBusId(&by_bus, bus));
  EXPECT_EQ(device, by_bus);
  CUuuid one{};
  CUuuid two{};
  EXPECT_OK(cuDeviceGetUuid(&one, device));
  EXPECT_OK(cuDeviceGetUuid_v2(&two, device));
  EXPECT_EQ(0, std::memcmp(&one, &two, sizeof one));
}

TEST(Contexts, ArePushedAndPopped) {
  ASSERT_OK(cuInit(0));
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  CUcontext found = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&first, 0, 0));
  ASSERT_OK(cuCtxCreate_v4(&second, nullptr, CU_CTX_SCHED_YIELD, 0));
  unsigned flags = 0;
  EXPECT_OK(cuCtxGetFlags(&flags));
  EXPECT_EQ(unsigned{CU_CTX_SCHED_YIELD}, flags);
  EXPECT_OK(cuCtxPopCurrent_v2(&found));
  EXPECT_EQ(second, found);
  EXPECT_OK(cuCtxGetCurrent(&found));
  EXPECT_EQ(first, found);
  EXPECT_OK(cuCtxSetCurrent(second));
  EXPECT_OK(cuCtxGetCurrent(&found));
  EXPECT_EQ(second, found);
  EXPECT_OK(cuCtxSetCurrent(nullptr));
  EXPECT_OK(cuCtxGetCurrent(&found));
  EXPECT_EQ(nullptr, found);
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&found));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
  EXPECT_OK(cuCtxSynchronize_v2(first));
  EXPECT_OK(cuCtxDestroy_v2(first));
  EXPECT_OK(cuCtxDestroy_v2(second));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(second));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(second));
}

TEST(Contexts, AreOfTheirThread) {
  ASSERT_OK(cuInit(0));
  CUcontext context = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&context, 0, 0));
  std::thread([context] {
    CUcontext found = context;
    EXPECT_OK(cuCtxGetCurrent(&found));
    EXPECT_EQ(nullptr, found);
    EXPECT_OK(cuCtxSetCurrent(context));
    EXPECT_OK(cuCtxSynchronize());
  }).join();
  std::thread([context] { EXPECT_OK(cuCtxDestroy_v2(context)); }).join();
  EXPECT_CU(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
  CUcontext popped = nullptr;
  EXPECT_OK(cuCtxPopCurrent_v2(&popped));
}

TEST(Contexts, ThePrimaryOneIsCounted) {
  ASSERT_OK(cuInit(0));
  unsigned flags = 0;
  int active = 1;
  EXPECT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(0, active);
  CUcontext one = nullptr;
  CUcontext two = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&one, 0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&two, 0));
  EXPECT_EQ(one, two);
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(one));
  ASSERT_OK(cuCtxSetCurrent(one));
  CUdeviceptr address = 0;
  EXPECT_OK(cuMemAlloc_v2(&address, 64));
  EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_OK(cuMemsetD8_v2(address, 0, 64));
  EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_CU(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemsetD8_v2(address, 0, 64));
  // The same handle again, and the memory of before is gone.
  ASSERT_OK(cuDevicePrimaryCtxRetain(&two, 0));
  EXPECT_EQ(one, two);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(address, 0, 64));
  EXPECT_OK(cuDevicePrimaryCtxReset_v2(0));
  EXPECT_OK(cuCtxSetCurrent(nullptr));
}

TEST(Contexts, LimitsAreKept) {
  ASSERT_OK(cuInit(0));
  CUcontext context = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&context, 0, 0));
  size_t value = 0;
  EXPECT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  EXPECT_OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT_EQ(4096u, value);
  EXPECT_CU(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxSetLimit(static_cast<CUlimit>(77), 1));
  int least = 1;
  int greatest = 1;
  EXPECT_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_EQ(0, least);
  EXPECT_LT(greatest, least);
  EXPECT_OK(cuProfilerStart());
  EXPECT_OK(cuProfilerStop());
  EXPECT_OK(cuCtxDestroy_v2(context));
}

// As libgomp does: a thread's own C++ objects are gone when exit() calls the handlers.
TEST(ProcessEnd, TheContextIsStillCurrentInAnExitHandler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [] {
    EXPECT_OK(cuInit(0));
    std::atexit([] {
      static CUcontext context;
      CUdevice device = -1;
      const bool current = cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr &&
                           cuCtxGetDevice(&device) == CUDA_SUCCESS && device == 0;
      const bool ended = cuStreamSynchronize(CU_STREAM_PER_THREAD) == CUDA_SUCCESS &&
                         cuCtxDestroy_v2(context) == CUDA_SUCCESS;
      if (!current || !ended) _exit(1);
    });
    CUcontext context = nullptr;
    EXPECT_OK(cuCtxCreate_v2(&context, 0, 0));
    EXPECT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    std::exit(0);
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace simcuda::test
