// Double-precision mathematics: division, square roots, fused arithmetic, conversions to and from
// integers, compensated sums. The results must equal the host's in every bit.
#include "orbits.h"

#include "app.h"
#include "orbits_ptx.h"

namespace app {

constexpr double kOrbitTime = 0.01;

int run(int steps) {
  const Device device(ContextKind::kOwn);
  const Module module(kOrbitsPtx);
  CUfunction travel = module.function("travel");

  std::vector<Orbit> orbits(kOrbits);
  Random random(41);
  for (Orbit& orbit : orbits) {
    const double distance = 1.0 + static_cast<double>(random.unit());
    const double speed = (0.8 + 0.4 * static_cast<double>(random.unit())) / std::sqrt(distance);
    orbit = {distance, 0, 0, speed, 0, 100.0 * static_cast<double>(random.unit())};
  }
  const Buffer<Orbit> orbits_on_device(orbits);
  const Buffer<double> energies(kOrbits);
  for (int step = 1; step <= steps; ++step) {
    launch(travel, Shape{.blocks = kOrbits / 64, .threads = 64}, nullptr,
           orbits_on_device.address(), energies.address(), kOrbitTime);
    std::vector<double> expected;
    for (Orbit& orbit : orbits) {
      for (int part = 0; part < kParts; ++part) advance(orbit, kOrbitTime);
      expected.push_back(energy(orbit));
    }
    const std::vector<double> found = energies.download();
    double sum = 0;
    for (const double value : found) sum += value;
    std::printf("step %d: energy %.15g, digest %016" PRIx64 "\n", step, sum, digest(found));
    must_equal("energies", found, expected);
  }
  must_equal("orbits", orbits_on_device.download(), orbits);
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 800));
}
