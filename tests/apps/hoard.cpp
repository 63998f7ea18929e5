// SPDX-License-Identifier: Apache-2.0
//
// Much device memory. Each step changes a little of it, and some of it lies elsewhere at the end
// than at the beginning. The output depends on every byte.
//
//   hoard [STEPS [MIB]]
//
// After each step the host computes HOARD_WORK times 1 MiB of something, which nobody looks at, and
// sleeps for HOARD_PAUSE milliseconds.
#include <chrono>
#include <thread>

#include "app.h"

namespace app {

constexpr size_t kPiece = 1 << 20;  // bytes of one allocation
constexpr size_t kWords = kPiece / sizeof(uint32_t);

class Hoard {
 public:
  explicit Hoard(size_t pieces) : pieces_(pieces) {
    for (size_t i = 0; i < pieces; ++i) {
      CHECK(cuMemAlloc_v2(&pieces_[i], kPiece));
      fill(i, 0, kWords, static_cast<uint32_t>(i));
    }
  }
  // A part of some pieces gets another content, and one piece another place.
  void step(uint32_t number) {
    for (uint32_t i = 0; i < 3; ++i) {
      const uint32_t mixed = (number * 3 + i) * 2654435761U;
      fill(mixed % pieces_.size(), mixed / 7 % (kWords - 5000), 5000, mixed);
    }
    if (number % 8 != 0) return;
    const size_t moved = number / 8 % pieces_.size();
    CUdeviceptr other = 0;
    CHECK(cuMemAlloc_v2(&other, kPiece));
    CHECK(cuMemcpyDtoD_v2(other, pieces_[moved], kPiece));
    CHECK(cuMemFree_v2(pieces_[moved]));
    pieces_[moved] = other;
  }
  uint64_t digest_of(size_t piece) {
    std::vector<uint32_t> words(kWords);
    CHECK(cuMemcpyDtoH_v2(words.data(), pieces_[piece], kPiece));
    return digest(words);
  }
  size_t pieces() const { return pieces_.size(); }

 private:
  void fill(size_t piece, size_t from, size_t words, uint32_t value) {
    CHECK(cuMemsetD32_v2(pieces_[piece] + from * sizeof(uint32_t), value * 2246822519U + 1, words));
  }
  std::vector<CUdeviceptr> pieces_;
};

void compute(long times) {
  static const std::vector<uint32_t> words(kWords, 1);
  uint64_t mixed = 1;
  for (long i = 0; i < times; ++i) mixed = digest(std::span(words), mixed);
  if (mixed == 0) fail("digest", "it is zero");
}

long setting(const char* name, long otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtol(value, nullptr, 10);
}

int run(int steps, size_t mib) {
  const long work = setting("HOARD_WORK", 0), pause_ms = setting("HOARD_PAUSE", 1);
  const Device device(ContextKind::kPrimary);
  Hoard hoard(mib);
  for (int step = 1; step <= steps; ++step) {
    hoard.step(static_cast<uint32_t>(step));
    CHECK(cuCtxSynchronize());
    compute(work);
    if (pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    const size_t piece = static_cast<size_t>(step) % hoard.pieces();
    if (step % 4 == 0) {
      std::printf("step %d: piece %zu, digest %016llx\n", step, piece,
                  static_cast<unsigned long long>(hoard.digest_of(piece)));
    }
  }
  for (size_t i = 0; i < hoard.pieces(); ++i) {
    std::printf("piece %zu: digest %016llx\n", i,
                static_cast<unsigned long long>(hoard.digest_of(i)));
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  const auto number = [&](int place, long otherwise) {
    return argc > place ? std::strtol(argv[place], nullptr, 10) : otherwise;
  };
  const long steps = number(1, 60), mib = number(2, 24);
  if (steps < 1 || mib < 1 || argc > 3) app::fail(argv[0], "usage: [STEPS [MIB]]");
  return app::run(static_cast<int>(steps), static_cast<size_t>(mib));
}
