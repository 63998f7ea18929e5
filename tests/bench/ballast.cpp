// A program with much device memory and little else, to measure checkpoints with: it says how long
// a plain copy of all of it into pinned host memory takes, then synchronises now and then.
//
//   ballast [MIB [SYNCS]]
#include <chrono>
#include <thread>

#define APP_DLSYM
#include "tests/apps/app.h"

namespace app {
namespace {

constexpr size_t kPiece = 16 << 20;  // bytes of one allocation, and of one copy

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Two buffers, so that copies follow each other without a gap.
double copy_all(const std::vector<CUdeviceptr>& pieces) {
  void* buffers[2] = {};
  for (void*& buffer : buffers) CHECK(cuMemHostAlloc(&buffer, kPiece, 0));
  CHECK(cuCtxSynchronize());
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < pieces.size(); ++i) {
    CHECK(cuMemcpyDtoHAsync_v2(buffers[i % 2], pieces[i], kPiece, nullptr));
  }
  CHECK(cuCtxSynchronize());
  const double taken = seconds_since(start);
  for (void* buffer : buffers) CHECK(cuMemFreeHost(buffer));
  return taken;
}

int run(size_t mib, int syncs) {
  const Device device(ContextKind::kPrimary);
  std::vector<CUdeviceptr> pieces(std::max<size_t>(mib * (1 << 20) / kPiece, 1));
  for (size_t i = 0; i < pieces.size(); ++i) {
    CHECK(cuMemAlloc_v2(&pieces[i], kPiece));
    CHECK(cuMemsetD32_v2(pieces[i], static_cast<unsigned>(i) * 2654435761U, kPiece / 4));
  }
  const double copied = copy_all(pieces);
  std::printf("bytes %zu\nblocking copy %.6f s\n", pieces.size() * kPiece, copied);
  for (int i = 0; i < syncs; ++i) {
    CHECK(cuCtxSynchronize());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (CUdeviceptr piece : pieces) CHECK(cuMemFree_v2(piece));
  return 0;
}

}  // namespace
}  // namespace app

int main(int argc, char** argv) {
  const long mib = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 256;
  const long syncs = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 10;
  if (mib < 1 || syncs < 1 || argc > 3) app::fail(argv[0], "usage: [MIB [SYNCS]]");
  return app::run(static_cast<size_t>(mib), static_cast<int>(syncs));
}
