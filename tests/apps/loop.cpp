// SPDX-License-Identifier: Apache-2.0
//
// A loop whose turns make the same calls with the same arguments, but for a report now and then:
// the journal of such a program is nearly nothing.
//
//   LOOP_LAUNCHES=N   launches of each turn (default 20)
//   LOOP_REPORTS=N    turns from report to report (default 50)
//   LOOP_VARIES=1     an argument of each launch is another one in each turn
//   LOOP_TIMES=1      says how long each launch of the turns took
#include "loop.h"

#include <chrono>

#include "app.h"
#include "loop_ptx.h"

namespace app {

using Clock = std::chrono::steady_clock;
constexpr unsigned kValues = 16;

unsigned from_environment(const char* name, unsigned otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

int run(unsigned turns) {
  const Device device(ContextKind::kPrimary);
  const Module module(kLoopPtx);
  CUfunction kernel = module.function("turn");
  const unsigned launches = from_environment("LOOP_LAUNCHES", 20);
  const unsigned reports = from_environment("LOOP_REPORTS", 50);
  const bool varies = from_environment("LOOP_VARIES", 0) != 0;
  const Buffer<unsigned> values(std::vector<unsigned>(kValues, 1)),
      same(std::vector<unsigned>(kValues, 7));
  Pinned<unsigned> told(kValues);
  std::vector<unsigned> expected(kValues, 1);
  Clock::duration launching{};
  for (unsigned step = 1; step <= turns; ++step) {
    const unsigned base = varies ? step * launches : 0;
    const auto begun = Clock::now();
    for (unsigned i = 0; i < launches; ++i) {
      launch(kernel, {1, kValues, 1, 1, 0}, nullptr, values.pointer(), kValues, i % 7, base + i);
    }
    launching += Clock::now() - begun;
    for (unsigned i = 0; i < launches; ++i) {
      for (unsigned& value : expected) value = turned(value, i % 7, base + i);
    }
    CHECK(cuMemcpyDtoHAsync_v2(told.data(), same.address(), sizeof(unsigned), nullptr));
    CHECK(cuCtxSynchronize());
    if (step % reports != 0 && step != turns) continue;
    must_equal("the values", values.download(), expected);
    std::printf("turn %u: %u\n", step, expected[0]);
  }
  if (from_environment("LOOP_TIMES", 0) != 0) {
    const std::chrono::duration<double, std::nano> each = launching;
    std::fprintf(stderr, "loop: %.1f ns for each launch\n",
                 each.count() / (double(turns) * launches));
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(static_cast<unsigned>(app::steps_from(argc, argv, 400)));
}
