// Damped pendulums in double precision, with the device's own exp, sin, cos, log and sqrt. The
// host's library rounds its last bit otherwise, so the end result is compared within a tolerance;
// what is printed is exact.
#include <cmath>

#include "program.h"

namespace {

constexpr int kPendulums = 1024;
constexpr int kSubsteps = 4;
constexpr double kStep = 0.005;

struct Pendulum {
  double angle;
  double speed;
  double energy;
};

__host__ __device__ inline void swing(Pendulum& pendulum, int i, int step) {
  const double length = 1.0 + i * 0.001;
  for (int substep = 0; substep < kSubsteps; ++substep) {
    const double time = (step * kSubsteps + substep) * kStep;
    const double damping = 0.05 * exp(-0.1 * time) + 0.01 * log(1.0 + pendulum.energy);
    const double pull = -sin(pendulum.angle) / length;
    pendulum.speed += kStep * (pull - damping * pendulum.speed);
    pendulum.angle += kStep * pendulum.speed;
    pendulum.energy = sqrt(pendulum.speed * pendulum.speed +
                           (1.0 - cos(pendulum.angle)) * (1.0 - cos(pendulum.angle)));
  }
}

__global__ void advance(Pendulum* pendulums, int step) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  Pendulum own = pendulums[i];
  swing(own, i, step);
  pendulums[i] = own;
}

bool close(double a, double b) {
  return std::fabs(a - b) <= 1e-9 * (1.0 + std::fabs(b));
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 2500);
  std::vector<Pendulum> host(kPendulums);
  for (int i = 0; i < kPendulums; ++i) host[i] = {0.1 + i * 0.002, 0.0, 0.5};
  Pendulum* device = upload(host);
  for (int step = 0; step < steps; ++step) {
    advance<<<kPendulums / 64, 64>>>(device, step);
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
    if (step % 8 == 0) {
      const Pendulum some = fetch(device + step % kPendulums, 1)[0];
      std::printf("step %d angle %a speed %a energy %a\n", step, some.angle, some.speed,
                  some.energy);
    }
  }
  const std::vector<Pendulum> result = fetch(device, kPendulums);
  for (int i = 0; i < kPendulums; ++i) {
    for (int step = 0; step < steps; ++step) swing(host[i], i, step);
    if (close(result[i].angle, host[i].angle) && close(result[i].speed, host[i].speed) &&
        close(result[i].energy, host[i].energy)) {
      continue;
    }
    std::printf("FAILED: pendulum %d: %a, the host has %a\n", i, result[i].angle, host[i].angle);
    return 2;
  }
  std::printf("pendulums %016llx\n", static_cast<unsigned long long>(hash_of(result)));
  CHECK(cudaFree(device));
  return finish();
}
