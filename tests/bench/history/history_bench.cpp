// SPDX-License-Identifier: Apache-2.0
//
// Writes checkpoints of device memory and reads them back, as a backward pass does, and measures
// for how long the program is kept waiting. One line of JSON. The host sleeps between the calls, in
// place of a computation. All bytes are compared on the device, outside of what is measured.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "history_shot_ptx.h"
#include "tests/apps/app.h"
#include "tests/apps/veloc/options.h"
#include "tests/bench/history/keeper.h"
#include "tests/bench/json_line.h"

namespace app {
namespace {

using Time = std::chrono::steady_clock;

constexpr const char* kUsage =
    "history_bench CONFIG [options]\n"
    "  --keeper WHO     history, managed (managed memory with advice and prefetches; no CONFIG is "
    "read)\n"
    "  --number N       checkpoints (24)\n"
    "  --kib N          KiB of each checkpoint (256)\n"
    "  --cache N        KiB of device memory that managed memory takes for checkpoints (1024)\n"
    "  --order ORDER    reverse, sequential, irregular (seed 1)\n"
    "  --hints WHICH    all, none\n"
    "  --pause N        milliseconds between two calls (10)\n"
    "  --before N       milliseconds before the first checkpoint (0)\n"
    "  --wait           waits between writing and reading until all is flushed";

struct Setup {
  int number = 0, pause_ms = 0, before_ms = 0;
  bool is_managed = false, waits = false;
  std::string order;
};

std::vector<int> order_of(const Setup& setup) {
  std::vector<int> order(static_cast<size_t>(setup.number));
  std::iota(order.begin(), order.end(), 0);
  if (setup.order == "reverse") std::reverse(order.begin(), order.end());
  if (setup.order == "irregular") {
    std::mt19937 random(1);
    for (size_t at = order.size(); at > 1; --at) std::swap(order[at - 1], order[random() % at]);
  }
  return order;
}

// A buffer of device memory whose words tell the version.
class Field {
 public:
  explicit Field(size_t bytes) : words_(bytes / sizeof(uint32_t)), wrong_(1) {
    CHECK(cuModuleLoadData(&module_, kHistoryShotPtx));
    CHECK(cuModuleGetFunction(&fill_, module_, "fill"));
    CHECK(cuModuleGetFunction(&compare_, module_, "compare"));
    CHECK(cuMemsetD32_v2(wrong_.address(), 0, 1));
  }
  ~Field() { CHECK(cuModuleUnload(module_)); }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  CUdeviceptr address() const { return words_.address(); }

  void fill(int version) {
    CUdeviceptr words = words_.address();
    auto count = static_cast<unsigned>(words_.count()), which = static_cast<unsigned>(version);
    void* arguments[] = {&words, &count, &which};
    launch(fill_, arguments);
  }
  void compare(int version) {
    CUdeviceptr words = words_.address(), wrong = wrong_.address();
    auto count = static_cast<unsigned>(words_.count()), which = static_cast<unsigned>(version);
    void* arguments[] = {&words, &count, &which, &wrong};
    launch(compare_, arguments);
  }
  uint32_t wrong_words() const { return wrong_.download().front(); }

 private:
  static void launch(CUfunction kernel, void** arguments) {
    CHECK(cuLaunchKernel(kernel, 64, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
    CHECK(cuCtxSynchronize());
  }

  Buffer<uint32_t> words_, wrong_;
  CUmodule module_ = nullptr;
  CUfunction fill_ = nullptr, compare_ = nullptr;
};

// Seconds that the call took.
template <class Call>
double seconds_of(const Call& call) {
  const auto began = Time::now();
  call();
  return std::chrono::duration<double>(Time::now() - began).count();
}

struct Waited {
  std::vector<double> writes_s, restores_s;  // of each call, in order
};

Waited run(const Setup& setup, const std::vector<int>& order, Field& field, Keeper& keeper) {
  const auto pause = [&setup] {
    std::this_thread::sleep_for(std::chrono::milliseconds(setup.pause_ms));
  };
  Waited waited;
  std::this_thread::sleep_for(std::chrono::milliseconds(setup.before_ms));
  for (int version = 0; version < setup.number; ++version) {
    field.fill(version);
    pause();
    waited.writes_s.push_back(seconds_of([&] { keeper.write(version); }));
  }
  if (setup.waits) keeper.wait_until_flushed();
  field.fill(setup.number);  // nothing of the last checkpoint is left
  keeper.start_prefetching();
  for (const int version : order) {
    pause();
    waited.restores_s.push_back(seconds_of([&] { keeper.restore(version); }));
    field.compare(version);
  }
  return waited;
}

void report(const Setup& setup, size_t bytes, const Waited& waited, uint32_t wrong_words) {
  const auto sum = [](const std::vector<double>& of) {
    return std::accumulate(of.begin(), of.end(), 0.0);
  };
  const double all = static_cast<double>(bytes) * setup.number;
  gpusnap::bench::JsonLine line;
  line.number("bytes", all);
  line.number("writes_waited_s", sum(waited.writes_s));
  line.number("restores_waited_s", sum(waited.restores_s));
  line.number("write_bytes_per_s", all / sum(waited.writes_s));
  line.number("restore_bytes_per_s", all / sum(waited.restores_s));
  line.number("longest_restore_s",
              *std::max_element(waited.restores_s.begin(), waited.restores_s.end()));
  line.number("wrong_words", wrong_words);
  std::printf("%s\n", line.end().c_str());
}

int main_of(Options options) {
  Setup setup;
  setup.is_managed = options.choice("--keeper", {"history", "managed"}) == "managed";
  setup.number = options.number("--number", 24, 1);
  setup.order = options.choice("--order", {"reverse", "sequential", "irregular"});
  setup.pause_ms = options.number("--pause", 10);
  setup.before_ms = options.number("--before", 0);
  setup.waits = options.flag("--wait");
  Shot shot;
  shot.bytes = static_cast<size_t>(options.number("--kib", 256, 1)) << 10;
  shot.device_cache_bytes = static_cast<size_t>(options.number("--cache", 1024, 1)) << 10;
  shot.hints = options.choice("--hints", {"all", "none"}) == "all";
  shot.config = options.config();
  options.finish();

  const Device device(ContextKind::kPrimary);
  Field field(shot.bytes);
  shot.buffer = field.address();
  shot.order = order_of(setup);
  const auto keeper = setup.is_managed ? make_managed(shot) : make_history(shot);
  const Waited waited = run(setup, shot.order, field, *keeper);
  const uint32_t wrong_words = field.wrong_words();
  report(setup, shot.bytes, waited, wrong_words);
  return wrong_words == 0 ? 0 : 1;
}

}  // namespace
}  // namespace app

int main(int argc, char** argv) {
  return app::main_of(app::Options(argc, argv, app::kUsage));
}
