// A libcuda.so.1 that does nothing but count its calls, for tests and benchmarks of the way there.
#include "tests/unit/interpose/fake_driver/fake_driver.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "interpose/cuda/cuda_abi.h"

#define EXPORT extern "C"

namespace {

std::atomic<bool> init_allowed{true};

struct Counter {
  const char* symbol;
  std::atomic<int> calls{0};
};

// Every exported function with its own counter.
// The formatter breaks such a list differently each time.
// clang-format off
#define COUNTED(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuCtxCreate_v2) X(cuCtxCreate_v4) X(cuCtxSynchronize) \
  X(cuMemAlloc) X(cuMemAlloc_v2) X(cuMemAlloc_v3) X(cuMemcpyHtoD_v2) X(cuMemcpyHtoD_v2_ptds) \
  X(cuMemcpyBatchAsync) X(cuMemcpyBatchAsync_ptsz) X(cuMemcpyBatchAsync_v2) \
  X(cuMemcpyBatchAsync_v2_ptsz) X(cuStreamSynchronize) X(cuStreamSynchronize_ptsz) \
  X(cuStreamQuery) X(cuEventQuery) X(cuLaunchKernel) X(cuLaunchKernel_ptsz) \
  X(cuStreamUpdateCaptureDependencies) X(cuStreamUpdateCaptureDependencies_ptsz) \
  X(cudnnLookalike)
// clang-format on

enum Index {
#define X(name) at_##name,
  COUNTED(X)
#undef X
};
Counter counters[] = {
#define X(name) {#name},
    COUNTED(X)
#undef X
};

CUresult count(Index index) {
  counters[index].calls.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

}  // namespace

EXPORT int fake_calls(const char* symbol) {
  for (const Counter& counter : counters) {
    if (std::strcmp(counter.symbol, symbol) == 0) return counter.calls.load();
  }
  return -1;
}

EXPORT void fake_allow_init(bool allowed) {
  init_allowed = allowed;
}

EXPORT CUresult cuInit(unsigned) {
  count(at_cuInit);
  return init_allowed ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
EXPORT CUresult cuDriverGetVersion(int* version) {
  *version = GPUSNAP_CUDA_VERSION;
  return count(at_cuDriverGetVersion);
}
EXPORT CUresult cuCtxCreate_v2(CUcontext*, unsigned, CUdevice) {
  return count(at_cuCtxCreate_v2);
}
EXPORT CUresult cuCtxCreate_v4(CUcontext*, CUctxCreateParams*, unsigned, CUdevice) {
  return count(at_cuCtxCreate_v4);
}
EXPORT CUresult cuMemAlloc(unsigned*, unsigned) {
  return count(at_cuMemAlloc);
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t) {
  *address = 0x1000;
  return count(at_cuMemAlloc_v2);
}
// A later CUDA might bring this: the same name with another signature.
EXPORT CUresult cuMemAlloc_v3(CUdeviceptr*, size_t, int) {
  return count(at_cuMemAlloc_v3);
}
// As no driver has: the sum of the products of each argument with its place.
EXPORT double cuStreamWeigh(int a, double b, int c, double d, int e, float f, int g, double h,
                            int i, double j, int k, double l, int m, double n, int o, double p,
                            int q, double r) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * static_cast<double>(f) + 7 * g + 8 * h + 9 * i +
         10 * j + 11 * k + 12 * l + 13 * m + 14 * n + 15 * o + 16 * p + 17 * q + 18 * r;
}
// Calls itself, by a symbol that may be bound to someone else.
EXPORT CUresult cuCtxSynchronize() {
  CUdeviceptr address = 0;
  auto* allocate = reinterpret_cast<decltype(&cuMemAlloc_v2)>(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
  const CUresult result = allocate(&address, 1);
  return result == CUDA_SUCCESS ? count(at_cuCtxSynchronize) : result;
}
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void*, size_t) {
  return count(at_cuMemcpyHtoD_v2);
}
EXPORT CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr, const void*, size_t) {
  return count(at_cuMemcpyHtoD_v2_ptds);
}
EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*,
                                   size_t*, size_t, size_t*, CUstream) {
  return count(at_cuMemcpyBatchAsync);
}
EXPORT CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr*, CUdeviceptr*, size_t*, size_t,
                                        CUmemcpyAttributes*, size_t*, size_t, size_t*, CUstream) {
  return count(at_cuMemcpyBatchAsync_ptsz);
}
EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr*, CUdeviceptr*, size_t*, size_t,
                                      CUmemcpyAttributes*, size_t*, size_t, CUstream) {
  return count(at_cuMemcpyBatchAsync_v2);
}
EXPORT CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr*, CUdeviceptr*, size_t*, size_t,
                                           CUmemcpyAttributes*, size_t*, size_t, CUstream) {
  return count(at_cuMemcpyBatchAsync_v2_ptsz);
}
EXPORT CUresult cuStreamSynchronize(CUstream) {
  return count(at_cuStreamSynchronize);
}
EXPORT CUresult cuStreamSynchronize_ptsz(CUstream) {
  return count(at_cuStreamSynchronize_ptsz);
}
EXPORT CUresult cuStreamQuery(CUstream) {
  return count(at_cuStreamQuery);
}
EXPORT CUresult cuEventQuery(CUevent) {
  return count(at_cuEventQuery);
}
EXPORT CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, unsigned, CUstream, void**, void**) {
  return count(at_cuLaunchKernel);
}
EXPORT CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    unsigned, unsigned, CUstream, void**, void**) {
  return count(at_cuLaunchKernel_ptsz);
}
EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream, CUgraphNode*, size_t, unsigned) {
  return count(at_cuStreamUpdateCaptureDependencies);
}
EXPORT CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream, CUgraphNode*, size_t, unsigned) {
  return count(at_cuStreamUpdateCaptureDependencies_ptsz);
}
EXPORT int cudnnLookalike() {
  return count(at_cudnnLookalike);
}

namespace {

struct Answer {
  const char* name;
  int since;
  void* plain;
  void* per_thread;
};

template <class F>
void* at(F& function) {
  return reinterpret_cast<void*>(function);
}

const Answer answers[] = {
    {"cuInit", 2000, at(cuInit), at(cuInit)},
    {"cuDriverGetVersion", 2020, at(cuDriverGetVersion), at(cuDriverGetVersion)},
    {"cuCtxCreate", 3020, at(cuCtxCreate_v2), at(cuCtxCreate_v2)},
    {"cuCtxCreate", 12050, at(cuCtxCreate_v4), at(cuCtxCreate_v4)},
    {"cuMemAlloc", 2000, at(cuMemAlloc), at(cuMemAlloc)},
    {"cuMemAlloc", 3020, at(cuMemAlloc_v2), at(cuMemAlloc_v2)},
    {"cuMemAlloc", 14000, at(cuMemAlloc_v3), at(cuMemAlloc_v3)},
    {"cuStreamWeigh", 14000, at(cuStreamWeigh), at(cuStreamWeigh)},
    {"cuMemcpyHtoD", 3020, at(cuMemcpyHtoD_v2), at(cuMemcpyHtoD_v2_ptds)},
    {"cuMemcpyBatchAsync", 12080, at(cuMemcpyBatchAsync), at(cuMemcpyBatchAsync_ptsz)},
    {"cuMemcpyBatchAsync", 13000, at(cuMemcpyBatchAsync_v2), at(cuMemcpyBatchAsync_v2_ptsz)},
    {"cuStreamSynchronize", 2000, at(cuStreamSynchronize), at(cuStreamSynchronize_ptsz)},
    {"cuStreamQuery", 2000, at(cuStreamQuery), at(cuStreamQuery)},
    {"cuLaunchKernel", 4000, at(cuLaunchKernel), at(cuLaunchKernel_ptsz)},
    // As in a driver from before CUDA 12.3, which has no second form.
    {"cuStreamUpdateCaptureDependencies", 11030, at(cuStreamUpdateCaptureDependencies),
     at(cuStreamUpdateCaptureDependencies_ptsz)},
    {"cuGetProcAddress", 11030, at(cuGetProcAddress), at(cuGetProcAddress)},
    {"cuGetProcAddress", 12000, at(cuGetProcAddress_v2), at(cuGetProcAddress_v2_ptsz)},
};

CUdriverProcAddressQueryResult look_up(const char* name, void** function, int version,
                                       bool per_thread) {
  *function = nullptr;
  bool known = false;
  for (const Answer& answer : answers) {
    if (std::strcmp(answer.name, name) != 0) continue;
    known = true;
    if (answer.since <= version) {
      *function = per_thread && version >= 7000 ? answer.per_thread : answer.plain;
    }
  }
  if (*function != nullptr) return CU_GET_PROC_ADDRESS_SUCCESS;
  return known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

CUresult answer(const char* name, void** function, int version, bool per_thread,
                CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUdriverProcAddressQueryResult found = look_up(name, function, version, per_thread);
  if (status != nullptr) *status = found;
  if (found == CU_GET_PROC_ADDRESS_SUCCESS) return CUDA_SUCCESS;
  // Nothing may be concluded from what stands there after a failure.
  *function = reinterpret_cast<void*>(0x666);
  return status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;

}  // namespace

EXPORT CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return answer(name, function, version, (flags & kPerThread) != 0, nullptr);
}
EXPORT CUresult cuGetProcAddress_v2(const char* name, void** function, int version,
                                    cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  return answer(name, function, version, (flags & kPerThread) != 0, status);
}
EXPORT CUresult cuGetProcAddress_v2_ptsz(const char* name, void** function, int version,
                                         cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  return answer(name, function, version, (flags & kLegacy) == 0, status);
}
