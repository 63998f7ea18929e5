// Reaches the driver as a runtime does, and prints what it got and from where.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "interpose/cuda/cuda_abi.h"

namespace {

const char* library_of(void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0) return "nowhere";
  const char* slash = std::strrchr(info.dli_fname, '/');
  return slash != nullptr ? slash + 1 : info.dli_fname;
}

template <class F>
F* find(void* handle, const char* symbol) {
  void* found = dlsym(handle, symbol);
  std::printf("%s from %s\n", symbol, library_of(found));
  return reinterpret_cast<F*>(found);
}

}  // namespace

int main() {
  (void)getppid();
  (void)getpgrp();
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return 1;
  const auto init = find<decltype(cuInit)>(driver, "cuInit");
  const auto allocate = find<decltype(cuMemAlloc_v2)>(driver, "cuMemAlloc_v2");
  find<decltype(cuDriverGetVersion)>(driver, "cuDriverGetVersion");
  CUdeviceptr address = 0;
  const CUresult initialised = init(0), allocated = allocate(&address, 16);
  std::printf("results %d %d, address %llx\n", initialised, allocated, address);

  const auto calls = find<int(const char*)>(driver, "fake_calls");
  std::printf("driver: %d %d\n", calls("cuInit"), calls("cuMemAlloc_v2"));
  // Where the counting library is preloaded, it says what it has seen.
  const auto handled =
      reinterpret_cast<int (*)(const char*)>(dlsym(RTLD_DEFAULT, "counting_handled"));
  if (handled != nullptr) std::printf("handled: %d\n", handled("cuMemAlloc_v2"));
  return 0;
}
