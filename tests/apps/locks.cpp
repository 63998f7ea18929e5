// SPDX-License-Identifier: Apache-2.0
//
// Two threads that hold a lock of the program's across an allocation and a query. Which one has the
// lock first differs from run to run; what each computes does not. Both are done with a step before
// either begins the next one.
#include <barrier>
#include <mutex>
#include <random>
#include <thread>

#include "app.h"

namespace app {

constexpr unsigned kThreads = 2;
constexpr size_t kWords = 512;

class Holder {
 public:
  Holder(unsigned number, CUcontext context, std::mutex& lock)
      : number_(number), context_(context), lock_(lock) {}

  template <class Barrier>
  void run(unsigned steps, Barrier& all_done) {
    CHECK(cuCtxSetCurrent(context_));
    std::random_device chance;
    for (unsigned step = 0; step < steps; ++step) {
      if (chance() % 2 == 0) usleep(chance() % 1000);
      one(step);
      all_done.arrive_and_wait();
      if (number_ == 0) CHECK(cuCtxSynchronize());
      give_back();
      all_done.arrive_and_wait();
    }
  }
  uint64_t seen() const { return seen_; }

 private:
  void one(unsigned step) {
    CUdeviceptr memory = 0;
    const size_t bytes = kWords * sizeof(unsigned) * (number_ + 1);
    {
      const std::lock_guard held(lock_);
      CHECK(cuMemAlloc_v2(&memory, bytes));
      CHECK(cuStreamQuery(CU_STREAM_PER_THREAD));
    }
    CHECK(cuMemsetD32_v2(memory, step * kThreads + number_, bytes / sizeof(unsigned)));
    unsigned word = 0;
    CHECK(cuMemcpyDtoH_v2(&word, memory + bytes - sizeof word, sizeof word));
    if (word != step * kThreads + number_) fail("a word", "is not what it should be");
    seen_ = seen_ * 31 + word;
    kept_.push_back(memory);
  }
  // While no thread gets memory: its order with those calls would be another one in each run, and
  // with it the addresses.
  void give_back() {
    if (kept_.size() < 4) return;
    CHECK(cuMemFree_v2(kept_.front()));
    kept_.erase(kept_.begin());
  }

  const unsigned number_;
  const CUcontext context_;
  std::mutex& lock_;
  std::vector<CUdeviceptr> kept_;
  uint64_t seen_ = 0;
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  std::mutex lock;
  Holder first(0, context, lock), second(1, context, lock);
  unsigned step = 0;
  bool begins = false;
  std::barrier all_done(kThreads, [&]() noexcept {
    begins = !begins;
    if (begins && step++ % 20 == 0) {
      std::printf("step %u: %016" PRIx64 "\n", step, first.seen() * 31 + second.seen());
    }
  });
  std::thread one([&] { first.run(static_cast<unsigned>(steps), all_done); });
  std::thread other([&] { second.run(static_cast<unsigned>(steps), all_done); });
  one.join();
  other.join();
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 200));
}
