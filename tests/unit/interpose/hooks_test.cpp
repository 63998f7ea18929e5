// The way of a call: resolvers, dispatch, activation, fork. The program is linked to the counting
// library, which so stands where a preloaded library stands: before everything that is opened
// later.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "interpose/cuda/cuda_abi.h"
#include "tests/unit/interpose/counting/counting.h"
#include "tests/unit/interpose/fake_driver/fake_driver.h"

namespace {

using GetProcAddress = decltype(&cuGetProcAddress_v2);

// The fake driver, opened as a runtime opens the real one: alone and locally.
struct Driver {
  void* handle = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  decltype(&fake_calls) calls = find<decltype(&fake_calls)>("fake_calls");
  decltype(&fake_allow_init) allow_init = find<decltype(&fake_allow_init)>("fake_allow_init");

  template <class F>
  F find(const char* symbol) const {
    return reinterpret_cast<F>(dlsym(handle, symbol));
  }
};

const Driver& driver() {
  static const Driver opened;
  return opened;
}

void start_session() {
  ASSERT_EQ(driver().find<decltype(&cuInit)>("cuInit")(0), CUDA_SUCCESS);
  ASSERT_EQ(counting_sessions(), 1);
}

// ---- a process without a driver
// ---------------------------------------------------------------------

TEST(NoDriver, LookupsFindNothing) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuInit"), nullptr);
  EXPECT_NE(dlerror(), nullptr);
  EXPECT_EQ(dlvsym(RTLD_DEFAULT, "cuInit", "GLIBC_2.2.5"), nullptr);
  void* program = dlopen(nullptr, RTLD_LAZY);
  EXPECT_EQ(dlsym(program, "cuMemAlloc_v2"), nullptr);
  EXPECT_EQ(dlsym(RTLD_NEXT, "cuInit"), counting_wrapper("cuInit"));  // we do stand behind
}

TEST(NoDriver, OtherLookupsAreTheLibrarys) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "getpid"), reinterpret_cast<void*>(&getpid));
  EXPECT_EQ(dlsym(RTLD_NEXT, "getpid"), reinterpret_cast<void*>(&getpid));
  EXPECT_NE(dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_2.14"), nullptr);
  EXPECT_EQ(dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_9.99"), nullptr);
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "no_such_symbol_anywhere"), nullptr);
}

TEST(NoDriver, OurResolversAreFoundByVersionToo) {
  // How other interposing libraries ask. Not compared with the addresses that this program has: a
  // sanitizer puts functions of its own into that, and asks the same way for what comes next.
  for (const char* symbol : {"dlsym", "dlopen"}) {
    for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5"}) {
      Dl_info found{};
      ASSERT_NE(dladdr(dlvsym(RTLD_NEXT, symbol, version), &found), 0) << symbol << version;
      EXPECT_NE(std::strstr(found.dli_fname, "libcounting"), nullptr) << symbol << found.dli_fname;
      EXPECT_STREQ(found.dli_sname, symbol) << version;
    }
  }
}

TEST(NoDriver, HookedCallsSayThatThereIsNone) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuInit(0), CUDA_ERROR_STUB_LIBRARY);
  EXPECT_EQ(cuMemAlloc_v2(&address, 16), CUDA_ERROR_STUB_LIBRARY);
  void* function = nullptr;
  EXPECT_EQ(cuGetProcAddress("cuInit", &function, 12000, 0), CUDA_ERROR_STUB_LIBRARY);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(counting_sessions(), 0);
}

// ---- dlsym
// ------------------------------------------------------------------------------------------

TEST(Dlsym, GivesWrappersForHookedSymbolsOnly) {
  EXPECT_EQ(dlsym(driver().handle, "cuMemAlloc_v2"), counting_wrapper("cuMemAlloc_v2"));
  // The driver has no versions.
  EXPECT_EQ(dlvsym(driver().handle, "cuMemAlloc_v2", "CUDA_13"), nullptr);
  EXPECT_NE(dlsym(driver().handle, "cuMemcpyHtoD_v2"),
            dlsym(driver().handle, "cuMemcpyHtoD_v2_ptds"));
  // Not hooked, and names that only begin like ours.
  EXPECT_EQ(counting_wrapper("cuDriverGetVersion"), nullptr);
  EXPECT_NE(dlsym(driver().handle, "cuDriverGetVersion"), nullptr);
  EXPECT_NE(dlsym(driver().handle, "cudnnLookalike"), nullptr);
  EXPECT_EQ(dlsym(driver().handle, "cuMemAlloc_v2x"), nullptr);
  // Hooked, but this driver is too old to have it.
  EXPECT_NE(counting_wrapper("cuLaunchKernelEx"), nullptr);
  EXPECT_EQ(dlsym(driver().handle, "cuLaunchKernelEx"), nullptr);
}

TEST(Dlsym, TheHandleDecides) {
  void* math = dlopen("libm.so.6", RTLD_NOW);
  EXPECT_EQ(dlsym(math, "cuMemAlloc_v2"), nullptr);
  EXPECT_NE(dlsym(math, "cos"), nullptr);
  // Opened locally, the driver is not in the global scope.
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"), nullptr);
}

TEST(Dlsym, CallsReachTheDriver) {
  const auto copy = driver().find<decltype(&cuMemcpyHtoD_v2)>("cuMemcpyHtoD_v2_ptds");
  const int before = driver().calls("cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(copy(0, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver().calls("cuMemcpyHtoD_v2_ptds"), before + 1);
  EXPECT_EQ(driver().calls("cuMemcpyHtoD_v2"), 0);
}

TEST(Dlsym, ExportsFindALocallyOpenedDriver) {
  const int before = driver().calls("cuEventQuery");
  EXPECT_EQ(cuEventQuery(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(driver().calls("cuEventQuery"), before + 1);
}

// ---- cuGetProcAddress
// -------------------------------------------------------------------------------

struct Asked {
  const char* name;
  int version;
  cuuint64_t flags;
  const char* symbol;  // whose wrapper comes back; null: the driver's own function
};

class ProcAddress : public testing::TestWithParam<Asked> {};

TEST_P(ProcAddress, AnswersByNameVersionAndFlags) {
  const auto [name, version, flags, symbol] = GetParam();
  const auto ask = driver().find<GetProcAddress>("cuGetProcAddress_v2");
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  ASSERT_EQ(ask(name, &function, version, flags, &status), CUDA_SUCCESS);
  ASSERT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  ASSERT_NE(function, nullptr);
  Dl_info info{};
  ASSERT_NE(dladdr(function, &info), 0);
  if (symbol != nullptr) {
    EXPECT_EQ(function, counting_wrapper(symbol));
  } else {
    EXPECT_NE(std::strstr(info.dli_fname, "libcuda.so.1"), nullptr) << info.dli_fname;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, ProcAddress,
    testing::Values(Asked{"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
                    Asked{"cuMemAlloc", 13000, 2, "cuMemAlloc_v2"},
                    Asked{"cuMemAlloc", 2000, 0, "cuMemAlloc"},
                    Asked{"cuMemAlloc", 13010, 0, "cuMemAlloc_v2"},    // later, still the same
                    Asked{"cuCtxCreate", 12040, 0, "cuCtxCreate_v2"},  // this driver has no v3
                    Asked{"cuCtxCreate", 12050, 0, "cuCtxCreate_v4"},
                    Asked{"cuMemcpyHtoD", 7000, 0, "cuMemcpyHtoD_v2"},
                    Asked{"cuMemcpyHtoD", 7000, 1, "cuMemcpyHtoD_v2"},
                    Asked{"cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"},
                    Asked{"cuMemcpyHtoD", 6050, 2, "cuMemcpyHtoD_v2"},
                    Asked{"cuMemcpyBatchAsync", 12080, 2, "cuMemcpyBatchAsync_ptsz"},
                    Asked{"cuMemcpyBatchAsync", 13000, 2, "cuMemcpyBatchAsync_v2_ptsz"},
                    Asked{"cuMemcpyBatchAsync", 13000, 0, "cuMemcpyBatchAsync_v2"},
                    // Older than what it is asked for: it answers with the last form that it has.
                    Asked{"cuStreamUpdateCaptureDependencies", 12030, 0,
                          "cuStreamUpdateCaptureDependencies"},
                    Asked{"cuStreamUpdateCaptureDependencies", 13010, 2,
                          "cuStreamUpdateCaptureDependencies_ptsz"},
                    // It has one form for both kinds of null stream.
                    Asked{"cuStreamQuery", 13000, 2, "cuStreamQuery"},
                    Asked{"cuGetProcAddress", 11080, 0, "cuGetProcAddress"},
                    Asked{"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
                    Asked{"cuGetProcAddress", 12000, 2, "cuGetProcAddress_v2_ptsz"},
                    Asked{"cuDriverGetVersion", 13000, 0, nullptr}));

TEST(ProcAddressMore, PerThreadFormHasItsOwnDefault) {
  const auto ask = driver().find<GetProcAddress>("cuGetProcAddress_v2_ptsz");
  void* function = nullptr;
  ASSERT_EQ(ask("cuStreamSynchronize", &function, 13000, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(function, counting_wrapper("cuStreamSynchronize_ptsz"));
  ASSERT_EQ(ask("cuStreamSynchronize", &function, 13000, 1, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(function, counting_wrapper("cuStreamSynchronize"));
}

TEST(ProcAddressMore, FirstFormAnswersToo) {
  const auto ask = driver().find<decltype(&cuGetProcAddress)>("cuGetProcAddress");
  void* function = nullptr;
  ASSERT_EQ(ask("cuLaunchKernel", &function, 11080, 2), CUDA_SUCCESS);
  EXPECT_EQ(function, counting_wrapper("cuLaunchKernel_ptsz"));
}

TEST(ProcAddressMore, FailuresAreTheDriversOwn) {
  const auto ask = driver().find<GetProcAddress>("cuGetProcAddress_v2");
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  EXPECT_EQ(ask("cuLaunchKernelEx", &function, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(function, reinterpret_cast<void*>(0x666));
  EXPECT_EQ(ask("cuMemcpyHtoD", &function, 2000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(function, reinterpret_cast<void*>(0x666));
  EXPECT_EQ(ask("cuLaunchKernelEx", &function, 13000, 0, nullptr), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(ask("", &function, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(ask(nullptr, &function, 13000, 0, &status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ask("cuInit", nullptr, 13000, 0, &status), CUDA_ERROR_INVALID_VALUE);
}

// The answer to that name, of an interface that is newer than ours.
void* find_newer(const std::string& name) {
  const auto ask = driver().find<GetProcAddress>("cuGetProcAddress_v2");
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  EXPECT_EQ(ask(name.c_str(), &function, 14000, 0, &status), CUDA_SUCCESS) << name;
  EXPECT_NE(function, nullptr) << name;
  return function;
}

TEST(ProcAddressMore, ANewerInterfaceIsAThunkOfOurs) {
  void* const found = find_newer("cuMemAlloc");
  EXPECT_EQ(find_newer("cuMemAlloc"), found);
  EXPECT_NE(find_newer("cuStreamWeigh"), found);
  Dl_info info{};
  ASSERT_NE(dladdr(found, &info), 0);
  EXPECT_EQ(std::strstr(info.dli_fname, "libcuda.so.1"), nullptr) << info.dli_fname;
  EXPECT_STREQ(counting_lost_sight(), "");
}

TEST(Dlsym, AFunctionThatNoTableHasIsAThunkOfOurs) {
  Dl_info info{};
  ASSERT_NE(dladdr(dlsym(driver().handle, "cuStreamWeigh"), &info), 0);
  EXPECT_EQ(std::strstr(info.dli_fname, "libcuda.so.1"), nullptr) << info.dli_fname;
  ASSERT_NE(dladdr(dlsym(driver().handle, "cuDriverGetVersion"), &info), 0);
  EXPECT_NE(std::strstr(info.dli_fname, "libcuda.so.1"), nullptr) << info.dli_fname;
}

// ---- dispatch, activation
// ---------------------------------------------------------------------------

// Each of these is a process of its own: the test program is run once for each of them.
TEST(Process, NothingIsHandledBeforeInit) {
  CUdeviceptr address = 0;
  const auto allocate = driver().find<decltype(&cuMemAlloc_v2)>("cuMemAlloc_v2");
  EXPECT_EQ(allocate(&address, 16), CUDA_SUCCESS);
  EXPECT_EQ(counting_handled("cuMemAlloc_v2"), 0);

  const auto init = driver().find<decltype(&cuInit)>("cuInit");
  driver().allow_init(false);
  EXPECT_EQ(init(0), CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(counting_sessions(), 0);
  EXPECT_EQ(allocate(&address, 16), CUDA_SUCCESS);
  EXPECT_EQ(counting_handled("cuMemAlloc_v2"), 0);

  driver().allow_init(true);
  EXPECT_EQ(init(0), CUDA_SUCCESS);
  EXPECT_EQ(counting_sessions(), 1);
  EXPECT_EQ(counting_handled("cuInit"), 0);
  EXPECT_EQ(init(0), CUDA_SUCCESS);
  EXPECT_EQ(counting_sessions(), 1);
  EXPECT_EQ(counting_handled("cuInit"), 1);
  EXPECT_EQ(allocate(&address, 16), CUDA_SUCCESS);
  EXPECT_EQ(counting_handled("cuMemAlloc_v2"), 1);
  EXPECT_STREQ(counting_last_kind(), "mem_alloc");
  EXPECT_EQ(address, 0x1000u);
}

// All arguments come through, in registers of both kinds and on the stack.
using StreamWeigh = double(int, double, int, double, int, float, int, double, int, double, int,
                           double, int, double, int, double, int, double);

TEST(Process, TheFirstCallOfANewerFunctionIsReported) {
  std::string name = "cuStreamWeigh";
  auto* const weigh = reinterpret_cast<StreamWeigh*>(find_newer(name));
  name = "gone since";
  const auto call = [weigh] {
    return weigh(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18);
  };
  constexpr double kSumOfSquares = 18 * 19 * 37 / 6;
  EXPECT_EQ(call(), kSumOfSquares);
  EXPECT_STREQ(counting_lost_sight(), "") << "nothing is followed yet";
  start_session();
  (void)find_newer("cuMemAlloc");
  EXPECT_STREQ(counting_lost_sight(), "");
  EXPECT_EQ(call(), kSumOfSquares);
  EXPECT_STREQ(counting_lost_sight(), "cuStreamWeigh");
  CUdeviceptr address = 0;
  EXPECT_EQ(reinterpret_cast<decltype(&cuMemAlloc_v2)>(find_newer("cuMemAlloc"))(&address, 16),
            CUDA_SUCCESS);
  EXPECT_STREQ(counting_lost_sight(), "cuMemAlloc");
}

TEST(Process, OneSessionWhoeverIsFirst) {
  const auto init = driver().find<decltype(&cuInit)>("cuInit");
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { EXPECT_EQ(init(0), CUDA_SUCCESS); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counting_sessions(), 1);
  EXPECT_EQ(driver().calls("cuInit"), 8);
}

TEST(Process, TheDriversOwnCallsPassThrough) {
  start_session();
  const auto synchronise = driver().find<decltype(&cuCtxSynchronize)>("cuCtxSynchronize");
  EXPECT_EQ(synchronise(), CUDA_SUCCESS);
  EXPECT_EQ(counting_handled("cuCtxSynchronize"), 1);
  EXPECT_EQ(driver().calls("cuMemAlloc_v2"), 1);
  EXPECT_EQ(counting_handled("cuMemAlloc_v2"), 0);
}

TEST(Process, TheGuardIsTheThreadsOwn) {
  start_session();
  counting_with_guard([] {
    const auto query = driver().find<decltype(&cuStreamQuery)>("cuStreamQuery");
    EXPECT_EQ(query(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(counting_handled("cuStreamQuery"), 0);
    std::thread([&] { EXPECT_EQ(query(nullptr), CUDA_SUCCESS); }).join();
    EXPECT_EQ(counting_handled("cuStreamQuery"), 1);
  });
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(counting_handled("cuStreamQuery"), 2);
}

TEST(Process, AForkedChildIsLeftAlone) {
  start_session();
  const auto query = driver().find<decltype(&cuStreamQuery)>("cuStreamQuery");
  const pid_t child = fork();
  if (child == 0) {
    const auto init = driver().find<decltype(&cuInit)>("cuInit");
    const bool passed =
        query(nullptr) == CUDA_SUCCESS && init(0) == CUDA_SUCCESS && query(nullptr) == CUDA_SUCCESS;
    const bool alone =
        counting_handled("cuStreamQuery") == 0 && counting_sessions() == 1 && counting_abandoned();
    _exit(passed && alone ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(query(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(counting_handled("cuStreamQuery"), 1);
  EXPECT_FALSE(counting_abandoned());
}

TEST(Process, AChildForkedBeforeInitIsItsOwnProcess) {
  const pid_t child = fork();
  if (child == 0) {
    start_session();
    const auto query = driver().find<decltype(&cuStreamQuery)>("cuStreamQuery");
    _exit(query(nullptr) == CUDA_SUCCESS && counting_handled("cuStreamQuery") == 1 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(counting_sessions(), 0);
}

}  // namespace
