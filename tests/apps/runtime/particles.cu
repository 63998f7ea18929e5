// Bodies that attract each other, all pairs, tile by tile through shared memory.
#include <cmath>
#include <utility>

#include "program.h"

namespace {

constexpr int kBodies = 512;
constexpr int kTile = 64;
constexpr float kStep = 0.001f;

struct Acceleration {
  float x, y, z;
};

__host__ __device__ inline void attract(const float4& self, const float4& other,
                                        Acceleration& sum) {
  const float dx = other.x - self.x;
  const float dy = other.y - self.y;
  const float dz = other.z - self.z;
  const float square = dx * dx + dy * dy + dz * dz + 0.01f;
  const float inverse = 1.0f / sqrtf(square);
  const float pull = other.w * inverse * inverse * inverse;
  sum.x += pull * dx;
  sum.y += pull * dy;
  sum.z += pull * dz;
}

__host__ __device__ inline void move(float4& position, float4& velocity, const Acceleration& sum) {
  velocity.x += kStep * sum.x;
  velocity.y += kStep * sum.y;
  velocity.z += kStep * sum.z;
  position.x += kStep * velocity.x;
  position.y += kStep * velocity.y;
  position.z += kStep * velocity.z;
}

__global__ void advance(const float4* positions, float4* moved, float4* velocities) {
  __shared__ float4 tile[kTile];
  const int body = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float4 self = positions[body];
  Acceleration sum{0, 0, 0};
  for (int first = 0; first < kBodies; first += kTile) {
    tile[threadIdx.x] = positions[first + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) attract(self, tile[i], sum);
    __syncthreads();
  }
  move(self, velocities[body], sum);
  moved[body] = self;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 600);
  std::vector<float4> positions(kBodies), velocities(kBodies, float4{0, 0, 0, 0});
  uint32_t random = 7;
  const auto coordinate = [&] { return static_cast<float>(next_random(random) % 2001) / 1000 - 1; };
  for (float4& body : positions) {
    body.x = coordinate();
    body.y = coordinate();
    body.z = coordinate();
    body.w = static_cast<float>(next_random(random) % 100 + 1) / 100;
  }

  float4* current = upload(positions);
  float4* next = allocate<float4>(kBodies);
  float4* speed = upload(velocities);
  for (int step = 1; step <= steps; ++step) {
    advance<<<kBodies / kTile, kTile>>>(current, next, speed);
    CHECK_LAUNCH();
    std::swap(current, next);
    CHECK(cudaDeviceSynchronize());
    if (step % 2 == 0) {
      const std::vector<float4> some = fetch(current, 4);
      std::printf("step %d first %a %a %a\n", step, some[0].x, some[0].y, some[0].z);
    }
  }
  const std::vector<float4> result = fetch(current, kBodies);
  const std::vector<float4> speeds = fetch(speed, kBodies);

  for (int step = 1; step <= steps; ++step) {
    std::vector<float4> moved = positions;
    for (int body = 0; body < kBodies; ++body) {
      Acceleration sum{0, 0, 0};
      for (const float4& other : positions) attract(positions[body], other, sum);
      move(moved[body], velocities[body], sum);
    }
    positions = moved;
  }
  expect_same("position", result, positions);
  expect_same("velocity", speeds, velocities);
  std::printf("positions %016llx velocities %016llx\n",
              static_cast<unsigned long long>(hash_of(result)),
              static_cast<unsigned long long>(hash_of(speeds)));
  for (float4* memory : {current, next, speed}) CHECK(cudaFree(memory));
  return finish();
}
