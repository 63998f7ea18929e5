// Heat flow on a plate with two sources: a stencil whose kernel takes a struct of pointers by
// value.
#include "stencil.h"

#include "app.h"
#include "stencil_ptx.h"

namespace app {

constexpr int kWidth = 256;
constexpr int kHeight = 192;
constexpr float kRate = 0.2f;

std::vector<float> sources() {
  std::vector<float> source(static_cast<size_t>(kWidth) * kHeight, 0.0f);
  source[40 * kWidth + 60] = 1.5f;
  source[120 * kWidth + 200] = -0.75f;
  return source;
}

void step_on_host(const std::vector<float>& heat, std::vector<float>& next,
                  const std::vector<float>& source) {
  next = heat;
  for (int y = 1; y < kHeight - 1; ++y) {
    for (int x = 1; x < kWidth - 1; ++x) {
      const size_t at = static_cast<size_t>(y) * kWidth + static_cast<size_t>(x);
      next[at] = relaxed(heat[at], heat[at - 1], heat[at + 1], heat[at - kWidth], heat[at + kWidth],
                         source[at], kRate);
    }
  }
}

int run(int steps) {
  const Device device(ContextKind::kOwn);
  const Module module(kStencilPtx);
  CUfunction kernel = module.function("step");

  std::vector<float> heat(static_cast<size_t>(kWidth) * kHeight, 0.0f);
  Random random(7);
  for (float& value : heat) value = random.unit();
  std::vector<float> next(heat.size());
  const std::vector<float> source = sources();

  Buffer<float> heat_on_device(heat), next_on_device(heat.size());
  const Buffer<float> source_on_device(source);
  for (int step = 1; step <= steps; ++step) {
    const Fields fields{heat_on_device.pointer(),
                        next_on_device.pointer(),
                        source_on_device.pointer(),
                        kWidth,
                        kHeight,
                        kRate};
    const Shape shape{
        .blocks = kWidth / 32, .threads = 32, .block_rows = kHeight / 8, .thread_rows = 8};
    launch(kernel, shape, nullptr, fields);
    CHECK(cuCtxSynchronize());
    std::swap(heat_on_device, next_on_device);
    step_on_host(heat, next, source);
    std::swap(heat, next);
    if (step % 4 == 0 || step == steps) {
      const std::vector<float> now = heat_on_device.download();
      double total = 0;
      for (const float value : now) total += static_cast<double>(value);
      std::printf("step %d: total heat %.12g, digest %016" PRIx64 "\n", step, total, digest(now));
      must_equal("heat", now, heat);
    }
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 600));
}
