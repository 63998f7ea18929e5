// Graphs: captured ones, which another capture changes, ones that are built and then changed node
// by node or as a whole, and ones that allocate memory. Their nodes come one after the other.
#include <tuple>

#include "tests/oracle/program.h"

namespace oracle {

// The work of the nodes of a graph that is built, in their order.
struct Program::Recipe {
  Part from, to;  // a copy
  Part set;
  Part mixed;  // by a kernel
  Part inner;  // a set again, by a graph within the graph
  unsigned value = 0;
  CUevent end = nullptr;
  uint64_t* calls = nullptr;  // counted by a function of the host, where there is one
  bool twice = false;

  CUDA_HOST_NODE_PARAMS host() const {
    return {twice ? [](void* count) { *static_cast<uint64_t*>(count) += 2; }
                  : [](void* count) { *static_cast<uint64_t*>(count) += 1; },
            calls};
  }
  std::vector<Part> parts() const { return {from, to, set, mixed, inner}; }
  CUDA_MEMCPY3D copy() const {
    CUDA_MEMCPY3D box{};
    box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = from.address;
    box.dstDevice = to.address;
    box.WidthInBytes = std::min(from.size, to.size);
    box.Height = box.Depth = 1;
    return box;
  }
  CUDA_MEMSET_NODE_PARAMS set_of(const Part& part) const {
    return {part.address, 0, value, 4, part.words(), 1};
  }
};

struct Program::BuiltGraph {
  BuiltGraph() { CHECK(cuGraphCreate(&graph, 0)); }
  ~BuiltGraph() { CHECK(cuGraphDestroy(graph)); }
  BuiltGraph(const BuiltGraph&) = delete;
  BuiltGraph& operator=(const BuiltGraph&) = delete;
  CUgraph graph = nullptr;
  CUgraphNode copy = nullptr, set = nullptr, kernel = nullptr, inner = nullptr, end = nullptr;
  CUgraphNode host = nullptr;
};

namespace {
// touch() as a node has it, and what its parameters point to.
struct Touch {
  CUdeviceptr address;
  unsigned count, step = 1, value;
  void* parameters[4] = {&address, &count, &step, &value};
  CUDA_KERNEL_NODE_PARAMS_v2 node{};
  Touch(CUfunction function, const Part& part, unsigned with)
      : address(part.address), count(part.words()), value(with) {
    node.func = function;
    node.gridDimX = std::min((count + 63) / 64, 20u);
    node.blockDimX = 64;
    node.gridDimY = node.gridDimZ = node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = parameters;
  }
  Touch(const Touch&) = delete;
  Touch& operator=(const Touch&) = delete;
};
}  // namespace

// `kinds`: which nodes it has; what they do is drawn.
CUgraph Program::capture(const Part& from, const Part& to, uint64_t kinds) {
  const CUstream stream = streams_[draw_.between(1, streams_.size() - 1)];  // legacy cannot be
  const uint64_t size = std::min(from.size, to.size);
  const auto words = static_cast<unsigned>(size / 4);
  CHECK(cuStreamBeginCapture_v2(stream, draw_.chance(50) ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                         : CU_STREAM_CAPTURE_MODE_RELAXED));
  if ((kinds & 1) != 0) launch("fill", stream, from.words(), from.pointer(), from.words(), 5u);
  if ((kinds & 2) != 0) IN_STREAM(cuMemcpyDtoDAsync_v2, stream, to.address, from.address, size);
  if ((kinds & 4) != 0) {
    const unsigned value = draw_.word();
    IN_STREAM(cuMemsetD32Async, stream, to.address, value, std::max(words / 2, 1u));
  }
  launch("move", stream, words, Moved{from.pointer(), to.pointer(), words, draw_.word()});
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(stream, &graph));
  return graph;
}

void Program::captured_graph() {
  const auto [from, to] = pick_two();
  if (from.memory == nullptr) return;
  if (exchange_.shared_contexts) return built_graph();
  const uint64_t kinds = draw_.below(8);
  const CUgraph graph = capture(from, to, kinds);
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK(cuGraphDestroy(graph));
  run_graph(exec, {from, to});
  const auto [other_from, other_to] = pick_two();
  if (other_from.memory != nullptr && draw_.chance(50)) {
    const CUgraph changed = capture(other_from, other_to, kinds);
    CUgraphExecUpdateResultInfo info{};
    CHECK(cuGraphExecUpdate_v2(exec, changed, &info));
    CHECK(cuGraphDestroy(changed));
    run_graph(exec, {other_from, other_to});
  }
  CHECK(cuGraphExecDestroy(exec));
}

// Launches it a few times.
void Program::run_graph(CUgraphExec exec, const std::vector<Part>& parts) {
  for (uint64_t left = draw_.between(1, 3); left > 0; --left) {
    const CUstream stream = pick_stream();
    for (const Part& part : parts) touch(*part.memory, stream);
    IN_STREAM(cuGraphLaunch, stream, exec);
    if (draw_.chance(60)) wait_step();
  }
}

Program::Recipe Program::draw_recipe(CUevent end) {
  Recipe recipe;
  while (recipe.from.memory == nullptr) std::tie(recipe.from, recipe.to) = pick_two();
  recipe.set = pick_part(pick_memory());
  recipe.mixed = pick_part(draw_.chance(80) ? pick_memory() : *counters_);
  recipe.inner = pick_part(pick_memory());
  recipe.value = draw_.word();
  recipe.end = end;
  return recipe;
}

CUgraph Program::inner_graph(const Recipe& recipe) {
  const CUDA_MEMSET_NODE_PARAMS set = recipe.set_of(recipe.inner);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &set, context_));
  return graph;
}

void Program::add_nodes(BuiltGraph& built, const Recipe& recipe) {
  const CUDA_MEMCPY3D copy = recipe.copy();
  const CUDA_MEMSET_NODE_PARAMS set = recipe.set_of(recipe.set);
  const Touch kernel(function("touch"), recipe.mixed, recipe.value);
  const CUgraph inner = inner_graph(recipe);
  CHECK(cuGraphAddMemcpyNode(&built.copy, built.graph, nullptr, 0, &copy, context_));
  CHECK(cuGraphAddMemsetNode(&built.set, built.graph, &built.copy, 1, &set, context_));
  CHECK(cuGraphAddKernelNode_v2(&built.kernel, built.graph, &built.set, 1, &kernel.node));
  CHECK(cuGraphAddChildGraphNode(&built.inner, built.graph, &built.kernel, 1, inner));
  CHECK(cuGraphAddEventRecordNode(&built.end, built.graph, &built.inner, 1, recipe.end));
  if (recipe.calls != nullptr) {
    CUgraphNodeParams host{};
    host.type = CU_GRAPH_NODE_TYPE_HOST;
    host.host = recipe.host();
    CHECK(cuGraphAddNode_v2(&built.host, built.graph, &built.end, nullptr, 1, &host));
  }
  CHECK(cuGraphDestroy(inner));
}

// Some nodes do from now on what `other` says, and so does the recipe.
void Program::change_nodes(const BuiltGraph& built, CUgraphExec exec, Recipe& recipe,
                           const Recipe& other) {
  recipe.value = other.value;
  if (draw_.chance(50)) {
    std::tie(recipe.from, recipe.to) = std::tie(other.from, other.to);
    const CUDA_MEMCPY3D copy = recipe.copy();
    CHECK(cuGraphExecMemcpyNodeSetParams(exec, built.copy, &copy, context_));
  }
  if (draw_.chance(50)) {
    recipe.set = other.set;
    const CUDA_MEMSET_NODE_PARAMS set = recipe.set_of(recipe.set);
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_MEMSET;
    params.memset = {set.dst,   set.pitch,  set.value, set.elementSize,
                     set.width, set.height, context_};
    CHECK(draw_.chance(50) ? cuGraphExecNodeSetParams(exec, built.set, &params)
                           : cuGraphExecMemsetNodeSetParams(exec, built.set, &set, context_));
  }
  if (recipe.calls != nullptr && draw_.chance(40)) {
    recipe.twice = !recipe.twice;
    const CUDA_HOST_NODE_PARAMS host = recipe.host();
    CHECK(cuGraphExecHostNodeSetParams(exec, built.host, &host));
  }
  if (draw_.chance(50)) {
    recipe.mixed = other.mixed;
    const Touch kernel(function("touch"), recipe.mixed, recipe.value);
    CHECK(cuGraphExecKernelNodeSetParams_v2(exec, built.kernel, &kernel.node));
  }
  if (draw_.chance(50)) {
    recipe.inner = other.inner;
    const CUgraph inner = inner_graph(recipe);
    CHECK(cuGraphExecChildGraphNodeSetParams(exec, built.inner, inner));
    CHECK(cuGraphDestroy(inner));
  }
  if (draw_.chance(30)) {
    recipe.end = other.end;
    CHECK(cuGraphExecEventRecordNodeSetEvent(exec, built.end, recipe.end));
  }
  if (draw_.chance(40)) {
    const CUgraphNode nodes[] = {built.copy, built.set, built.kernel};
    const CUgraphNode node = nodes[draw_.below(3)];
    CHECK(cuGraphNodeSetEnabled(exec, node, draw_.chance(50) ? 1 : 0));
  }
}

void Program::built_graph() {
  CUevent ends[2] = {};
  for (CUevent& end : ends) CHECK(cuEventCreate(&end, CU_EVENT_DISABLE_TIMING));
  BuiltGraph built;
  Recipe recipe = draw_recipe(ends[0]);
  uint64_t* const calls = exchange_.shared ? &calls_.emplace_back(0) : nullptr;
  recipe.calls = calls;
  add_nodes(built, recipe);
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiateWithFlags(&exec, built.graph, 0));
  run_graph(exec, recipe.parts());
  for (uint64_t left = draw_.below(3); left > 0; --left) {
    change_nodes(built, exec, recipe, draw_recipe(ends[left % 2]));
    run_graph(exec, recipe.parts());
    if (draw_.chance(50)) CHECK(cuEventSynchronize(recipe.end));
  }
  if (draw_.chance(30)) {
    BuiltGraph other;
    recipe = draw_recipe(ends[1]);
    recipe.calls = calls;
    add_nodes(other, recipe);
    CUgraphExecUpdateResultInfo info{};
    CHECK(cuGraphExecUpdate_v2(exec, other.graph, &info));
    run_graph(exec, recipe.parts());
  }
  if (calls != nullptr) {
    wait_for_all();
    see(calls, sizeof *calls);
  }
  CHECK(cuGraphExecDestroy(exec));
  for (CUevent end : ends) CHECK(cuEventDestroy_v2(end));
}

// A graph that fills memory of its own, by way of memory that is there only while it runs. Null
// where there was no memory to be had.
CUgraph Program::capture_memory(const Part& from, Memory& lasting) {
  const CUstream stream = streams_[draw_.between(1, streams_.size() - 1)];
  const auto words = static_cast<unsigned>(lasting.words());
  CUdeviceptr inside = 0;
  CUgraph graph = nullptr;
  CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  const bool there =
      TRY(in_stream(cuMemAllocAsync, cuMemAllocAsync_ptsz, stream, &lasting.address,
                    lasting.size)) &&
      TRY(in_stream(cuMemAllocAsync, cuMemAllocAsync_ptsz, stream, &inside, lasting.size));
  if (there) {
    IN_STREAM(cuMemcpyDtoDAsync_v2, stream, inside, from.address, lasting.size);
    launch("fill", stream, words / 2, reinterpret_cast<unsigned*>(inside), words / 2, 5u);
    const unsigned value = draw_.word();
    IN_STREAM(cuMemsetD32Async, stream, lasting.address, value, words);
    launch("move", stream, words,
           Moved{reinterpret_cast<unsigned*>(inside), reinterpret_cast<unsigned*>(lasting.address),
                 words, draw_.word()});
    IN_STREAM(cuMemFreeAsync, stream, inside);
  }
  CHECK(cuStreamEndCapture(stream, &graph));
  if (there) return graph;
  CHECK(cuGraphDestroy(graph));
  return nullptr;
}

void Program::memory_graph() {
  const auto [from, to] = pick_two();
  if (from.memory == nullptr || from.words() < 2 || exchange_.shared_contexts || !uses_pools_) {
    return built_graph();
  }
  Memory lasting;
  lasting.size = from.size / 4 * 4;
  const CUgraph graph = capture_memory(from, lasting);
  if (graph == nullptr) return;
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  const Part made{&lasting, lasting.address, lasting.size};
  run_graph(exec, {from, made});
  const CUstream stream = pick_stream();
  touch(lasting, stream);
  touch(*to.memory, stream);
  IN_STREAM(cuMemcpyDtoDAsync_v2, stream, to.address, lasting.address,
            std::min(to.size, lasting.size));
  if (draw_.chance(60)) wait_step();
  if (draw_.chance(50)) {
    const CUstream last = pick_stream();
    touch(lasting, last);
    IN_STREAM(cuMemFreeAsync, last, lasting.address);
  } else {
    CHECK(cuMemFree_v2(lasting.address));
  }
  CHECK(cuGraphExecDestroy(exec));
  CHECK(cuGraphDestroy(graph));
}

}  // namespace oracle
