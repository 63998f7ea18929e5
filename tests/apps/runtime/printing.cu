// Kernels that print, in between what the host prints, and with an argument one whose assertion
// fails.
#include <cassert>

#include "program.h"

namespace {

__global__ void tell(uint32_t* values, int step) {
  values[threadIdx.x] = values[threadIdx.x] * 3 + static_cast<uint32_t>(step);
  if (threadIdx.x % 16 == 5) {
    printf("device: step %d thread %u value %u %s %5.2f%%\n", step, threadIdx.x,
           values[threadIdx.x], threadIdx.x > 16 ? "upper" : "lower", step * 0.5);
  }
}

__global__ void doubt(const uint32_t* values) {
  assert(values[threadIdx.x] == 0 && "values are not zero");
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 10);
  uint32_t* values = upload(std::vector<uint32_t>(32, 7));
  for (int step = 1; step <= steps; ++step) {
    tell<<<1, 32>>>(values, step);
    CHECK_LAUNCH();
    if (step % 2 == 0) CHECK(cudaDeviceSynchronize());
    std::printf("host: step %d\n", step);
  }
  if (argc > 2) {
    doubt<<<1, 32>>>(values);
    const cudaError_t result = cudaDeviceSynchronize();
    std::printf("assertion: %s\n", cudaGetErrorName(result));
    return result == cudaErrorAssert ? 0 : 2;
  }
  return finish();
}
