// Graphs that keep an object of the program's alive: the pinned memory that they bring to the
// device goes when the last of them has gone. Blocks are as large as the driver finds them best.
#include "keepers.h"

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>

#include "app.h"
#include "keepers_ptx.h"

namespace app {

// The words that graphs copy to the device, and whether a graph still may. The driver says on a
// thread of its own when none may any more; only then does the program free the memory.
class Cargo {
 public:
  explicit Cargo(unsigned seed) { std::iota(words_.data(), words_.data() + kCells, seed); }
  const unsigned* words() { return words_.data(); }
  CUuserObject object() {
    CUuserObject made = nullptr;
    CHECK(cuUserObjectCreate(
        &made, this, [](void* self) { static_cast<Cargo*>(self)->let_go(); }, 1,
        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return made;
  }
  bool is_kept() {
    std::lock_guard lock(mutex_);
    return kept_;
  }
  void wait_until_let_go() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !kept_; });
  }

 private:
  void let_go() {
    std::lock_guard lock(mutex_);
    kept_ = false;
    changed_.notify_all();
  }

  Pinned<unsigned> words_{kCells};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool kept_ = true;
};

// Brings its cargo and mixes it into the cells. The cargo belongs to the graph, and to what was
// made of it.
class Keeper {
 public:
  Keeper(CUcontext context, CUfunction mix, int threads, CUdeviceptr cells, CUdeviceptr brought,
         unsigned seed)
      : cargo_(std::make_unique<Cargo>(seed)) {
    CHECK(cuGraphCreate(&graph_, 0));
    const CUuserObject object = cargo_->object();
    CHECK(cuUserObjectRetain(object, 2));
    CHECK(cuGraphRetainUserObject(graph_, object, 1, 0));
    CHECK(cuGraphRetainUserObject(graph_, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    CHECK(cuGraphReleaseUserObject(graph_, object, 1));
    CHECK(cuUserObjectRelease(object, 2));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = cargo_->words();
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = brought;
    copy.WidthInBytes = kCells * sizeof(unsigned);
    copy.Height = copy.Depth = 1;
    CUgraphNode brings = nullptr, mixes = nullptr;
    CHECK(cuGraphAddMemcpyNode(&brings, graph_, nullptr, 0, &copy, context));
    void* parameters[] = {&cells, &brought};
    CUDA_KERNEL_NODE_PARAMS_v2 kernel{};
    kernel.func = mix;
    kernel.blockDimX = static_cast<unsigned>(threads);
    kernel.gridDimX = (kCells + kernel.blockDimX - 1) / kernel.blockDimX;
    kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = parameters;
    CHECK(cuGraphAddKernelNode_v2(&mixes, graph_, &brings, 1, &kernel));
    CHECK(cuGraphInstantiateWithFlags(&exec_, graph_, 0));
    CHECK(cuGraphDestroy(graph_));
  }
  ~Keeper() {
    if (!cargo_->is_kept()) fail("cargo", "is gone before its graph");
    CHECK(cuGraphExecDestroy(exec_));
    cargo_->wait_until_let_go();
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  void launch(CUstream stream) const { CHECK(cuGraphLaunch(exec_, stream)); }

 private:
  std::unique_ptr<Cargo> cargo_;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

// The driver's advice for a kernel: threads of a block.
int best_threads(CUfunction function) {
  int blocks = 0, threads = 0, resident = 0;
  size_t shared = 0;
  CHECK(cuOccupancyMaxPotentialBlockSize(
      &blocks, &threads, function, [](int size) { return static_cast<size_t>(size); }, 0, 512));
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&resident, function, threads, 0));
  CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&shared, function, resident, threads));
  if (threads < 1 || threads > 512 || resident < 1 || shared == 0) {
    fail("occupancy", "is none of a launch that can be made");
  }
  return threads;
}

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  CHECK(cuProfilerStop());
  const Module module(kKeepersPtx);
  const CUfunction mix = module.function("mix");
  const int threads = best_threads(mix);
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  {
    std::vector<unsigned> model(kCells, 1);
    const Buffer<unsigned> cells(model), brought(std::vector<unsigned>(kCells, 2));
    CHECK(cuCtxSynchronize());
    // Each is made and goes at another step.
    std::array<std::unique_ptr<Keeper>, 5> keepers;
    std::array<unsigned, 5> seeds{};
    for (int step = 0; step < steps; ++step) {
      const auto turn = static_cast<unsigned>(step);
      const size_t at = turn * 3 % keepers.size();
      if (turn < keepers.size() || step % 4 == 0) {
        CHECK(cuProfilerStart());
        keepers[at].reset();
        seeds[at] = turn * 2654435761u;
        keepers[at] = std::make_unique<Keeper>(context, mix, threads, cells.address(),
                                               brought.address(), seeds[at]);
        CHECK(cuProfilerStop());
      }
      keepers[at]->launch(stream);
      for (unsigned cell = 0; cell < kCells; ++cell) {
        model[cell] = kept(model[cell], seeds[at] + cell, static_cast<unsigned>(threads));
      }
      if (step % 3 == 2) CHECK(cuStreamSynchronize(stream));
      if (step % 20 == 19) {
        CHECK(cuStreamSynchronize(stream));
        must_equal("cells", cells.download(), model);
        std::printf("step %d: %016" PRIx64 "\n", step, digest(model));
      }
    }
    CHECK(cuStreamSynchronize(stream));
    must_equal("cells", cells.download(), model);
  }
  CHECK(cuStreamDestroy_v2(stream));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 2000));
}
