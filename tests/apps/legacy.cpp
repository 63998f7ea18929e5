// Launches as programs made them before CUDA 4: some of what a kernel is launched with has been set
// before the cut, and is not set again behind it.
#include "legacy.h"

#include "app.h"
#include "legacy_ptx.h"

namespace app {

int run(int steps) {
  const Device device(ContextKind::kOwn);
  const Module module(kLegacyPtx);
  const CUfunction blend = module.function("blend"), count = module.function("count");
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  {
    std::vector<float> model(kCells, 1.0f);
    const Buffer<float> cells(model);
    unsigned counted = 1;
    const Buffer<unsigned> counter(std::vector<unsigned>(1, counted));
    CUdeviceptr address = cells.address(), other = counter.address();
    constexpr int kBlock = 64;
    CHECK(cuFuncSetBlockShape(blend, kBlock, 1, 1));
    CHECK(cuFuncSetSharedSize(blend, 0));
    CHECK(cuParamSetv(blend, 0, &address, sizeof address));
    CHECK(cuParamSetSize(blend, 16));
    CHECK(cuFuncSetBlockShape(count, 32, 1, 1));
    CHECK(cuParamSetv(count, 0, &other, sizeof other));
    CHECK(cuParamSetSize(count, sizeof other));
    for (int step = 0; step < steps; ++step) {
      const float weight = 0.5f + static_cast<float>(step % 7) / 16;
      const auto turn = static_cast<unsigned>(step);
      CHECK(cuParamSeti(blend, 8, turn));
      CHECK(cuParamSetf(blend, 12, weight));
      if (step % 2 == 0) {
        CHECK(cuLaunchGridAsync(blend, kCells / kBlock, 1, stream));
      } else {
        CHECK(cuLaunchGrid(blend, kCells / kBlock, 1));
      }
      CHECK(cuLaunch(count));
      counted = counted * 5 + 1;
      for (unsigned at = 0; at < kCells; ++at) model[at] = blended(model[at], at, weight, turn);
      if (step % 4 == 3) CHECK(cuCtxSynchronize());
      if (step % 20 == 19) {
        must_equal("cells", cells.download(), model);
        must_equal("counter", counter.download(), std::vector<unsigned>(1, counted));
        std::printf("step %d: %016" PRIx64 "\n", step, digest(model));
      }
    }
    must_equal("cells", cells.download(), model);
  }
  CHECK(cuStreamDestroy_v2(stream));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
