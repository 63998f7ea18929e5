// A cellular automaton whose cells are in arrays and nowhere else: kernels read and write them as
// surfaces, whose handles are in device memory. Arrays come and go meanwhile.
#include "surfaces.h"

#include <memory>

#include "app.h"
#include "surfaces_ptx.h"

namespace app {

constexpr size_t kWidth = 64;
constexpr size_t kHeight = 48;
constexpr size_t kBins = 16;

// An array of words that is a surface.
class Surface {
 public:
  Surface(size_t width, size_t height) : width_(width), height_(height) {
    const CUDA_ARRAY3D_DESCRIPTOR shape{
        width, height, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST};
    CHECK(cuArray3DCreate_v2(&array_, &shape));
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array_;
    CHECK(cuSurfObjectCreate(&handle_, &resource));
  }
  ~Surface() {
    CHECK(cuSurfObjectDestroy(handle_));
    CHECK(cuArrayDestroy(array_));
  }
  Surface(const Surface&) = delete;
  Surface& operator=(const Surface&) = delete;

  CUsurfObject handle() const { return handle_; }
  void upload(const std::vector<unsigned>& words) {
    CUDA_MEMCPY2D copy = box();
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = words.data();
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array_;
    CHECK(cuMemcpy2D_v2(&copy));
  }
  std::vector<unsigned> download() const {
    std::vector<unsigned> words(width_ * height_);
    CUDA_MEMCPY2D copy = box();
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array_;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = words.data();
    CHECK(cuMemcpy2D_v2(&copy));
    return words;
  }
  void take_from(const Surface& other) {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = other.array_;
    copy.dstArray = array_;
    copy.WidthInBytes = width_ * sizeof(unsigned);
    copy.Height = height_;
    copy.Depth = 1;
    CHECK(cuMemcpy3DAsync_v2(&copy, nullptr));
  }

 private:
  CUDA_MEMCPY2D box() const {
    CUDA_MEMCPY2D copy{};
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes = width_ * sizeof(unsigned);
    copy.Height = height_;
    return copy;
  }

  size_t width_, height_;
  CUarray array_ = nullptr;
  CUsurfObject handle_ = 0;
};

void grow_on_host(const std::vector<unsigned>& from, std::vector<unsigned>& to,
                  std::vector<unsigned>& counts) {
  const auto cell = [&](size_t x, size_t y) {
    return x < kWidth && y < kHeight ? from[y * kWidth + x] : 0;
  };
  for (size_t y = 0; y < kHeight; ++y) {
    for (size_t x = 0; x < kWidth; ++x) {
      const unsigned next =
          grown(cell(x, y), cell(x - 1, y), cell(x + 1, y), cell(x, y - 1), cell(x, y + 1));
      to[y * kWidth + x] = next;
      counts[y * kBins + next % 16] += next & 3;
    }
  }
}

int run(int steps) {
  const Device device(ContextKind::kOwn);
  const Module module(kSurfacesPtx);
  CUfunction grow = module.function("grow");
  const Shape shape{
      .blocks = kWidth / 32, .threads = 32, .block_rows = kHeight / 8, .thread_rows = 8};

  std::vector<unsigned> cells(kWidth * kHeight);
  Random random(11);
  for (unsigned& cell : cells) cell = random.next();
  std::vector<unsigned> next(cells.size()), counts(kBins * kHeight, 0);
  auto now = std::make_unique<Surface>(kWidth, kHeight);
  auto then = std::make_unique<Surface>(kWidth, kHeight);
  Surface counters(kBins, kHeight);
  now->upload(cells);
  counters.upload(counts);
  Buffer<Handles> handles(1);
  for (int step = 1; step <= steps; ++step) {
    if (step % 10 == 0) {
      // The generation moves to an array that was just made.
      then = std::make_unique<Surface>(kWidth, kHeight);
      then->take_from(*now);
      std::swap(now, then);
    }
    handles.upload({Handles{now->handle(), then->handle(), counters.handle()}});
    launch(grow, shape, nullptr, handles.pointer());
    CHECK(cuCtxSynchronize());
    std::swap(now, then);
    grow_on_host(cells, next, counts);
    std::swap(cells, next);
    if (step % 4 == 0 || step == steps) {
      const std::vector<unsigned> found = now->download();
      const std::vector<unsigned> counted = counters.download();
      std::printf("step %d: cells %016" PRIx64 ", counts %016" PRIx64 "\n", step, digest(found),
                  digest(counted));
      must_equal("cells", found, cells);
      must_equal("counts", counted, counts);
    }
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 400));
}
