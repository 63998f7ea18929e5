// Graphs: one that is captured on two streams, changed by another capture and launched again and
// again, and one that is built by hand, whose nodes are changed one by one.
#include "graph.h"

#include <array>
#include <numeric>

#include "app.h"
#include "graph_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;

unsigned blocks_for(unsigned count) {
  return (count + kThreads - 1) / kThreads;
}

// turn() as a node has it.
struct Turn {
  CUdeviceptr cells;
  unsigned count, by;
  void* parameters[3] = {&cells, &count, &by};
  CUDA_KERNEL_NODE_PARAMS_v2 node{};
  Turn(CUfunction function, CUdeviceptr at, unsigned many, unsigned how)
      : cells(at), count(many), by(how) {
    node.func = function;
    node.gridDimX = blocks_for(many);
    node.blockDimX = kThreads;
    node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = parameters;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

class Graphs {
 public:
  explicit Graphs(const std::vector<unsigned>& cells)
      : cells_(cells), sums_(std::vector<unsigned>(kCells / 2, 7)), copy_(kCells / 2) {
    for (CUstream& stream : streams_) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : events_) CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&launched_, CU_EVENT_DEFAULT));
    CHECK(cuCtxSynchronize());
    build();
  }
  ~Graphs() {
    if (captured_ != nullptr) CHECK(cuGraphExecDestroy(captured_));
    CHECK(cuGraphExecDestroy(built_));
    CHECK(cuGraphDestroy(graph_));
    for (CUevent event : events_) CHECK(cuEventDestroy_v2(event));
    CHECK(cuEventDestroy_v2(launched_));
    for (CUstream stream : streams_) CHECK(cuStreamDestroy_v2(stream));
  }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  // Captures what a step does with the cells, turned by `by`: both halves beside each other. The
  // stream that does the upper one is gone before the capture ends.
  void capture(unsigned by) {
    CUgraph graph = nullptr;
    CHECK(cuStreamBeginCapture_v2(streams_[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuEventRecord(events_[0], streams_[0]));
    CHECK(cuStreamWaitEvent(streams_[1], events_[0], 0));
    launch(turn_, {blocks_for(kCells / 2), kThreads}, streams_[0], cells_.address(), kCells / 2,
           by);
    launch(turn_, {blocks_for(kCells / 2), kThreads}, streams_[1], upper(), kCells / 2, by + 3);
    CHECK(cuEventRecord(events_[1], streams_[1]));
    CHECK(cuStreamWaitEvent(streams_[0], events_[1], 0));
    CHECK(cuStreamDestroy_v2(streams_[1]));
    launch(fold_, {blocks_for(kCells / 2), kThreads}, streams_[0], sums_.address(),
           cells_.address(), upper());
    CHECK(cuMemcpyDtoHAsync_v2(seen_.data(), sums_.address(), seen_.bytes(), streams_[0]));
    CHECK(cuStreamEndCapture(streams_[0], &graph));
    CHECK(cuStreamCreate(&streams_[1], CU_STREAM_NON_BLOCKING));
    CUgraphExecUpdateResultInfo info{};
    if (captured_ == nullptr) {
      CHECK(cuGraphInstantiateWithFlags(&captured_, graph, 0));
    } else {
      CHECK(cuGraphExecUpdate_v2(captured_, graph, &info));
    }
    CHECK(cuGraphDestroy(graph));
  }

  // The graph that was built by hand, from now on with another distance and another set.
  void change(unsigned by, unsigned fill) {
    Turn turn(turn_, copy_.address(), kCells / 2, by);
    CHECK(cuGraphExecKernelNodeSetParams_v2(built_, turn_node_, &turn.node));
    CUDA_MEMSET_NODE_PARAMS set{copy_.address(), 0, fill, 4, 64, 1};
    CHECK(cuGraphExecMemsetNodeSetParams(built_, set_node_, &set, context()));
  }

  void step() {
    CHECK(cuGraphLaunch(captured_, streams_[0]));
    CHECK(cuGraphLaunch(built_, streams_[0]));
    CHECK(cuEventRecord(launched_, streams_[0]));
  }
  void wait() { CHECK(cuEventSynchronize(launched_)); }
  std::vector<unsigned> seen() { return {seen_.span().begin(), seen_.span().end()}; }
  std::vector<unsigned> copied() const { return copy_.download(); }
  std::vector<unsigned> cells() const { return cells_.download(); }

 private:
  CUdeviceptr upper() const { return cells_.address() + kCells / 2 * sizeof(unsigned); }
  static CUcontext context() {
    CUcontext context = nullptr;
    CHECK(cuCtxGetCurrent(&context));
    return context;
  }
  // Adds the sums to nothing: a copy of them, its first cells set, turned.
  void build() {
    CUgraphNode copy_node = nullptr;
    CHECK(cuGraphCreate(&graph_, 0));
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = sums_.address();
    copy.dstDevice = copy_.address();
    copy.WidthInBytes = sums_.bytes();
    copy.Height = copy.Depth = 1;
    CUDA_MEMSET_NODE_PARAMS set{copy_.address(), 0, 0, 4, 64, 1};
    Turn turn(turn_, copy_.address(), kCells / 2, 1);
    CHECK(cuGraphAddMemcpyNode(&copy_node, graph_, nullptr, 0, &copy, context()));
    CHECK(cuGraphAddMemsetNode(&set_node_, graph_, &copy_node, 1, &set, context()));
    CHECK(cuGraphAddKernelNode_v2(&turn_node_, graph_, nullptr, 0, &turn.node));
    CHECK(cuGraphAddDependencies(graph_, &set_node_, &turn_node_, 1));
    CHECK(cuGraphInstantiateWithFlags(&built_, graph_, 0));
  }

  Module module_{kGraphPtx};
  CUfunction turn_ = module_.function("turn");
  CUfunction fold_ = module_.function("fold");
  Buffer<unsigned> cells_, sums_, copy_;
  Pinned<unsigned> seen_{kCells / 2};
  std::array<CUstream, 2> streams_{};
  std::array<CUevent, 2> events_{};
  CUevent launched_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphNode set_node_ = nullptr, turn_node_ = nullptr;
  CUgraphExec captured_ = nullptr, built_ = nullptr;
};

struct Host {
  std::vector<unsigned> cells;
  std::vector<unsigned> sums = std::vector<unsigned>(kCells / 2, 7);
  std::vector<unsigned> copy = std::vector<unsigned>(kCells / 2);

  void step(unsigned by, unsigned copied_by, unsigned fill) {
    constexpr unsigned kHalf = kCells / 2;
    for (unsigned at = 0; at < kHalf; ++at) {
      cells[at] = turned(cells[at], by) + at;
      cells[kHalf + at] = turned(cells[kHalf + at], by + 3) + at;
      sums[at] = sums[at] * 5 + (cells[at] ^ cells[kHalf + at]);
    }
    copy = sums;
    std::fill_n(copy.begin(), 64, fill);
    for (unsigned at = 0; at < kHalf; ++at) copy[at] = turned(copy[at], copied_by) + at;
  }
};

int run(int steps) {
  const Device device(ContextKind::kOwn);
  Host host;
  host.cells.resize(kCells);
  std::iota(host.cells.begin(), host.cells.end(), 1u);
  Graphs graphs(host.cells);
  unsigned by = 0;
  unsigned copied_by = 1;
  unsigned fill = 0;
  for (int step = 0; step < steps; ++step) {
    const auto number = static_cast<unsigned>(step);
    if (step % 10 == 0) {
      by = number / 10 + 1;
      graphs.capture(by);
    }
    if (step % 7 == 3) {
      copied_by = number % 30 + 1;
      fill = number * 2654435761u;
      graphs.change(copied_by, fill);
    }
    graphs.step();
    host.step(by, copied_by, fill);
    graphs.wait();
    must_equal("sums", graphs.seen(), host.sums);
    if (step % 4 != 3) continue;
    must_equal("copy", graphs.copied(), host.copy);
    std::printf("step %d: digest %016" PRIx64 "\n", step, digest(host.copy));
  }
  must_equal("cells", graphs.cells(), host.cells);
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 1500));
}
