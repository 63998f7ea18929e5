// __managed__ variables: kernels write them by name and through pointers, the host reads them in
// place and decides by what it finds what it writes there for the next step. Some are never touched
// by the host before the end.
#include <algorithm>

#include "program.h"

namespace {

constexpr uint32_t kValues = 4096;
constexpr uint32_t kThreads = 128;

struct Knobs {
  uint32_t turn = 7;
  uint32_t mask = 0xff00ff00u;
};

__managed__ uint32_t values[kValues];
__managed__ uint32_t total = 5;
__managed__ Knobs knobs;
__managed__ uint32_t hidden[64] = {1, 2, 3};
__device__ uint32_t rounds = 1;
__device__ uint32_t* where = nullptr;  // one of the managed values

__host__ __device__ inline uint32_t new_value(uint32_t value, uint32_t turn, uint32_t mask) {
  for (int round = 0; round < 4; ++round) value = (value ^ turn) * 0x85ebca6bu + (value & mask);
  return value;
}

__global__ void advance() {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = new_value(values[i], knobs.turn, knobs.mask);
  atomicAdd(&total, values[i]);
  if (i < 64) hidden[i] = hidden[i] * 3 + values[i];
  if (i == 0) ++rounds;
}

__global__ void bump(uint32_t* value, uint32_t by) {
  *value += by;
  where = value;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 4000);
  std::vector<uint32_t> model(kValues), model_hidden(64);
  model_hidden[0] = 1, model_hidden[1] = 2, model_hidden[2] = 3;
  uint32_t model_total = total, model_rounds = 1;
  Knobs model_knobs = knobs;
  if (model_total != 5 || model_knobs.turn != 7) {
    std::printf("FAILED: not as initialised\n");
    return 2;
  }
  for (uint32_t i = 0; i < kValues; ++i) values[i] = model[i] = i * i + 1;

  for (int step = 1; step <= steps; ++step) {
    advance<<<kValues / kThreads, kThreads>>>();
    CHECK_LAUNCH();
    const uint32_t chosen = static_cast<uint32_t>(step) * 37 % kValues;
    bump<<<1, 1>>>(&values[chosen], 9);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    knobs.turn = total ^ values[chosen];
    knobs.mask = values[chosen / 2] | 1;
    values[chosen / 3] -= 4;

    for (uint32_t i = 0; i < kValues; ++i) {
      model[i] = new_value(model[i], model_knobs.turn, model_knobs.mask);
      model_total += model[i];
      if (i < 64) model_hidden[i] = model_hidden[i] * 3 + model[i];
    }
    model[chosen] += 9;
    ++model_rounds;
    model_knobs.turn = model_total ^ model[chosen];
    model_knobs.mask = model[chosen / 2] | 1;
    model[chosen / 3] -= 4;
    if (step % 10 == 0) std::printf("step %d total %u turn %u\n", step, total, knobs.turn);
  }
  expect_same("value", std::vector<uint32_t>(values, values + kValues), model);
  expect_same("hidden", std::vector<uint32_t>(hidden, hidden + 64), model_hidden);
  uint32_t found = 0;
  CHECK(cudaMemcpyFromSymbol(&found, rounds, sizeof(found)));
  uint32_t* last = nullptr;
  CHECK(cudaMemcpyFromSymbol(&last, where, sizeof(last)));
  if (found != model_rounds || last != &values[static_cast<uint32_t>(steps) * 37 % kValues]) {
    std::printf("FAILED: rounds or where\n");
    return 2;
  }
  std::printf("values %016llx\n", static_cast<unsigned long long>(hash_of(model)));
  return finish();
}
