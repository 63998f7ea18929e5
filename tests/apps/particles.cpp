// Bodies that attract each other: shared memory whose size is chosen at the launch, two buffers
// taking turns, and velocities that are updated in place.
#include "particles.h"

#include "app.h"

namespace app {

constexpr unsigned kCount = 512;
constexpr unsigned kThreads = 128;
constexpr float kTime = 0.002f;

void advance_on_host(std::vector<Body>& bodies, std::vector<Body>& velocities) {
  const std::vector<Body> before = bodies;
  for (size_t self = 0; self < before.size(); ++self) {
    float ax = 0, ay = 0, az = 0;
    for (const Body& other : before) attract(before[self], other, ax, ay, az);
    move(bodies[self], velocities[self], ax, ay, az, kTime);
  }
}

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const Module module("particles.ptx");
  CUfunction kernel = module.function("advance");

  std::vector<Body> bodies(kCount), velocities(kCount, Body{0, 0, 0, 0});
  Random random(11);
  for (Body& body : bodies) {
    body = {random.unit() - 0.5f, random.unit() - 0.5f, random.unit() - 0.5f,
            random.unit() / kCount};
  }
  Buffer<Body> now(bodies), next(bodies.size());
  const Buffer<Body> velocity(velocities);
  for (int step = 1; step <= steps; ++step) {
    const Shape shape{
        .blocks = kCount / kThreads, .threads = kThreads, .shared_bytes = kThreads * sizeof(Body)};
    launch(kernel, shape, nullptr, now.address(), next.address(), velocity.address(),
           static_cast<int>(kCount), kTime);
    std::swap(now, next);
    advance_on_host(bodies, velocities);
    const std::vector<Body> places = now.download();
    std::printf("step %d: first at %.9g %.9g %.9g, digest %016" PRIx64 "\n", step,
                static_cast<double>(places[0].x), static_cast<double>(places[0].y),
                static_cast<double>(places[0].z), digest(places));
    must_equal("positions", places, bodies);
  }
  must_equal("velocities", velocity.download(), velocities);
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 200));
}
