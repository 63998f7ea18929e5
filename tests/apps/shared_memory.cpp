// Memory that host and device both see: managed memory read and written in place on both sides, and
// mapped host memory that kernels write.
#include "shared_memory.h"

#include <algorithm>

#include "app.h"
#include "shared_memory_ptx.h"

namespace app {

// Managed memory for `count` objects.
template <class T>
class Managed {
 public:
  explicit Managed(size_t count) : count_(count) {
    CHECK(cuMemAllocManaged(&address_, count * sizeof(T), CU_MEM_ATTACH_GLOBAL));
  }
  ~Managed() { CHECK(cuMemFree_v2(address_)); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  CUdeviceptr address() const { return address_; }
  T& operator[](size_t index) { return reinterpret_cast<T*>(address_)[index]; }
  std::vector<T> copy() const {
    const T* data = reinterpret_cast<const T*>(address_);
    return {data, data + count_};
  }

 private:
  CUdeviceptr address_ = 0;
  size_t count_;
};

struct HostPoints {
  std::vector<double> positions = std::vector<double>(kPoints, 0.0);
  std::vector<double> speeds = std::vector<double>(kPoints, 0.0);
  std::vector<double> forces = std::vector<double>(kPoints, 0.0);

  Report swing(unsigned block, unsigned step) {
    Report report{0, step, 0};
    for (unsigned at = block * kPointThreads; at < (block + 1) * kPointThreads; ++at) {
      const double before = positions[at];
      positions[at] = swung(before, speeds[at], forces[at]);
      if (at % kPointThreads == 0 || positions[at] > report.largest) {
        report.largest = positions[at];
      }
      report.crossed += (before < 0) != (positions[at] < 0) ? 1 : 0;
    }
    return report;
  }
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const Module module(kSharedMemoryPtx);
  CUfunction swing = module.function("swing");

  Managed<double> positions(kPoints), forces(kPoints);
  Pinned<Report> reports(kPointBlocks, CU_MEMHOSTALLOC_DEVICEMAP);
  const Buffer<double> speeds(std::vector<double>(kPoints, 0.0));
  HostPoints host;
  for (unsigned at = 0; at < kPoints; ++at) positions[at] = forces[at] = 0.0;

  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Random random(5);
  for (int step = 1; step <= steps; ++step) {
    for (int change = 0; change < 200; ++change) {
      const unsigned at = random.below(kPoints);
      host.forces[at] = forces[at] = static_cast<double>(random.unit()) - 0.5;
    }
    const auto number = static_cast<unsigned>(step);
    launch(swing, Shape{.blocks = kPointBlocks, .threads = kPointThreads}, stream,
           positions.address(), speeds.address(), forces.address(), reports.device_address(),
           number);
    CHECK(cuStreamSynchronize(stream));

    unsigned crossed = 0;
    double largest = 0;
    for (unsigned block = 0; block < kPointBlocks; ++block) {
      const Report expected = host.swing(block, number);
      must_equal("report", std::vector<Report>{reports[block]}, std::vector<Report>{expected});
      crossed += reports[block].crossed;
      largest = std::max(largest, reports[block].largest);
    }
    // The host puts one point back to rest, in place.
    const unsigned stopped = random.below(kPoints);
    host.positions[stopped] = positions[stopped] = 0.0;
    std::printf("step %d: %u crossed, largest %.12g, point %u at %.12g\n", step, crossed, largest,
                stopped / 2, positions[stopped / 2]);
  }
  CHECK(cuStreamDestroy_v2(stream));
  std::printf("digest %016" PRIx64 "\n", digest(positions.copy()));
  must_equal("positions", positions.copy(), host.positions);
  must_equal("speeds", speeds.download(), host.speeds);
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 600));
}
