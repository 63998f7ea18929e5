// Graphs that are made by hand, by the runtime's calls: kernels, copies, sets, functions of the
// host, a graph within the graph, events, and memory that a graph allocates and another one frees;
// changed node by node and by a clone of the whole.
#include <numeric>

#include "program.h"

namespace {

constexpr uint32_t kCells = 2048;
constexpr uint32_t kThreads = 128;

__host__ __device__ inline uint32_t stirred(uint32_t value, uint32_t by) {
  return (value ^ by) * 0x9e3779b1u + (value >> 9);
}

__global__ void stir(uint32_t* to, const uint32_t* from, uint32_t by) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = stirred(from[i], by + i);
}

struct Seen {
  const uint32_t* pinned = nullptr;
  uint64_t sum = 0;
};

void look(void* given) {
  auto* seen = static_cast<Seen*>(given);
  seen->sum = std::accumulate(seen->pinned, seen->pinned + kCells, seen->sum * 7);
}

cudaGraphNode_t add_stir(cudaGraph_t graph, cudaGraphNode_t after, uint32_t* to,
                         const uint32_t* from, uint32_t by) {
  void* arguments[] = {&to, &from, &by};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(stir);
  params.gridDim = dim3(kCells / kThreads);
  params.blockDim = dim3(kThreads);
  params.kernelParams = arguments;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, &after, after == nullptr ? 0 : 1, &params));
  return node;
}

// The first graph allocates memory that the second one frees. It keeps the data from one launch to
// the next.
struct Handed {
  cudaGraph_t makes, takes;
  cudaGraphExec_t make, take;
  uint32_t* memory;

  explicit Handed(uint32_t* cells) {
    cudaMemAllocNodeParams params{};
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.poolProps.location.id = 0;
    params.bytesize = kCells * sizeof(uint32_t);
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&makes, 0));
    CHECK(cudaGraphAddMemAllocNode(&node, makes, nullptr, 0, &params));
    memory = static_cast<uint32_t*>(params.dptr);
    add_stir(makes, node, memory, cells, 31);
    CHECK(cudaGraphCreate(&takes, 0));
    node = add_stir(takes, nullptr, cells, memory, 32);
    cudaGraphNode_t freed;
    CHECK(cudaGraphAddMemFreeNode(&freed, takes, &node, 1, memory));
    cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(freed, &type));
    if (type != cudaGraphNodeTypeMemFree) std::exit(3);
    CHECK(cudaGraphInstantiate(&make, makes, 0));
    CHECK(cudaGraphInstantiate(&take, takes, 0));
  }
  ~Handed() {
    CHECK(cudaGraphExecDestroy(make));
    CHECK(cudaGraphExecDestroy(take));
    CHECK(cudaGraphDestroy(makes));
    CHECK(cudaGraphDestroy(takes));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 3000);
  std::vector<uint32_t> model(kCells);
  std::iota(model.begin(), model.end(), 3u);
  uint32_t* cells = upload(model);
  uint32_t* other = allocate<uint32_t>(kCells);
  void* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, kCells * sizeof(uint32_t)));
  Seen seen{static_cast<uint32_t*>(pinned), 0};
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));

  // cells -> other by a graph within the graph, back by a copy, some of it set, to the host.
  cudaGraph_t graph, inner;
  cudaGraphNode_t within, copied, set, brought, host, recorded;
  CHECK(cudaGraphCreate(&inner, 0));
  const cudaGraphNode_t stirs = add_stir(inner, nullptr, other, cells, 1);
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddChildGraphNode(&within, graph, nullptr, 0, inner));
  CHECK(cudaGraphAddMemcpyNode1D(&copied, graph, &within, 1, cells, other,
                                 kCells * sizeof(uint32_t), cudaMemcpyDeviceToDevice));
  cudaMemsetParams sets{};
  sets.dst = cells;
  sets.value = 5;
  sets.elementSize = 4;
  sets.width = 40;
  sets.height = 1;
  CHECK(cudaGraphAddMemsetNode(&set, graph, &copied, 1, &sets));
  cudaMemcpy3DParms brings{};
  brings.srcPtr =
      make_cudaPitchedPtr(cells, kCells * sizeof(uint32_t), kCells * sizeof(uint32_t), 1);
  brings.dstPtr =
      make_cudaPitchedPtr(pinned, kCells * sizeof(uint32_t), kCells * sizeof(uint32_t), 1);
  brings.extent = make_cudaExtent(kCells * sizeof(uint32_t), 1, 1);
  brings.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaGraphAddMemcpyNode(&brought, graph, &set, 1, &brings));
  cudaGraphNodeParams calls{};
  calls.type = cudaGraphNodeTypeHost;
  calls.host.fn = look;
  calls.host.userData = &seen;
  CHECK(cudaGraphAddNode(&host, graph, &brought, nullptr, 1, &calls));
  CHECK(cudaGraphAddEventRecordNode(&recorded, graph, &host, 1, event));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  Handed handed(cells);

  uint64_t sum = 0;
  uint32_t by = 1;
  bool there = false;
  std::vector<uint32_t> made(kCells);
  for (int step = 0; step < steps; ++step) {
    if (step % 11 == 5) {
      by = static_cast<uint32_t>(step);
      const uint32_t* from = cells;
      void* arguments[] = {&other, &from, &by};
      cudaKernelNodeParams params{};
      CHECK(cudaGraphKernelNodeGetParams(stirs, &params));
      params.kernelParams = arguments;
      CHECK(cudaGraphKernelNodeSetParams(stirs, &params));
      CHECK(cudaGraphExecChildGraphNodeSetParams(exec, within, inner));
      cudaGraphNodeParams one{};
      sets.value = by;
      one.type = cudaGraphNodeTypeMemset;
      one.memset.dst = sets.dst;
      one.memset.value = by;
      one.memset.elementSize = 4;
      one.memset.width = 40;
      one.memset.height = 1;
      CHECK(cudaGraphExecNodeSetParams(exec, set, &one));
    }
    CHECK(cudaGraphLaunch(exec, stream));
    for (uint32_t i = 0; i < kCells; ++i) model[i] = stirred(model[i], by + i);
    std::fill_n(model.begin(), 40, sets.value);
    sum = std::accumulate(model.begin(), model.end(), sum * 7);
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaStreamSynchronize(stream));
    if (seen.sum != sum) {
      std::printf("FAILED: what the host function saw\n");
      return 2;
    }
    // Every other time the cells become what the first graph made of them a step before.
    CHECK(cudaGraphLaunch(there ? handed.take : handed.make, stream));
    for (uint32_t i = 0; i < kCells; ++i) {
      there ? model[i] = stirred(made[i], 32 + i) : made[i] = stirred(model[i], 31 + i);
    }
    there = !there;
    CHECK(cudaStreamSynchronize(stream));
    if (step % 100 == 99)
      std::printf("step %d: %016llx\n", step, (unsigned long long)hash_of(model));
  }
  if (there) CHECK(cudaFreeAsync(handed.memory, stream));
  CHECK(cudaStreamSynchronize(stream));
  expect_same("cells", fetch(cells, kCells), model);
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(inner));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(cells));
  CHECK(cudaFree(other));
  return finish();
}
