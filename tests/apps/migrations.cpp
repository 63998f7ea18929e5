// Managed memory that is advised about, moved to and fro, and discarded before it is written anew.
// The host reads and writes it in between.
#include "migrations.h"

#include <numeric>

#include "app.h"
#include "migrations_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr Shape kShape{kCells / kThreads, kThreads};

class Managed {
 public:
  Managed() {
    CUdeviceptr address = 0;
    CHECK(cuMemAllocManaged(&address, bytes(), CU_MEM_ATTACH_GLOBAL));
    cells_ = reinterpret_cast<unsigned*>(address);
  }
  ~Managed() { CHECK(cuMemFree_v2(address())); }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(cells_); }
  static constexpr size_t bytes() { return kCells * sizeof(unsigned); }
  unsigned& operator[](unsigned at) { return cells_[at]; }
  std::vector<unsigned> values() const { return {cells_, cells_ + kCells}; }

 private:
  unsigned* cells_ = nullptr;
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const Module module(kMigrationsPtx);
  const CUfunction move = module.function("move"), fill = module.function("fill");
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUmemLocation on_device{CU_MEM_LOCATION_TYPE_DEVICE, 0},
      on_host{CU_MEM_LOCATION_TYPE_HOST, 0};
  {
    Managed kept, scratch;
    std::vector<unsigned> model(kCells), scratch_model(kCells);
    std::iota(model.begin(), model.end(), 5u);
    for (unsigned at = 0; at < kCells; ++at) {
      kept[at] = model[at];
      scratch[at] = 0;
    }
    CHECK(cuMemAdvise_v2(kept.address(), kept.bytes(), CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                         on_device));
    CHECK(cuMemAdvise(scratch.address(), scratch.bytes(), CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
    CUdeviceptr both[] = {kept.address(), scratch.address()};
    size_t sizes[] = {kept.bytes(), scratch.bytes()}, first = 0;
    for (int step = 0; step < steps; ++step) {
      const unsigned by = model[static_cast<unsigned>(step) % kCells];
      switch (step % 3) {
        case 0:
          CHECK(cuMemPrefetchAsync_v2(kept.address(), kept.bytes(), on_device, 0, stream));
          CHECK(cuMemDiscardBatchAsync(both + 1, sizes + 1, 1, 0, stream));
          break;
        case 1:
          CHECK(cuMemPrefetchAsync(kept.address(), kept.bytes(), 0, stream));
          CHECK(cuMemDiscardAndPrefetchBatchAsync(both + 1, sizes + 1, 1,
                                                  const_cast<CUmemLocation*>(&on_device), &first, 1,
                                                  0, stream));
          break;
        default:
          CHECK(cuMemPrefetchBatchAsync(both, sizes, 2, const_cast<CUmemLocation*>(&on_device),
                                        &first, 1, 0, stream));
      }
      launch(move, kShape, stream, kept.address(), by);
      launch(fill, kShape, stream, scratch.address(), by);
      CHECK(cuMemPrefetchAsync_v2(kept.address(), kept.bytes(), on_host, 0, stream));
      for (unsigned at = 0; at < kCells; ++at) {
        model[at] = moved(model[at], at, by);
        scratch_model[at] = moved(by, at, by);
      }
      CHECK(cuStreamSynchronize(stream));
      const unsigned chosen = by % kCells;
      kept[chosen] += scratch[chosen];
      model[chosen] += scratch_model[chosen];
      if (step % 10 == 9) {
        must_equal("kept", kept.values(), model);
        must_equal("scratch", scratch.values(), scratch_model);
        std::printf("step %d: %016" PRIx64 "\n", step, digest(model));
      }
    }
    must_equal("kept", kept.values(), model);
  }
  CHECK(cuStreamDestroy_v2(stream));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
