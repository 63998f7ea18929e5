// A graph with nodes of every kind, made by hand: kernels, sets and copies in one and two
// dimensions, copies to pinned and to plain memory, functions of the host, a graph within it,
// events; changed node by node, by the calls for each kind and by the one for all, and as a whole;
// launched from a capture into a graph that is there already.
#include "graph_nodes.h"

#include <array>
#include <numeric>

#include "app.h"
#include "graph_nodes_ptx.h"

namespace app {

constexpr unsigned kThreads = 128;
constexpr unsigned kRow = 64, kRows = kCells / kRow;

// stir() as a node has it.
struct Stir {
  CUdeviceptr cells;
  unsigned count = kCells, with;
  void* parameters[3] = {&cells, &count, &with};
  CUDA_KERNEL_NODE_PARAMS_v2 node{};
  Stir(CUfunction function, CUdeviceptr at, unsigned value) : cells(at), with(value) {
    node.func = function;
    node.gridDimX = kCells / kThreads;
    node.blockDimX = kThreads;
    node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = parameters;
  }
  Stir(const Stir&) = delete;
  Stir& operator=(const Stir&) = delete;
};

// The cells that a host function finds in pinned memory, and the sum that it makes of them.
struct Watcher {
  const unsigned* seen = nullptr;
  unsigned factor = 3;
  uint64_t sum = 0;

  static uint64_t next(uint64_t sum, unsigned factor, const unsigned* cells) {
    return std::accumulate(cells, cells + kCells, sum * factor);
  }
  static void look(void* self) {
    auto* watcher = static_cast<Watcher*>(self);
    watcher->sum = next(watcher->sum, watcher->factor, watcher->seen);
  }
  static void look_twice(void* self) {
    look(self);
    look(self);
  }
};

// A box of rows of `width` words, as a copy has it.
CUDA_MEMCPY3D box(CUdeviceptr from, size_t from_pitch, unsigned width, unsigned rows) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.srcPitch = from_pitch;
  copy.WidthInBytes = width * sizeof(unsigned);
  copy.Height = rows;
  copy.Depth = 1;
  return copy;
}

class Nodes {
 public:
  explicit Nodes(const std::vector<unsigned>& cells)
      : cells_(cells), other_(std::vector<unsigned>(kCells, 1)), plain_(kCells) {
    watcher_.seen = pinned_.data();
    std::fill_n(pinned_.data(), kCells, 0u);
    CHECK(cuCtxGetCurrent(&context_));
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    for (CUevent& event : events_) CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(events_[1], stream_));
    CHECK(cuCtxSynchronize());
    with_functions();
    with_plain_memory();
  }
  ~Nodes() {
    for (CUgraphExec exec : {watched_, brought_}) CHECK(cuGraphExecDestroy(exec));
    for (CUgraph graph : {watched_graph_, brought_graph_}) CHECK(cuGraphDestroy(graph));
    for (CUevent event : events_) CHECK(cuEventDestroy_v2(event));
    CHECK(cuStreamDestroy_v2(stream_));
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  void launch_watched() {
    CHECK(cuGraphLaunch(watched_, stream_));
    CHECK(cuEventSynchronize(events_[0]));
    CHECK(cuStreamSynchronize(stream_));
  }
  void launch_brought() {
    CHECK(cuGraphLaunch(brought_, stream_));
    CHECK(cuStreamSynchronize(stream_));
  }
  uint64_t sum() const { return watcher_.sum; }
  const std::vector<unsigned>& plain() const { return plain_; }
  std::vector<unsigned> other() const { return other_.download(); }

  // The calls for each kind.
  void change_one_by_one(unsigned with, bool twice) {
    const Stir stir(stir_, cells_.address(), with);
    const CUDA_MEMSET_NODE_PARAMS set = corner(with);
    const CUDA_HOST_NODE_PARAMS host{twice ? Watcher::look_twice : Watcher::look, &watcher_};
    CHECK(cuGraphExecKernelNodeSetParams_v2(watched_, stir_node_, &stir.node));
    CHECK(cuGraphExecMemsetNodeSetParams(brought_, set_node_, &set, context_));
    CHECK(cuGraphExecHostNodeSetParams(watched_, host_node_, &host));
    CHECK(cuGraphExecEventRecordNodeSetEvent(watched_, record_node_, events_[0]));
  }
  // The call for all kinds.
  void change_by_one_call(unsigned with, bool twice) {
    const Stir stir(stir_, cells_.address(), with);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel = stir.node;
    CHECK(cuGraphExecNodeSetParams(watched_, stir_node_, &params));
    params = {};
    params.type = CU_GRAPH_NODE_TYPE_HOST;
    params.host = {twice ? Watcher::look_twice : Watcher::look, &watcher_};
    CHECK(cuGraphExecNodeSetParams(watched_, host_node_, &params));
    params = {};
    const CUDA_MEMSET_NODE_PARAMS set = corner(with);
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset = {set.dst,   set.pitch,  set.value, set.elementSize,
                     set.width, set.height, context_};
    CHECK(cuGraphExecNodeSetParams(brought_, set_node_, &params));
  }
  // The graphs themselves, and the executable ones from them.
  void change_as_a_whole(unsigned with, bool twice) {
    const Stir stir(stir_, cells_.address(), with);
    const CUDA_MEMSET_NODE_PARAMS set = corner(with);
    const CUDA_HOST_NODE_PARAMS host{twice ? Watcher::look_twice : Watcher::look, &watcher_};
    CUgraphExecUpdateResultInfo info{};
    CHECK(cuGraphKernelNodeSetParams_v2(stir_node_, &stir.node));
    CHECK(cuGraphHostNodeSetParams(host_node_, &host));
    CHECK(cuGraphMemsetNodeSetParams(set_node_, &set));
    CHECK(cuGraphExecDestroy(watched_));
    CHECK(cuGraphInstantiateWithFlags(&watched_, watched_graph_, 0));
    CHECK(cuGraphExecUpdate_v2(brought_, brought_graph_, &info));
    CUDA_HOST_NODE_PARAMS told{};
    CHECK(cuGraphHostNodeGetParams(host_node_, &told));
    if (told.fn != host.fn || told.userData != host.userData)
      fail("host node", "tells another one");
  }

 private:
  // The first cells of every other row.
  CUDA_MEMSET_NODE_PARAMS corner(unsigned value) const {
    return {cells_.address(), 2 * kRow * sizeof(unsigned), value, 4, 5, kRows / 2};
  }
  CUgraphNode add(CUgraph graph, std::vector<CUgraphNode> after, CUgraphNodeParams params) {
    CUgraphNode node = nullptr;
    CHECK(cuGraphAddNode_v2(&node, graph, after.data(), nullptr, after.size(), &params));
    return node;
  }

  // Cells are stirred and brought to pinned memory, where a function looks at them.
  void with_functions() {
    CHECK(cuGraphCreate(&watched_graph_, 0));
    CUgraphNode waits = nullptr;
    CUgraphNode brings = nullptr;
    CUgraphNode empty = nullptr;
    CHECK(cuGraphAddEventWaitNode(&waits, watched_graph_, nullptr, 0, events_[1]));
    CUgraphNodeParams params{};
    const Stir stir(stir_, cells_.address(), 1);
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    params.kernel = stir.node;
    stir_node_ = add(watched_graph_, {waits}, params);
    CUDA_MEMCPY3D copy = box(cells_.address(), 0, kCells, 1);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = pinned_.data();
    CHECK(cuGraphAddMemcpyNode(&brings, watched_graph_, &stir_node_, 1, &copy, context_));
    params = {};
    params.type = CU_GRAPH_NODE_TYPE_HOST;
    params.host = {Watcher::look, &watcher_};
    host_node_ = add(watched_graph_, {brings}, params);
    CHECK(cuGraphAddEmptyNode(&empty, watched_graph_, &host_node_, 1));
    CHECK(cuGraphAddEventRecordNode(&record_node_, watched_graph_, &empty, 1, events_[0]));
    CHECK(cuGraphInstantiateWithFlags(&watched_, watched_graph_, 0));
  }

  // Half of each row goes to another place, is stirred there by a graph within the graph, and comes
  // to memory that the driver does not know.
  void with_plain_memory() {
    CUgraph inner = nullptr;
    CUgraphNode inside = nullptr;
    CUgraphNode moves = nullptr;
    CHECK(cuGraphCreate(&inner, 0));
    const Stir stir(stir_, other_.address(), 77);
    CHECK(cuGraphAddKernelNode_v2(&inside, inner, nullptr, 0, &stir.node));
    CHECK(cuGraphCreate(&brought_graph_, 0));
    const CUDA_MEMSET_NODE_PARAMS set = corner(9);
    CHECK(cuGraphAddMemsetNode(&set_node_, brought_graph_, nullptr, 0, &set, context_));
    CUDA_MEMCPY3D copy = box(cells_.address(), kRow * sizeof(unsigned), kRow / 2, kRows);
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = other_.address();
    copy.dstPitch = kRow * sizeof(unsigned);
    CHECK(cuGraphAddMemcpyNode(&moves, brought_graph_, &set_node_, 1, &copy, context_));
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph.graph = inner;
    const CUgraphNode within = add(brought_graph_, {moves}, params);
    CHECK(cuGraphDestroy(inner));
    // The last copy is captured.
    CUgraph captured = nullptr;
    CHECK(cuStreamBeginCaptureToGraph(stream_, brought_graph_, &within, nullptr, 1,
                                      CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyDtoHAsync_v2(plain_.data(), other_.address(), other_.bytes(), stream_));
    CHECK(cuStreamEndCapture(stream_, &captured));
    CHECK(cuGraphInstantiateWithFlags(&brought_, brought_graph_, 0));
  }

  Module module_{kGraphNodesPtx};
  CUfunction stir_ = module_.function("stir");
  Buffer<unsigned> cells_, other_;
  Pinned<unsigned> pinned_{kCells};
  std::vector<unsigned> plain_;
  Watcher watcher_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::array<CUevent, 2> events_{};
  CUgraph watched_graph_ = nullptr, brought_graph_ = nullptr;
  CUgraphExec watched_ = nullptr, brought_ = nullptr;
  CUgraphNode stir_node_ = nullptr, host_node_ = nullptr, record_node_ = nullptr;
  CUgraphNode set_node_ = nullptr;
};

struct Host {
  std::vector<unsigned> cells;
  std::vector<unsigned> other = std::vector<unsigned>(kCells, 1);
  uint64_t sum = 0;

  void watched(unsigned with, bool twice) {
    for (unsigned at = 0; at < kCells; ++at) cells[at] = stirred(cells[at], with + at);
    for (int left = twice ? 2 : 1; left > 0; --left) sum = Watcher::next(sum, 3, cells.data());
  }
  void brought(unsigned fill) {
    for (unsigned row = 0; row < kRows; row += 2) std::fill_n(&cells[row * kRow], 5, fill);
    for (unsigned at = 0; at < kCells; ++at) {
      if (at % kRow < kRow / 2) other[at] = cells[at];
    }
    for (unsigned at = 0; at < kCells; ++at) other[at] = stirred(other[at], 77 + at);
  }
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  Host host;
  host.cells.resize(kCells);
  std::iota(host.cells.begin(), host.cells.end(), 1u);
  Nodes nodes(host.cells);
  unsigned with = 1;
  unsigned fill = 9;
  bool twice = false;
  bool whole = false;
  for (int step = 0; step < steps; ++step) {
    const auto number = static_cast<unsigned>(step);
    // After a change as a whole nodes are no longer changed one by one.
    if (step % 9 == 4) {
      with = fill = number * 2654435761u;
      twice = !twice;
      whole = whole || step > steps / 2;
      if (whole) {
        nodes.change_as_a_whole(with, twice);
      } else if (step % 2 == 0) {
        nodes.change_one_by_one(with, twice);
      } else {
        nodes.change_by_one_call(with, twice);
      }
    }
    nodes.launch_watched();
    host.watched(with, twice);
    if (nodes.sum() != host.sum) fail("sum", "the device's result differs from the host's");
    nodes.launch_brought();
    host.brought(fill);
    must_equal("plain memory", nodes.plain(), host.other);
    if (step % 5 != 4) continue;
    std::printf("step %d: sum %016" PRIx64 ", digest %016" PRIx64 "\n", step, nodes.sum(),
                digest(nodes.plain()));
  }
  must_equal("other", nodes.other(), host.other);
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 800));
}
