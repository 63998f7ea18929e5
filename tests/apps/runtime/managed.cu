// Managed and mapped memory: the device writes, the host reads it in place after each
// synchronisation, and what it finds decides what it writes there for the next step.
#include <algorithm>

#include "program.h"

namespace {

constexpr uint32_t kValues = 8192;
constexpr uint32_t kThreads = 128;
constexpr uint32_t kBlocks = kValues / kThreads;

// Registered with the device: host memory that is not the heap's, so that its place is the
// program's own and the same in every run.
alignas(4096) uint32_t sums[4096 / sizeof(uint32_t)];
static_assert(kBlocks <= sizeof(sums) / sizeof(sums[0]));

__host__ __device__ inline uint32_t new_value(uint32_t value, uint32_t turn) {
  for (int round = 0; round < 6; ++round) value = (value ^ turn) * 0x85ebca6bu + (value >> 13);
  return value;
}

// Each block leaves the largest of its values, and their sum, in memory of the host.
__global__ void advance(uint32_t* values, const uint32_t* knob, uint32_t* largest,
                        uint32_t* totals) {
  __shared__ uint32_t most;
  __shared__ uint32_t sum;
  if (threadIdx.x == 0) most = sum = 0;
  __syncthreads();
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = new_value(values[i], *knob);
  atomicMax(&most, values[i]);
  atomicAdd(&sum, values[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    largest[blockIdx.x] = most;
    totals[blockIdx.x] += sum;
  }
}

template <class T>
T* device_view(T* host) {
  void* device = nullptr;
  CHECK(cudaHostGetDevicePointer(&device, host, 0));
  return static_cast<T*>(device);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 4000);
  uint32_t* values = nullptr;
  CHECK(cudaMallocManaged(&values, kValues * sizeof(uint32_t)));
  uint32_t* knob = nullptr;
  CHECK(cudaMallocManaged(&knob, sizeof(uint32_t)));
  *knob = 17;
  void* mapped = nullptr;
  CHECK(cudaHostAlloc(&mapped, kBlocks * sizeof(uint32_t), cudaHostAllocMapped));
  auto* largest = static_cast<uint32_t*>(mapped);
  CHECK(cudaHostRegister(sums, sizeof(sums), cudaHostRegisterMapped));
  std::memset(largest, 0, kBlocks * sizeof(uint32_t));

  std::vector<uint32_t> model(kValues), model_sums(kBlocks, 0);
  for (uint32_t i = 0; i < kValues; ++i) values[i] = model[i] = i * i + 1;
  uint32_t model_knob = *knob;

  for (int step = 1; step <= steps; ++step) {
    advance<<<kBlocks, kThreads>>>(values, knob, device_view(largest), device_view(sums));
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    const uint32_t chosen = static_cast<uint32_t>(step) % kBlocks;
    *knob = largest[chosen] ^ values[chosen * 3] ^ sums[chosen];
    values[chosen] += 1;

    for (uint32_t i = 0; i < kValues; ++i) {
      model[i] = new_value(model[i], model_knob);
      model_sums[i / kThreads] += model[i];
    }
    uint32_t most = 0;
    for (uint32_t i = 0; i < kThreads; ++i) most = std::max(most, model[chosen * kThreads + i]);
    model_knob = most ^ model[chosen * 3] ^ model_sums[chosen];
    model[chosen] += 1;
    if (step % 10 == 0) std::printf("step %d knob %u sum %u\n", step, *knob, sums[chosen]);
  }
  expect_same("value", std::vector<uint32_t>(values, values + kValues), model);
  expect_same("sum", std::vector<uint32_t>(sums, sums + kBlocks), model_sums);
  std::printf("values %016llx\n", static_cast<unsigned long long>(hash_of(model)));
  CHECK(cudaHostUnregister(sums));
  CHECK(cudaFreeHost(mapped));
  CHECK(cudaFree(values));
  CHECK(cudaFree(knob));
  return finish();
}
