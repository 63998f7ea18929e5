// SPDX-License-Identifier: Apache-2.0
//
// A program whose time is the device's alone, so that a restored run needs none of it again. Its
// output depends on every step.
//
//   toil STEPS MIB MICROSECONDS
#include "tests/apps/app.h"
#include "toil_ptx.h"

namespace app {
namespace {

constexpr unsigned kThreads = 32;

int run(unsigned steps, size_t mib, unsigned microseconds) {
  const Device device(ContextKind::kPrimary);
  const Module module(kToilPtx);
  const CUfunction toil = module.function("toil");
  const Buffer<unsigned> words((mib << 20) / sizeof(unsigned));
  const auto count = static_cast<unsigned>(words.count());
  CHECK(cuMemsetD32_v2(words.address(), 1, words.count()));
  for (unsigned step = 0; step < steps; ++step) {
    launch(toil, {.threads = kThreads}, nullptr, words.pointer(), count, step, microseconds);
    CHECK(cuCtxSynchronize());
  }
  std::printf("digest %016llx\n", static_cast<unsigned long long>(digest(words.download())));
  return finish();
}

}  // namespace
}  // namespace app

int main(int argc, char** argv) {
  const auto number = [&](int place) {
    return argc == 4 ? std::strtoul(argv[place], nullptr, 10) : 0;
  };
  if (number(1) == 0 || number(2) == 0 || number(3) == 0) {
    app::fail(argv[0], "usage: STEPS MIB MICROSECONDS");
  }
  return app::run(static_cast<unsigned>(number(1)), number(2), static_cast<unsigned>(number(3)));
}
