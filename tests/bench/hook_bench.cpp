// Measures the way to the driver: calls of a driver that does nothing, reached as a runtime reaches
// it. scripts/bench runs it with and without the library preloaded; the difference is the library's
// cost. Prints one line for each kind of call: its name, a tab, nanoseconds per call.
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace {

constexpr int kCallsPerBatch = 2000;
constexpr int kBatches = 100;

constexpr char kPtx[] =
    ".version 6.4\n.target sm_70\n.address_size 64\n"
    ".visible .entry fill(.param .u64 data, .param .u32 count)\n{\n"
    "  .reg .b32 %r<2>;\n  .reg .b64 %rd<3>;\n"
    "  ld.param.u64 %rd1, [data];\n  ld.param.u32 %r1, [count];\n"
    "  cvta.to.global.u64 %rd2, %rd1;\n  st.global.u32 [%rd2], %r1;\n  ret;\n}\n";

template <class F>
F* find(void* driver, const char* symbol) {
  auto* function = reinterpret_cast<F*>(dlsym(driver, symbol));
  if (function == nullptr) {
    std::fprintf(stderr, "hook_bench: the driver has no %s\n", symbol);
    _Exit(1);
  }
  return function;
}
#define FIND(symbol) find<decltype(::symbol)>(driver, #symbol)

// The median batch: the first ones meet cold caches, and some meet other processes.
template <class Body>
void measure(const char* name, Body body) {
  std::vector<double> batches;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < kCallsPerBatch; ++call) body();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    batches.push_back(taken.count() / kCallsPerBatch);
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  std::printf("%s\t%.2f\n", name, batches[kBatches / 2]);
}

void run(void* driver) {
  const auto query = FIND(cuStreamQuery);
  const auto version = FIND(cuDriverGetVersion);
  const auto launch = FIND(cuLaunchKernel);
  const auto record = FIND(cuEventRecord);
  const auto synchronise = FIND(cuStreamSynchronize);
  const auto set = FIND(cuMemsetD32Async);

  timespec now = {};
  measure("before cuInit: clock_gettime", [&] { clock_gettime(CLOCK_MONOTONIC, &now); });
  measure("before cuInit: time", [] { (void)time(nullptr); });
  int value = 0;
  measure("not hooked: cuDriverGetVersion", [&] { version(&value); });
  measure("hooked, before cuInit: cuStreamQuery", [&] { query(nullptr); });

  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUdeviceptr data = 0;
  if (FIND(cuInit)(0) != CUDA_SUCCESS) return;
  FIND(cuCtxCreate_v2)(&context, 0, 0);
  FIND(cuModuleLoadData)(&module, kPtx);
  FIND(cuModuleGetFunction)(&function, module, "fill");
  FIND(cuStreamCreate)(&stream, 0);
  FIND(cuEventCreate)(&event, 0);
  FIND(cuMemAlloc_v2)(&data, 1 << 20);

  unsigned count = 1000;
  void* params[] = {&data, &count};
  measure("hooked: cuLaunchKernel",
          [&] { launch(function, 4, 1, 1, 256, 1, 1, 0, stream, params, nullptr); });
  measure("hooked: cuMemsetD32Async", [&] { set(data, 0, 1000, stream); });
  measure("hooked: cuEventRecord", [&] { record(event, stream); });
  measure("hooked: cuStreamQuery", [&] { query(stream); });
  measure("hooked: cuStreamSynchronize", [&] { synchronise(stream); });

  // Memory that the host sees, too: of each call it is asked whether it may write there.
  void* pinned = nullptr;
  FIND(cuMemAllocHost_v2)(&pinned, 1 << 16);
  measure("beside pinned memory: cuLaunchKernel",
          [&] { launch(function, 4, 1, 1, 256, 1, 1, 0, stream, params, nullptr); });
  measure("beside pinned memory: cuMemsetD32Async", [&] { set(data, 0, 1000, stream); });
  measure("beside pinned memory: a launch, a wait", [&] {
    launch(function, 4, 1, 1, 256, 1, 1, 0, stream, params, nullptr);
    synchronise(stream);
  });
}

}  // namespace

int main() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    std::fprintf(stderr, "hook_bench: %s\n", dlerror());
    return 1;
  }
  run(driver);
  return 0;
}
