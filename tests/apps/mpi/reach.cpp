// The device's part of reach.F90, as functions that Fortran can call: memory of the device, as
// addresses that MPI is given, and the kernels of `aware`.
#include <optional>

#include "aware_ptx.h"
#include "tests/apps/app.h"
#include "tests/apps/mpi/aware.h"

namespace app {

class Reach {
 public:
  Reach(int ordinal, int rank)
      : device_(ContextKind::kPrimary, ordinal), cells_(at_start(static_cast<unsigned>(rank))) {}

  // Allocates words for MPI and the kernels.
  unsigned* words(unsigned count) {
    memory_.emplace_back(std::vector<unsigned>(count, 0xabcdu));
    return memory_.back().pointer();
  }
  void pack(unsigned* words, unsigned count, unsigned salt) {
    launch(pack_, shape(count), nullptr, static_cast<const unsigned*>(cells_.pointer()), words,
           count, salt);
    CHECK(cuCtxSynchronize());
  }
  void absorb(const unsigned* words, unsigned count) {
    launch(absorb_, shape(kCells), nullptr, cells_.pointer(), words, count);
  }
  uint64_t measure() const { return digest(cells_.download()); }

 private:
  static Shape shape(unsigned threads) { return {.blocks = (threads + 127) / 128, .threads = 128}; }
  static std::vector<unsigned> at_start(unsigned rank) {
    std::vector<unsigned> cells(kCells);
    for (unsigned i = 0; i < kCells; ++i) cells[i] = stirred(rank + 1, i);
    return cells;
  }

  Device device_;
  Module module_{kAwarePtx};
  CUfunction pack_ = module_.function("pack");
  CUfunction absorb_ = module_.function("absorb");
  Buffer<unsigned> cells_;
  std::vector<Buffer<unsigned>> memory_;
};

std::optional<Reach> reach;

}  // namespace app

extern "C" {

int gpu_count() {
  int devices = 0;
  app::check(cuInit(0), "cuInit");
  app::check(cuDeviceGetCount(&devices), "cuDeviceGetCount");
  return devices;
}

void gpu_open(int device, int rank) {
  app::reach.emplace(device, rank);
}

unsigned* gpu_words(int count) {
  return app::reach->words(static_cast<unsigned>(count));
}

void gpu_pack(unsigned* words, int count, int salt) {
  app::reach->pack(words, static_cast<unsigned>(count), static_cast<unsigned>(salt));
}

void gpu_absorb(const unsigned* words, int count) {
  app::reach->absorb(words, static_cast<unsigned>(count));
}

void gpu_measure(uint64_t* digest) {
  *digest = app::reach->measure();
}

void gpu_close() {
  app::reach.reset();
}

}  // extern "C"
