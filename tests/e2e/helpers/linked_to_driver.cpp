// Linked to libcuda.so.1 the ordinary way.
#include <cstdio>

#include "interpose/cuda/cuda_abi.h"
#include "tests/unit/interpose/fake_driver/fake_driver.h"

int main() {
  CUdeviceptr address = 0;
  const CUresult initialised = cuInit(0), allocated = cuMemAlloc_v2(&address, 16);
  std::printf("results %d %d, driver %d %d\n", initialised, allocated, fake_calls("cuInit"),
              fake_calls("cuMemAlloc_v2"));
}
