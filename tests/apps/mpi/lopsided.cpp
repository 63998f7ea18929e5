// SPDX-License-Identifier: Apache-2.0
// Ranks with very different amounts of device memory, which every step changes as a whole: the
// first rank has most of it. Each has two halves. A step stirs a piece of one half and copies that
// half to the other one, rotated by a piece, so every byte depends on all steps before it. There is
// a barrier in each step.
//
//   lopsided [STEPS [FILE...]]
//
// At every third step there is a pause, as long as there are names of files: the first rank waits
// for the file, all ranks meet in barriers with nothing on their devices, and then the first rank
// waits for FILE.on.
#include "tests/apps/mpi/ring.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "ring_ptx.h"
#include "tests/apps/mpi/ranks.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr size_t kPiece = 2 * kCells;              // words
constexpr size_t kLargeHalf = 192 * kPiece;        // of the first rank: 12 MiB
constexpr size_t kSmallHalf = 4 * kPiece;          // of all others
constexpr int kReported = 10, kBetweenPauses = 3;  // steps
constexpr int kBarriers = 4;                       // in a pause

class Halves {
 public:
  explicit Halves(int rank) : words_(rank == 0 ? kLargeHalf : kSmallHalf) {
    Random random(static_cast<uint64_t>(rank) + 1);
    std::vector<unsigned> words(words_);
    for (unsigned& word : words) word = random.next();
    for (Buffer<unsigned>& half : halves_) half.upload(words);
  }

  void step(int step) {
    const auto number = static_cast<unsigned>(step);
    const Buffer<unsigned>& from = half(number);
    const CUdeviceptr to = half(number + 1).address();
    const size_t place = number % (words_ / kPiece) * kPiece;
    launch(advance_, kShape, stream_, from.pointer() + place, number);
    constexpr size_t kBytes = kPiece * sizeof(unsigned);
    const size_t rest = from.bytes() - kBytes;
    CHECK(cuMemcpyDtoDAsync_v2(to, from.address() + kBytes, rest, stream_));
    CHECK(cuMemcpyDtoDAsync_v2(to + rest, from.address(), kBytes, stream_));
  }

  uint64_t digest() {
    stream_.wait();
    const std::vector<unsigned> first = half(0).download(), second = half(1).download();
    return app::digest(std::span<const unsigned>(second), app::digest(first));
  }

 private:
  static constexpr Shape kShape{.blocks = kCells / kThreads, .threads = kThreads};

  Buffer<unsigned>& half(unsigned number) { return halves_[number % 2]; }

  const size_t words_;
  Stream stream_;
  Module module_{kRingPtx};
  CUfunction advance_ = module_.function("advance");
  std::array<Buffer<unsigned>, 2> halves_{Buffer<unsigned>(words_), Buffer<unsigned>(words_)};
};

void await(const World& world, const std::string& file) {
  while (world.rank == 0 && access(file.c_str(), F_OK) != 0) rest();
}

void pause(const World& world, Report& report, const std::string& file) {
  report.line("waits for %s", file.c_str());
  await(world, file);
  for (int i = 0; i < kBarriers; ++i) MPI_Barrier(MPI_COMM_WORLD);
  await(world, file + ".on");
}

int run(int steps, std::span<char*> files) {
  const World world;
  Report report(world.rank);
  const Device device(ContextKind::kPrimary, own_device());
  Halves halves(world.rank);
  for (int step = 0; step < steps; ++step) {
    const auto pauses = static_cast<size_t>(step / kBetweenPauses);
    const bool is_pause = step > 0 && step % kBetweenPauses == 0 && pauses <= files.size();
    if (is_pause) pause(world, report, files[pauses - 1]);
    halves.step(step);
    MPI_Barrier(MPI_COMM_WORLD);
    if (step % kReported != kReported - 1 && step != steps - 1) continue;
    report.line("step %d: digest %016" PRIx64, step, halves.digest());
    report.progress("step %d", step);
  }
  return report.finish();
}

}  // namespace app

int main(int argc, char** argv) {
  const int own = std::min(argc, 2);
  return app::run(app::steps_from(own, argv, 60), {argv + own, argv + argc});
}
