#include "tests/oracle/programs.h"

#include <unistd.h>

#include <latch>
#include <string_view>
#include <thread>

namespace oracle {

namespace {

// Contexts of the program: one for each device, and on the first device as many more as it takes.
class Contexts {
 public:
  explicit Contexts(uint64_t count) {
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices_));
    for (uint64_t i = 0; i < count; ++i) {
      CUcontext context = nullptr;
      if (i < static_cast<uint64_t>(devices_)) {
        CHECK(cuDevicePrimaryCtxRetain(&context, static_cast<CUdevice>(i)));
      } else {
        CHECK(cuCtxCreate_v2(&context, 0, 0));
      }
      all_.push_back(context);
    }
    // Kernels of each reach what is on other devices.
    for (CUcontext one : all_) {
      CHECK(cuCtxSetCurrent(one));
      for (CUcontext other : all_) {
        if (device_of(one) == device_of(other)) continue;
        const CUresult result = cuCtxEnablePeerAccess(other, 0);
        if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) CHECK(result);
      }
    }
  }
  ~Contexts() {
    for (size_t i = 0; i < all_.size(); ++i) {
      if (i < static_cast<size_t>(devices_)) {
        CHECK(cuDevicePrimaryCtxRelease_v2(static_cast<CUdevice>(i)));
      } else {
        CHECK(cuCtxDestroy_v2(all_[i]));
      }
    }
  }
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;
  CUcontext of(unsigned actor) const { return all_[actor % all_.size()]; }

 private:
  CUdevice device_of(CUcontext context) const {
    const auto at = std::ranges::find(all_, context) - all_.begin();
    return at < devices_ ? static_cast<CUdevice>(at) : 0;
  }
  int devices_ = 0;
  std::vector<CUcontext> all_;
};

}  // namespace

uint64_t run_programs(const Options& options, const Make& make) {
  const auto threads = static_cast<unsigned>(options.threads);
  const Contexts contexts(options.contexts);
  Exchange exchange(threads);
  exchange.lends = options.contexts > 1;
  exchange.mapped = options.mapped;
  exchange.pools = !options.no_pools;
  exchange.shared = !options.no_shared;
  exchange.guesses = !options.no_guesses;
  exchange.shared_contexts = options.threads > options.contexts;
  std::vector<std::unique_ptr<Program>> programs;
  for (unsigned i = 0; i < threads; ++i) {
    programs.push_back(make(i, contexts.of(i), exchange));
  }
  std::vector<std::thread> running;
  std::latch done(threads);
  for (unsigned i = 1; i < threads; ++i) {
    running.emplace_back([&done, &program = *programs[i], stay = options.threads_stay] {
      program.run();
      done.count_down();
      while (stay) pause();
    });
  }
  programs[0]->run();
  done.arrive_and_wait();
  for (std::thread& thread : running) options.threads_stay ? thread.detach() : thread.join();
  uint64_t seen = 0;
  for (const auto& program : programs) seen = seen * 31 + program->seen();
  return seen;
}

bool read_options(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    bool* flag = word == "--trace"          ? &tracing
                 : word == "--faults"       ? &tolerant
                 : word == "--mapped"       ? &options.mapped
                 : word == "--no-pools"     ? &options.no_pools
                 : word == "--no-shared"    ? &options.no_shared
                 : word == "--no-guesses"   ? &options.no_guesses
                 : word == "--threads-stay" ? &options.threads_stay
                                            : nullptr;
    if (flag != nullptr) {
      *flag = true;
      continue;
    }
    uint64_t* value = i == 1                 ? &options.seed
                      : word == "--threads"  ? &options.threads
                      : word == "--contexts" ? &options.contexts
                      : word == "--steps"    ? &options.steps
                                             : nullptr;
    if (i > 1) ++i;
    if (value == nullptr || i >= argc || *argv[i] == '\0') return false;
    char* end = nullptr;
    *value = std::strtoull(argv[i], &end, 10);
    if (*end != '\0') return false;
  }
  const auto sensible = [](uint64_t value, uint64_t most) { return value >= 1 && value <= most; };
  return argc > 1 && sensible(options.threads, 16) && sensible(options.contexts, 16) &&
         sensible(options.steps, 1'000'000);
}

}  // namespace oracle
