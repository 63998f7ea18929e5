// Heat in a plate whose conductivity differs from place to place. The kernel gets one structure by
// value that holds all pointers.
#include <utility>

#include "program.h"

namespace {

constexpr int kWidth = 128;
constexpr int kHeight = 96;
constexpr int kCells = kWidth * kHeight;

struct Plate {
  const float* heat;
  float* next;
  const float* conductivity;
  int width;
  int height;
  float step;
};

__host__ __device__ inline float new_heat(const Plate& plate, int x, int y) {
  const int i = y * plate.width + x;
  if (x == 0 || y == 0 || x == plate.width - 1 || y == plate.height - 1) return plate.heat[i];
  const float flow = plate.heat[i - 1] + plate.heat[i + 1] + plate.heat[i - plate.width] +
                     plate.heat[i + plate.width] - 4.0f * plate.heat[i];
  return plate.heat[i] + plate.step * plate.conductivity[i] * flow;
}

__global__ void advance(Plate plate) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x < plate.width && y < plate.height) plate.next[y * plate.width + x] = new_heat(plate, x, y);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 4000);
  std::vector<float> heat(kCells), conductivity(kCells);
  uint32_t random = 1;
  for (int i = 0; i < kCells; ++i) {
    heat[i] = static_cast<float>(next_random(random) % 1000);
    conductivity[i] = static_cast<float>(next_random(random) % 200 + 1) / 200.0f;
  }

  float* current = upload(heat);
  float* next = upload(heat);
  float* where = upload(conductivity);
  const dim3 block(32, 8);
  const dim3 grid((kWidth + 31) / 32, (kHeight + 7) / 8);
  for (int step = 1; step <= steps; ++step) {
    advance<<<grid, block>>>(Plate{current, next, where, kWidth, kHeight, 0.2f});
    CHECK_LAUNCH();
    std::swap(current, next);
    if (step % 5 == 0) CHECK(cudaDeviceSynchronize());
    if (step % 20 == 0) {
      const std::vector<float> row = fetch(current + kHeight / 2 * kWidth, kWidth);
      std::printf("step %d middle %a row %016llx\n", step, row[kWidth / 2],
                  static_cast<unsigned long long>(hash_of(row)));
    }
  }
  const std::vector<float> result = fetch(current, kCells);

  std::vector<float> spare = heat;
  for (int step = 1; step <= steps; ++step) {
    const Plate plate{heat.data(), spare.data(), conductivity.data(), kWidth, kHeight, 0.2f};
    for (int i = 0; i < kCells; ++i) spare[i] = new_heat(plate, i % kWidth, i / kWidth);
    std::swap(heat, spare);
  }
  expect_same("heat", result, heat);
  std::printf("plate %016llx\n", static_cast<unsigned long long>(hash_of(result)));
  for (float* memory : {current, next, where}) CHECK(cudaFree(memory));
  return finish();
}
