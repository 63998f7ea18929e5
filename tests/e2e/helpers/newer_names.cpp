// SPDX-License-Identifier: Apache-2.0
//
// newer_names WHEN HOW FILE: a program whose runtime is newer than gpusnap. It asks for functions
// of CUDA 13.1
// ("early": before cuInit, "late": after it) by cuGetProcAddress, and calls them ("both", "form",
// "name") or not ("none"). Then it does a step for each synchronisation, the first when there is
// FILE.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "interpose/cuda/cuda_abi.h"

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::printf("%s failed\n", what);
  std::exit(1);
}

template <class F>
F* entry(const char* name, int version = 12000) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  static const auto ask =
      reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(driver, "cuGetProcAddress_v2"));
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  check(ask(name, &found, version, 0, &status) == CUDA_SUCCESS && found != nullptr, name);
  return reinterpret_cast<F*>(found);
}

using LaunchHostFunc = CUresult(CUstream, CUhostFn, void*, unsigned);
using StreamGetWeight = CUresult(CUstream, double, unsigned*);

struct Newer {
  LaunchHostFunc* launch = nullptr;
  StreamGetWeight* weight = nullptr;
};

Newer resolve() {
  return {entry<LaunchHostFunc>("cuLaunchHostFunc", 13010),
          entry<StreamGetWeight>("cuStreamGetWeight", 13010)};
}

void call(const Newer& newer, const std::string& which) {
  if (which == "both" || which == "form") {
    std::atomic<int> ran{0};
    check(newer.launch(
              nullptr, [](void* done) { ++*static_cast<std::atomic<int>*>(done); }, &ran, 0) ==
              CUDA_SUCCESS,
          "the form");
    check(entry<decltype(cuCtxSynchronize)>("cuCtxSynchronize")() == CUDA_SUCCESS, "the wait");
    std::printf("the function ran %d times\n", ran.load());
  }
  if (which == "both" || which == "name") {
    unsigned weight = 0;
    check(newer.weight(nullptr, 1.5, &weight) == CUDA_SUCCESS, "the name");
    std::printf("the weight is %u\n", weight);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool early = std::string(argv[1]) == "early";
  Newer newer;
  if (early) newer = resolve();
  check(entry<decltype(cuInit)>("cuInit")(0) == CUDA_SUCCESS, "cuInit");
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  check(entry<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0) ==
                CUDA_SUCCESS &&
            entry<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context) == CUDA_SUCCESS &&
            entry<decltype(cuMemAlloc_v2)>("cuMemAlloc")(&memory, 4096) == CUDA_SUCCESS,
        "the start");
  if (!early) newer = resolve();
  while (access(argv[3], F_OK) != 0) usleep(1000);
  call(newer, argv[2]);
  for (int step = 0; step < 20; ++step) {
    check(entry<decltype(cuMemsetD8_v2)>("cuMemsetD8")(memory, static_cast<unsigned char>(step),
                                                       4096) == CUDA_SUCCESS &&
              entry<decltype(cuCtxSynchronize)>("cuCtxSynchronize")() == CUDA_SUCCESS,
          "a step");
  }
  unsigned char last = 0;
  check(entry<decltype(cuMemcpyDtoH_v2)>("cuMemcpyDtoH")(&last, memory, 1) == CUDA_SUCCESS,
        "a copy");
  std::printf("%d\nok\n", last);
  return 0;
}
