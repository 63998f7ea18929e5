// A small program that says where its memory lies and launches a few kernels; the tests run it with
// settings of their own. Prints one fact a line.

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interpose/cuda/cuda_abi.h"

namespace {

constexpr const char* kPtx =
    ".version 7.0\n.target sm_60\n.address_size 64\n"
    ".visible .global .align 4 .u32 variable = 1;\n"
    ".visible .entry nothing()\n{\n  ret;\n}\n";

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::printf("%s %d\n", call, static_cast<int>(result));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

constexpr size_t kPage = 2 << 20;  // of the device
constexpr CUdeviceptr kFar = 0x5000'0000'0000;
constexpr CUdeviceptr kBlocked = 0x5100'0000'0000;

CUdeviceptr reserved_at(CUdeviceptr hint, size_t bytes) {
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, bytes, 0, hint, 0));
  return address;
}

// Whether it is in the way of host memory.
bool is_in_the_way(CUdeviceptr address) {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address), 1, &resident) == 0;
}

void say_reservations(CUdeviceptr small) {
  CUdeviceptr pooled = 0;
  constexpr size_t kHinted = 32 << 20;
  std::printf("hinted %llx\n", reserved_at(kFar, kHinted));
  std::printf("hinted_page %llx\n", reserved_at(kFar + kHinted, kPage));
  (void)mmap(reinterpret_cast<void*>(kBlocked), kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
             0);
  std::printf("blocked %llx\n", reserved_at(kBlocked, kHinted));
  CHECK(cuMemAllocAsync(&pooled, 100, nullptr));
  std::printf("pooled %llx\nunhinted %llx\n", pooled, reserved_at(0, kPage));
  const CUdeviceptr page = small / kPage * kPage;
  std::printf("in_use %s\n", is_in_the_way(page) ? "yes" : "no");
  CHECK(cuMemFree_v2(small));
  std::printf("freed_page %s\n", reserved_at(page, kPage) == page ? "free" : "kept");
}

}  // namespace

// driver_probe LAUNCHES [kill]: with 'kill' it ends by SIGKILL.
int main(int argc, char** argv) {
  int launches = argc > 1 ? std::atoi(argv[1]) : 0;
  int devices = 0;
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction nothing = nullptr;
  CUdeviceptr small = 0;
  CUdeviceptr large = 0;
  CUdeviceptr managed = 0;
  CUdeviceptr variable = 0;
  void* pinned = nullptr;
  size_t bytes = 0;
  CHECK(cuInit(0));
  CHECK(cuDeviceGetCount(&devices));
  CHECK(cuCtxCreate_v2(&context, 0, devices - 1));
  CHECK(cuDeviceTotalMem_v2(&bytes, 0));
  std::printf("devices %d\nmemory %zu\n", devices, bytes);
  CHECK(cuModuleLoadData(&module, kPtx));
  CHECK(cuModuleGetFunction(&nothing, module, "nothing"));
  CHECK(cuModuleGetGlobal_v2(&variable, &bytes, module, "variable"));
  CHECK(cuMemAlloc_v2(&small, 100));
  CHECK(cuMemAlloc_v2(&large, 5 << 20));
  CHECK(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemAllocHost_v2(&pinned, 100));
  std::printf("small %llx\nlarge %llx\nvariable %llx\n", small, large, variable);
  std::printf("managed %llx\npinned %p\n", managed, pinned);
  CHECK(cuMemsetD8_v2(small, 0, 100));
  for (int i = 0; i < launches; ++i) {
    CHECK(cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr));
  }
  CHECK(cuCtxSynchronize());
  std::fflush(stdout);
  if (argc > 2) kill(getpid(), SIGKILL);
  say_reservations(small);
  return 0;
}
