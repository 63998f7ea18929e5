// Graphs that are made at one time and launched at others, with a cut in between: their nodes
// change memory of their own, by way of memory that is there only while they run, tell the host,
// and call it.
#include "tests/random/caller.h"

namespace calls {

namespace {

constexpr size_t kMostGraphs = 3;

CUDA_MEMCPY3D row_of(uint64_t size, CUdeviceptr from) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.WidthInBytes = size;
  copy.Height = copy.Depth = 1;
  return copy;
}

}  // namespace

void Caller::made_graph_step() {
  if (graphs_.empty() || (graphs_.size() < kMostGraphs && draw_.chance(30))) return make_graph();
  if (draw_.chance(12)) return drop_made_graph(draw_.below(graphs_.size()));
  launch_made_graph(graphs_[draw_.below(graphs_.size())]);
}

// A kernel of the library: the actor's module may go while the graph is there.
void Caller::add_kernel(Chain& chain, CUdeviceptr words, uint64_t count) {
  auto count_of = static_cast<unsigned>(count);
  unsigned value = draw_.word();
  float weight = 2.5f;
  void* parameters[] = {&words, &count_of, &value, &weight};
  CUDA_KERNEL_NODE_PARAMS_v2 params{};
  CUkernel found = nullptr;
  CHECK(cuLibraryGetKernel(&found, library_, "stir"));
  if (draw_.chance(50)) {
    params.kern = found;
    params.ctx = context_;
  } else {
    CHECK(cuKernelGetFunction(&params.func, found));
  }
  params.gridDimX = 4;
  params.blockDimX = 64;
  params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
  params.kernelParams = parameters;
  CHECK(cuGraphAddKernelNode_v2(&chain.last, chain.graph, chain.after(), chain.count(), &params));
}

void Caller::add_copy(Chain& chain, const CUDA_MEMCPY3D& copy) {
  CHECK(cuGraphAddMemcpyNode(&chain.last, chain.graph, chain.after(), chain.count(), &copy,
                             context_));
}

// By way of memory that the graph allocates and frees.
void Caller::add_inside(Chain& chain, const Memory& words) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CHECK(cuCtxGetDevice(&params.poolProps.location.id));
  params.bytesize = words.size;
  CHECK(cuGraphAddMemAllocNode(&chain.last, chain.graph, chain.after(), chain.count(), &params));
  CUDA_MEMCPY3D there = row_of(words.size, words.address);
  there.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  there.dstDevice = params.dptr;
  add_copy(chain, there);
  add_kernel(chain, params.dptr, words.words());
  CUDA_MEMCPY3D back = row_of(words.size, params.dptr);
  back.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  back.dstDevice = words.address;
  add_copy(chain, back);
  CHECK(cuGraphAddMemFreeNode(&chain.last, chain.graph, chain.after(), chain.count(), params.dptr));
}

// Adds results that the program can look at once the graph has run.
void Caller::add_signs(Chain& chain, MadeGraph& made) {
  if (draw_.chance(60)) {
    made.calls = std::make_unique<uint64_t>(0);
    const CUDA_HOST_NODE_PARAMS host{[](void* calls) { *static_cast<uint64_t*>(calls) += 3; },
                                     made.calls.get()};
    CHECK(cuGraphAddHostNode(&chain.last, chain.graph, chain.after(), chain.count(), &host));
  }
  if (draw_.chance(60)) {
    void* bytes = nullptr;
    CHECK(cuMemHostAlloc(&bytes, made.words->size, 0));
    made.letter = static_cast<unsigned char*>(bytes);
    std::fill_n(made.letter, made.words->size, static_cast<unsigned char>(0));
    CUDA_MEMCPY3D copy = row_of(made.words->size, made.words->address);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = bytes;
    add_copy(chain, copy);
  }
}

// Calls that are captured go on from what the graph has.
void Caller::capture_into(Chain& chain, Memory& words) {
  const CUstream stream = streams_[draw_.between(1, streams_.size() - 1)];
  CUgraph same = nullptr;
  CHECK(cuStreamBeginCaptureToGraph(stream, chain.graph, chain.after(), nullptr, chain.count(),
                                    CU_STREAM_CAPTURE_MODE_RELAXED));
  const unsigned value = draw_.word();
  IN_STREAM(cuMemsetD32Async, stream, words.address, value, words.words() / 3);
  CHECK(cuStreamEndCapture(stream, &same));
  // Later nodes must wait for the captured set: the only node that nothing follows.
  size_t count = 0;
  CHECK(cuGraphGetNodes(same, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  CHECK(cuGraphGetNodes(same, nodes.data(), &count));
  for (CUgraphNode node : nodes) {
    size_t followers = 0;
    CHECK(cuGraphNodeGetDependentNodes(node, nullptr, &followers));
    if (followers == 0) chain.last = node;
  }
}

void Caller::make_graph() {
  need_library();
  MadeGraph& made = graphs_.emplace_back();
  made.words = &own_memory(draw_.between(64, 6000) * 4);
  fill(*made.words);
  CHECK(cuGraphCreate(&made.graph, 0));
  Chain chain{made.graph, nullptr};
  add_kernel(chain, made.words->address, made.words->words());
  const bool inside = uses_pools_ && draw_.chance(50);
  if (inside) add_inside(chain, *made.words);
  if (!exchange_.shared_contexts && draw_.chance(40)) capture_into(chain, *made.words);
  if (draw_.chance(30)) {
    CHECK(cuGraphAddEmptyNode(&chain.last, chain.graph, chain.after(), chain.count()));
  }
  add_kernel(chain, made.words->address, made.words->words());
  if (exchange_.shared) add_signs(chain, made);
  if (draw_.chance(30)) {
    CUuserObject object = nullptr;
    CHECK(cuUserObjectCreate(
        &object, this, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CHECK(cuGraphRetainUserObject(made.graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  }
  instantiate(made, !inside);
  launch_made_graph(made);
}

void Caller::instantiate(MadeGraph& made, bool may_be_cloned) {
  CUgraph clone = nullptr;
  if (may_be_cloned && draw_.chance(30)) CHECK(cuGraphClone(&clone, made.graph));
  const CUgraph graph = clone != nullptr ? clone : made.graph;
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CHECK(draw_.chance(60) ? cuGraphInstantiateWithFlags(&made.exec, graph, 0)
                         : cuGraphInstantiateWithParams(&made.exec, graph, &params));
  if (clone != nullptr) CHECK(cuGraphDestroy(clone));
}

void Caller::launch_made_graph(MadeGraph& made) {
  const CUstream stream = pick_stream();
  touch(*made.words, stream);
  if (draw_.chance(20)) IN_STREAM(cuGraphUpload, stream, made.exec);
  IN_STREAM(cuGraphLaunch, stream, made.exec);
  if (draw_.chance(60)) return;
  wait_for(*made.words);
  if (made.calls != nullptr) see(made.calls.get(), sizeof *made.calls);
  if (made.letter != nullptr) see(made.letter, made.words->size);
}

void Caller::drop_made_graph(size_t at) {
  MadeGraph& made = graphs_[at];
  look(*made.words);
  wait_for(*made.words);
  if (made.calls != nullptr) see(made.calls.get(), sizeof *made.calls);
  if (made.letter != nullptr) see(made.letter, made.words->size);
  CHECK(cuGraphExecDestroy(made.exec));
  CHECK(cuGraphDestroy(made.graph));
  if (made.letter != nullptr) CHECK(cuMemFreeHost(made.letter));
  drop(*made.words);
  graphs_.erase(graphs_.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace calls
