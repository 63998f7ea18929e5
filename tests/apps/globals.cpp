// Module variables as the program's state: boards, counters, generators and a table of constants
// that the host or a kernel rewrites now and then. There is no device allocation at all.
#include "globals.h"

#include <algorithm>

#include "app.h"

namespace app {

using Board = std::vector<unsigned char>;

struct HostState {
  Board board = Board(kCells, 0);
  Board rule = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0};
  std::vector<unsigned long long> seeds = std::vector<unsigned long long>(kSeeds);
  unsigned born = 0;
  unsigned peak = 3;

  void evolve() {
    const Board before = board;
    for (unsigned at = 0; at < kCells; ++at) {
      board[at] = rule[9u * before[at] + neighbours(before.data(), at)];
      born += board[at] != 0 && before[at] == 0 ? 1 : 0;
    }
    peak = std::max(peak, born);
  }
  void disturb() {
    constexpr unsigned kStretch = kCells / kSeeds;
    for (unsigned at = 0; at < kSeeds; ++at) {
      for (int round = 0; round < 8; ++round) seeds[at] = advanced(seeds[at]);
      if (seeds[at] % 16 == 0) board[at * kStretch + (seeds[at] >> 32) % kStretch] ^= 1;
    }
  }
};

unsigned read(CUdeviceptr address) {
  unsigned value = 0;
  CHECK(cuMemcpyDtoH_v2(&value, address, sizeof value));
  return value;
}

int run(int steps) {
  const Device device(ContextKind::kOwn);
  const Module automaton("globals.ptx"), noise("globals_noise.ptx");
  CUfunction evolve = automaton.function("evolve");
  CUfunction close = automaton.function("close_generation");
  CUfunction disturb = noise.function("disturb");
  const CUdeviceptr boards = automaton.variable("boards", 2 * kCells);
  const CUdeviceptr rule = automaton.variable("rule", kRules);
  const CUdeviceptr born = automaton.variable("born", sizeof(unsigned));
  const CUdeviceptr peak = automaton.variable("peak", sizeof(unsigned));
  const Shape seed_shape{.blocks = kSeeds / 128, .threads = 128};

  HostState host;
  const unsigned long long seed = 0x2545f4914f6cdd1du;
  for (unsigned at = 0; at < kSeeds; ++at) host.seeds[at] = seed * (at + 1) + 1;
  launch(noise.function("plant"), seed_shape, nullptr, seed);

  Board board(kCells);
  for (int step = 1; step <= steps; ++step) {
    const CUdeviceptr current = boards + static_cast<CUdeviceptr>((step - 1) % 2) * kCells;
    const CUdeviceptr next = boards + static_cast<CUdeviceptr>(step % 2) * kCells;
    if (step % 50 == 0) {
      // Now and then six neighbours give life, too.
      host.rule[6] ^= 1;
      if (step % 100 == 0) {
        launch(automaton.function("change"), Shape{}, nullptr, rule);
      } else {
        CHECK(cuMemcpyHtoD_v2(rule, host.rule.data(), kRules));
      }
    }
    launch(disturb, seed_shape, nullptr, current);
    launch(evolve, Shape{.blocks = kCells / 128, .threads = 128}, nullptr);
    launch(close, Shape{}, nullptr);
    host.disturb();
    host.evolve();
    CHECK(cuMemcpyDtoH_v2(board.data(), next, kCells));
    const unsigned born_now = read(born);
    std::printf("generation %d: %u born so far, digest %016" PRIx64 "\n", step, born_now,
                digest(board));
    must_equal("board", board, host.board);
    if (born_now != host.born) fail("born", "another number than the host's");
    if (step % 20 == 0) {
      host.born = 0;
      CHECK(cuMemsetD32_v2(born, 0, 1));
    }
  }
  const unsigned peak_now = read(peak);
  std::printf("peak %u\n", peak_now);
  if (peak_now != host.peak) fail("peak", "another number than the host's");
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 800));
}
