// Two devices, each with lanes and with weights in a variable of the module. First one thread takes
// turns with both, then each has a thread of its own; in between they learn from each other by way
// of the host. The code is a library, whose variables exist once in every context. Where there is
// one device, two contexts on it are taken.
#include "two_devices.h"

#include <array>
#include <memory>
#include <thread>

#include "app.h"
#include "two_devices_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr Shape kShape{.blocks = kLanes / kThreads, .threads = kThreads};

std::vector<unsigned> random_lanes(uint64_t seed) {
  Random random(seed);
  std::vector<unsigned> lanes(kLanes);
  for (unsigned& lane : lanes) lane = random.next();
  return lanes;
}

// One of the two, on the host.
struct Expected {
  explicit Expected(unsigned number)
      : lanes(random_lanes(number + 1)), weights(random_lanes(number + 3)) {}
  void step() {
    for (unsigned at = 0; at < kLanes; ++at) lanes[at] = stepped(lanes[at], weights[at]);
    ++steps_made;
  }
  void learn(const std::vector<unsigned>& others) {
    for (unsigned at = 0; at < kLanes; ++at) weights[at] ^= others[at] >> 7;
  }
  std::vector<unsigned> lanes, weights;
  unsigned steps_made = 0;
};

class Library {
 public:
  Library() {
    CHECK(cuLibraryLoadData(&library_, kTwoDevicesPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  ~Library() { CHECK(cuLibraryUnload(library_)); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // In the current context.
  CUfunction function(const char* name) const {
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    CHECK(cuLibraryGetKernel(&kernel, library_, name));
    CHECK(cuKernelGetFunction(&function, kernel));
    return function;
  }
  CUdeviceptr variable(const char* name) const {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    CHECK(cuLibraryGetGlobal(&address, &bytes, library_, name));
    return address;
  }

 private:
  CUlibrary library_ = nullptr;
};

// Everything of one device; its context must be current.
class Half {
 public:
  Half(const Library& library, const Expected& start)
      : step_(library.function("step")),
        learn_(library.function("learn")),
        weights_(library.variable("weights")),
        steps_made_(library.variable("steps_made")),
        lanes_(start.lanes) {
    const std::vector<unsigned>& weights = start.weights;
    CHECK(cuMemcpyHtoD_v2(weights_, weights.data(), weights.size() * sizeof(unsigned)));
    CHECK(cuMemsetD32_v2(steps_made_, 0, 1));
    CHECK(cuCtxSynchronize());  // a stream that blocks nobody does not wait for it
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  ~Half() { CHECK(cuStreamDestroy_v2(stream_)); }
  Half(const Half&) = delete;
  Half& operator=(const Half&) = delete;

  void step() {
    launch(step_, kShape, stream_, lanes_.pointer());
    CHECK(cuMemcpyDtoHAsync_v2(lanes_here_.data(), lanes_.address(), lanes_.bytes(), stream_));
  }
  void wait() { CHECK(cuStreamSynchronize(stream_)); }
  // As they were at the last wait().
  std::vector<unsigned> lanes() { return {lanes_here_.span().begin(), lanes_here_.span().end()}; }
  void learn(const std::vector<unsigned>& others) {
    const Buffer<unsigned> there(others);
    launch(learn_, kShape, stream_, there.pointer());
    wait();
  }
  unsigned steps_made() const {
    unsigned steps = 0;
    CHECK(cuMemcpyDtoH_v2(&steps, steps_made_, sizeof steps));
    return steps;
  }
  std::vector<unsigned> weights() const {
    std::vector<unsigned> weights(kLanes);
    CHECK(cuMemcpyDtoH_v2(weights.data(), weights_, kLanes * sizeof(unsigned)));
    return weights;
  }

 private:
  CUfunction step_, learn_;
  CUdeviceptr weights_, steps_made_;
  Buffer<unsigned> lanes_;
  Pinned<unsigned> lanes_here_{kLanes};
  CUstream stream_ = nullptr;
};

class Pair {
 public:
  Pair() {
    CHECK(cuInit(0));
    int devices = 0;
    CHECK(cuDeviceGetCount(&devices));
    for (int i = 0; i < 2; ++i) {
      CHECK(cuCtxCreate_v2(&contexts_[i], 0, i % devices));
    }
    library_ = std::make_unique<Library>();
    for (int i = 0; i < 2; ++i) {
      CHECK(cuCtxSetCurrent(contexts_[i]));
      halves_[i] = std::make_unique<Half>(*library_, expected_[i]);
    }
  }
  ~Pair() {
    for (int i = 0; i < 2; ++i) {
      CHECK(cuCtxSetCurrent(contexts_[i]));
      halves_[i].reset();
    }
    library_.reset();
    for (CUcontext context : contexts_) CHECK(cuCtxDestroy_v2(context));
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  // By this thread, in turns.
  void step_in_turns(int count) {
    for (int step = 0; step < count; ++step) {
      for (int i = 0; i < 2; ++i) {
        CHECK(cuCtxSetCurrent(contexts_[i]));
        halves_[i]->step();
        if (step % 3 == 2) CHECK(cuCtxSynchronize());
      }
    }
    for (int i = 0; i < 2; ++i) {
      CHECK(cuCtxSetCurrent(contexts_[i]));
      halves_[i]->wait();
    }
    expect(count);
  }

  // By a thread for each.
  void step_at_once(int count) {
    std::array<std::thread, 2> threads;
    for (int i = 0; i < 2; ++i) {
      threads[i] = std::thread([this, i, count] {
        CHECK(cuCtxSetCurrent(contexts_[i]));
        for (int step = 0; step < count; ++step) {
          halves_[i]->step();
          halves_[i]->wait();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    expect(count);
  }

  void learn() {
    const std::array<std::vector<unsigned>, 2> lanes{halves_[0]->lanes(), halves_[1]->lanes()};
    for (int i = 0; i < 2; ++i) {
      CHECK(cuCtxSetCurrent(contexts_[i]));
      halves_[i]->learn(lanes[1 - i]);
      expected_[i].learn(lanes[1 - i]);
    }
  }

  void tell(int round) {
    for (int i = 0; i < 2; ++i) {
      CHECK(cuCtxSetCurrent(contexts_[i]));
      const std::vector<unsigned> lanes = halves_[i]->lanes(), weights = halves_[i]->weights();
      std::printf("round %d: half %d made %u steps, lanes %016" PRIx64 ", weights %016" PRIx64 "\n",
                  round, i, halves_[i]->steps_made(), digest(lanes), digest(weights));
      must_equal("lanes", lanes, expected_[i].lanes);
      must_equal("weights", weights, expected_[i].weights);
      if (halves_[i]->steps_made() != expected_[i].steps_made) fail("steps made", "miscounted");
    }
  }

 private:
  void expect(int count) {
    for (Expected& half : expected_) {
      for (int step = 0; step < count; ++step) half.step();
    }
  }

  std::array<CUcontext, 2> contexts_{};
  std::array<Expected, 2> expected_{Expected(0), Expected(1)};
  std::unique_ptr<Library> library_;
  std::array<std::unique_ptr<Half>, 2> halves_;
};

int run(int rounds) {
  {
    Pair pair;
    for (int round = 0; round < rounds; ++round) {
      pair.step_in_turns(5);
      pair.learn();
      pair.step_at_once(5);
      pair.tell(round);
    }
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 200));
}
