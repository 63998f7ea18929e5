// Memory that graphs allocate. A chain of them hands its state on in such memory alone: one
// allocates it and fills it, some steps later another frees it after having allocated the next;
// with memory in between that lives only while a graph runs, and memory that is freed by the launch
// after the next.
#include "graph_memory.h"

#include <array>
#include <numeric>

#include "app.h"
#include "graph_memory_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;

class Memories {
 public:
  explicit Memories(const std::vector<unsigned>& start) : start_(start) {
    CHECK(cuCtxGetCurrent(&context_));
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    build_first();
    build_step(0);
    build_step(1);
    capture_again();
  }
  ~Memories() {
    if (state_ != 0) CHECK(cuMemFreeAsync(state_, stream_));
    CHECK(cuMemFree_v2(again_));
    CHECK(cuStreamSynchronize(stream_));
    for (CUgraphExec exec : {first_, steps_[0], steps_[1], again_exec_}) {
      CHECK(cuGraphExecDestroy(exec));
    }
    for (CUgraph graph : graphs_) CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy_v2(stream_));
  }
  Memories(const Memories&) = delete;
  Memories& operator=(const Memories&) = delete;

  // The state begins anew, from what was uploaded.
  void begin() {
    if (state_ != 0) CHECK(cuMemFreeAsync(state_, stream_));
    CHECK(cuGraphLaunch(first_, stream_));
    state_ = first_state_;
    turn_ = 0;
  }
  // It moves into other memory and is changed on its way.
  void step() {
    CHECK(cuGraphLaunch(steps_[turn_], stream_));
    state_ = step_states_[turn_];
    turn_ = 1 - turn_;
  }
  // Every launch frees what the one before it left.
  void again() { CHECK(cuGraphLaunch(again_exec_, stream_)); }

  void wait() { CHECK(cuStreamSynchronize(stream_)); }
  std::vector<unsigned> state() const { return download(state_); }
  std::vector<unsigned> copied() const { return download(again_); }

 private:
  static std::vector<unsigned> download(CUdeviceptr address) {
    std::vector<unsigned> values(kCells);
    CHECK(cuMemcpyDtoH_v2(values.data(), address, kCells * sizeof(unsigned)));
    return values;
  }
  CUdeviceptr add_alloc(CUgraph graph, std::vector<CUgraphNode> after, CUgraphNode* node) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.bytesize = kCells * sizeof(unsigned);
    CHECK(cuGraphAddMemAllocNode(node, graph, after.data(), after.size(), &params));
    return params.dptr;
  }
  // grow() or add(), which ignores the last one.
  CUgraphNode add_kernel(CUgraph graph, CUfunction function, CUgraphNode after, CUdeviceptr to,
                         CUdeviceptr from, unsigned by) {
    CUgraphNode node = nullptr;
    void* parameters[] = {&to, &from, &by};
    CUDA_KERNEL_NODE_PARAMS_v2 params{};
    params.func = function;
    params.gridDimX = kCells / kThreads;
    params.blockDimX = kThreads;
    params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = parameters;
    CHECK(cuGraphAddKernelNode_v2(&node, graph, &after, 1, &params));
    return node;
  }
  CUgraph new_graph() {
    CHECK(cuGraphCreate(&graphs_.emplace_back(), 0));
    return graphs_.back();
  }

  void build_first() {
    const CUgraph graph = new_graph();
    CUgraphNode node = nullptr;
    first_state_ = add_alloc(graph, {}, &node);
    add_kernel(graph, grow_, node, first_state_, start_.address(), 3);
    CHECK(cuGraphInstantiateWithFlags(&first_, graph, 0));
  }
  // The first of them takes what the first graph left, or the second; the second what the first
  // left.
  void build_step(int which) {
    const CUgraph graph = new_graph();
    CUgraphNode next = nullptr;
    CUgraphNode half = nullptr;
    CUgraphNode freed = nullptr;
    const CUdeviceptr from = which == 0 ? first_state_ : step_states_[0];
    const CUdeviceptr to = add_alloc(graph, {}, &next);
    // Between the two there is memory that nobody else sees.
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    params.alloc.bytesize = kCells * sizeof(unsigned);
    CHECK(cuGraphAddNode_v2(&half, graph, &next, nullptr, 1, &params));
    const CUdeviceptr between = params.alloc.dptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    CHECK(cuGraphNodeGetType(half, &type));
    if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC) fail("node", "does not allocate");
    CUgraphNode last = add_kernel(graph, grow_, half, between, from, 5 + which);
    last = add_kernel(graph, grow_, last, to, between, 11);
    last = add_kernel(graph, add_, last, to, start_.address(), 0);
    CHECK(cuGraphAddMemFreeNode(&freed, graph, &last, 1, between));
    if (which == 0) {
      CHECK(cuGraphAddMemFreeNode(&freed, graph, &last, 1, from));
    } else {
      // A copy gives the first graph again what the first of them left.
      CUDA_MEMCPY3D copy{};
      copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.srcDevice = to;
      copy.dstDevice = start_.address();
      copy.WidthInBytes = kCells * sizeof(unsigned);
      copy.Height = copy.Depth = 1;
      CHECK(cuGraphAddMemcpyNode(&last, graph, &last, 1, &copy, context_));
      CHECK(cuGraphAddMemFreeNode(&freed, graph, &last, 1, from));
    }
    step_states_[which] = to;
    CHECK(cuGraphInstantiateWithFlags(&steps_[which], graph, 0));
  }
  // The same by calls that are captured.
  void capture_again() {
    CUgraph graph = nullptr;
    CUdeviceptr between = 0;
    CHECK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemAllocAsync(&again_, kCells * sizeof(unsigned), stream_));
    CHECK(cuMemAllocAsync(&between, kCells * sizeof(unsigned), stream_));
    launch(grow_, {kCells / kThreads, kThreads}, stream_, between, start_.address(), 21u);
    launch(grow_, {kCells / kThreads, kThreads}, stream_, again_, between, 22u);
    CHECK(cuMemFreeAsync(between, stream_));
    CHECK(cuStreamEndCapture(stream_, &graph));
    graphs_.push_back(graph);
    CHECK(cuGraphInstantiateWithFlags(&again_exec_, graph,
                                      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  }

  Module module_{kGraphMemoryPtx};
  CUfunction grow_ = module_.function("grow");
  CUfunction add_ = module_.function("add");
  Buffer<unsigned> start_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::vector<CUgraph> graphs_;
  CUgraphExec first_ = nullptr, again_exec_ = nullptr;
  std::array<CUgraphExec, 2> steps_{};
  std::array<CUdeviceptr, 2> step_states_{};
  CUdeviceptr first_state_ = 0, again_ = 0, state_ = 0;
  int turn_ = 0;
};

struct Host {
  std::vector<unsigned> start, state, copied;

  std::vector<unsigned> grow(const std::vector<unsigned>& from, unsigned by) const {
    std::vector<unsigned> to(kCells);
    for (unsigned at = 0; at < kCells; ++at) to[at] = grown(from[at], by + at);
    return to;
  }
  void begin() { state = grow(start, 3); }
  void step(unsigned which) {
    state = grow(grow(state, 5 + which), 11);
    for (unsigned at = 0; at < kCells; ++at) state[at] += start[at];
    if (which == 1) start = state;
  }
  void again() { copied = grow(grow(start, 21), 22); }
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  Host host;
  host.start.resize(kCells);
  std::iota(host.start.begin(), host.start.end(), 1u);
  Memories memories(host.start);
  for (int step = 0; step < steps; ++step) {
    // At a synchronisation, the memory of one graph or of another one is allocated.
    switch (step % 3) {
      case 0:
        memories.begin();
        host.begin();
        break;
      case 1:
        memories.step();
        host.step(0);
        break;
      default:
        memories.step();
        host.step(1);
    }
    if (step % 2 == 0) {
      memories.again();
      host.again();
    }
    memories.wait();
    if (step % 7 != 6) continue;
    must_equal("state", memories.state(), host.state);
    must_equal("copy", memories.copied(), host.copied);
    std::printf("step %d: digests %016" PRIx64 " %016" PRIx64 "\n", step, digest(host.state),
                digest(host.copied));
  }
  must_equal("state", memories.state(), host.state);
  cuuint64_t used = 0;
  CHECK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &used));
  if (used == 0) fail("graph memory", "is not counted");
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 1200));
}
