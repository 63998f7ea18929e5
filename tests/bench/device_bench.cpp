// Our kernels on whatever device is there: bytes of device memory a second that are fingerprinted,
// and that are gathered. Where the loader finds no driver with a device, the software GPU of this
// build, whose figures say nothing about a real one.
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "interpose/device/device_code.h"

namespace {

using gpusnap::DeviceCode;

#define BENCH_FUNCTIONS(X)    \
  X(cuInit)                   \
  X(cuDeviceGetCount)         \
  X(cuDeviceGetName)          \
  X(cuDevicePrimaryCtxRetain) \
  X(cuCtxSetCurrent)          \
  X(cuMemAlloc_v2)            \
  X(cuMemFree_v2)             \
  X(cuMemGetInfo_v2)          \
  X(cuMemcpyHtoD_v2)          \
  X(cuMemsetD32_v2)           \
  X(cuStreamSynchronize)

struct Calls {
#define X(name) decltype(&::name) name = nullptr;
  BENCH_FUNCTIONS(X)
#undef X
};

Calls calls;
gpusnap::Driver driver;

bool load(const char* path) {
  void* library = dlopen(path, RTLD_NOW);
  if (library == nullptr) return false;
#define X(name) calls.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));
  BENCH_FUNCTIONS(X)
#undef X
#define X(name) driver.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));
  GPUSNAP_DRIVER_FUNCTIONS(X)
  GPUSNAP_OPTIONAL_DRIVER_FUNCTIONS(X)
#undef X
  int devices = 0;
  return calls.cuInit != nullptr && calls.cuInit(0) == CUDA_SUCCESS &&
         calls.cuDeviceGetCount(&devices) == CUDA_SUCCESS && devices > 0;
}

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "device_bench: %s: error %d\n", what, static_cast<int>(result));
  std::exit(1);
}

struct Device {
  bool simulated = false;
  std::optional<DeviceCode> code;
  uint64_t bytes = 0;  // of the memory that is measured
  CUdeviceptr memory = 0, other = 0;

  Device() {
    if (!load("libcuda.so.1")) {
      simulated = true;
      if (!load(SIMCUDA_DRIVER)) check(CUDA_ERROR_NO_DEVICE, "no driver");
    }
    char name[256] = "";
    check(calls.cuDeviceGetName(name, sizeof name, 0), "cuDeviceGetName");
    simulated = simulated || std::string_view(name).find("simcuda") != std::string_view::npos;
    CUcontext context = nullptr;
    check(calls.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(calls.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    auto loaded = DeviceCode::load(driver);
    if (!loaded.ok()) {
      std::fprintf(stderr, "device_bench: %s\n", loaded.status().message().c_str());
      std::exit(1);
    }
    code = loaded.value();
    size_t free = 0, total = 0;
    check(calls.cuMemGetInfo_v2(&free, &total), "cuMemGetInfo");
    bytes = std::min<uint64_t>(simulated ? 8 << 20 : 8ULL << 30, (free / 2) >> 20 << 20);
    check(calls.cuMemAlloc_v2(&memory, bytes), "cuMemAlloc");
    check(calls.cuMemAlloc_v2(&other, bytes / 2), "cuMemAlloc");
    check(calls.cuMemsetD32_v2(memory, 0x9e3779b1, bytes / 4), "cuMemsetD32");
    benchmark::AddCustomContext("device", name);
  }
};

Device& device() {
  static Device device;
  return device;
}

template <class T>
CUdeviceptr upload(const std::vector<T>& values) {
  CUdeviceptr address = 0;
  check(calls.cuMemAlloc_v2(&address, values.size() * sizeof(T)), "cuMemAlloc");
  check(calls.cuMemcpyHtoD_v2(address, values.data(), values.size() * sizeof(T)), "cuMemcpyHtoD");
  return address;
}

// Arguments: bytes of a zone; how the memory lies modulo 16.
void fingerprints(benchmark::State& state) {
  const Device& d = device();
  const auto zone = static_cast<uint64_t>(state.range(0));
  const auto shift = static_cast<uint64_t>(state.range(1));
  const uint64_t bytes = (shift == 0 ? d.bytes : d.bytes / 8) - 16;
  const uint64_t zones = (bytes + zone - 1) / zone;
  const CUdeviceptr spans = upload(std::vector<DeviceCode::Span>{{d.memory + shift, bytes, 0}});
  CUdeviceptr out = 0;
  check(calls.cuMemAlloc_v2(&out, zones * 8), "cuMemAlloc");
  for (auto step : state) {
    check(d.code->fingerprints(spans, 1, zones, zone, out, nullptr), "cuLaunchKernel");
    check(calls.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
  check(calls.cuMemFree_v2(spans), "cuMemFree");
  check(calls.cuMemFree_v2(out), "cuMemFree");
}
BENCHMARK(fingerprints)
    ->ArgNames({"zone", "shift"})
    ->Args({4 << 10, 0})
    ->Args({64 << 10, 0})
    ->Args({2 << 20, 0})
    ->Args({64 << 10, 1})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

// Every other piece of the memory into one place.
void gather(benchmark::State& state) {
  const Device& d = device();
  const auto size = static_cast<uint64_t>(state.range(0));
  std::vector<DeviceCode::Piece> pieces;
  for (uint64_t at = 0; at + 2 * size <= d.bytes; at += 2 * size) {
    pieces.push_back({d.memory + at, d.other + at / 2, size});
  }
  const CUdeviceptr list = upload(pieces);
  for (auto step : state) {
    check(d.code->gather(list, static_cast<uint32_t>(pieces.size()), nullptr), "cuLaunchKernel");
    check(calls.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  }
  state.SetBytesProcessed(static_cast<int64_t>(pieces.size() * size) * state.iterations());
  check(calls.cuMemFree_v2(list), "cuMemFree");
}
BENCHMARK(gather)
    ->ArgName("piece")
    ->Arg(4 << 10)
    ->Arg(64 << 10)
    ->Arg(1 << 20)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  (void)device();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
