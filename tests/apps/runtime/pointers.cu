// A graph whose edges are pointers kept in device memory: kernels get one pointer and reach the
// rest through it. Nodes lie in separate allocations and are linked anew in every step.
#include "program.h"

namespace {

constexpr uint32_t kNodes = 4096;
constexpr uint32_t kPools = 16;
constexpr uint32_t kPerPool = kNodes / kPools;
constexpr int kHops = 6;

struct Node {
  Node* next[2];  // the one for this step's parity is read, the other written
  uint32_t number;
  uint32_t value;
  uint32_t gathered;
};

struct Graph {
  Node** nodes;  // in device memory, as are the nodes that it points to
};

__host__ __device__ inline uint32_t first_target(uint32_t i) {
  return (i * 2654435761u + 12345u) % kNodes;
}
__host__ __device__ inline uint32_t mix(uint32_t sum, uint32_t value) {
  return (sum << 5 | sum >> 27) ^ (value * 0x9e3779b1u);
}

__global__ void build(Graph graph, Node* pool, uint32_t first) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  Node* node = pool + i;
  node->number = first + i;
  node->value = node->number * 7 + 1;
  node->gathered = 0;
  graph.nodes[node->number] = node;
}

__global__ void link(Graph graph) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  graph.nodes[i]->next[0] = graph.nodes[first_target(i)];
  graph.nodes[i]->next[1] = nullptr;
}

__global__ void walk(const Graph* graph, int parity) {
  Node* self = graph->nodes[blockIdx.x * blockDim.x + threadIdx.x];
  uint32_t sum = self->value;
  const Node* at = self;
  for (int hop = 0; hop < kHops; ++hop) {
    at = at->next[parity];
    sum = mix(sum, at->value);
  }
  self->gathered = sum;
  // Odd sums move the edge on to the next node's target, even ones to the last node seen.
  self->next[parity ^ 1] = sum & 1 ? self->next[parity]->next[parity] : const_cast<Node*>(at);
}

__global__ void settle(const Graph* graph) {
  Node* self = graph->nodes[blockIdx.x * blockDim.x + threadIdx.x];
  self->value = self->gathered + self->number;
}

// The device's graph on the host, with numbers in place of pointers.
struct HostGraph {
  std::vector<uint32_t> next[2];
  std::vector<uint32_t> value = std::vector<uint32_t>(kNodes);

  HostGraph() {
    next[0].resize(kNodes);
    next[1].resize(kNodes);
    for (uint32_t i = 0; i < kNodes; ++i) {
      value[i] = i * 7 + 1;
      next[0][i] = first_target(i);
    }
  }
  void step(int parity) {
    std::vector<uint32_t> gathered(kNodes);
    for (uint32_t i = 0; i < kNodes; ++i) {
      uint32_t sum = value[i];
      uint32_t at = i;
      for (int hop = 0; hop < kHops; ++hop) {
        at = next[parity][at];
        sum = mix(sum, value[at]);
      }
      gathered[i] = sum;
      next[parity ^ 1][i] = sum & 1 ? next[parity][next[parity][i]] : at;
    }
    for (uint32_t i = 0; i < kNodes; ++i) value[i] = gathered[i] + i;
  }
};

// Collects the values into an array, in order of their numbers.
__global__ void collect(const Graph* graph, uint32_t* values, uint32_t* targets, int parity) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = graph->nodes[i]->value;
  targets[i] = graph->nodes[i]->next[parity]->number;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = steps_of(argc, argv, 2400);
  constexpr unsigned int kThreads = 128;
  Graph graph{allocate<Node*>(kNodes)};
  std::vector<Node*> pools;
  for (uint32_t pool = 0; pool < kPools; ++pool) {
    pools.push_back(allocate<Node>(kPerPool));
    build<<<kPerPool / kThreads, kThreads>>>(graph, pools.back(), pool * kPerPool);
    CHECK_LAUNCH();
  }
  link<<<kNodes / kThreads, kThreads>>>(graph);
  CHECK_LAUNCH();
  Graph* on_device = upload(std::vector<Graph>{graph});
  uint32_t* values = allocate<uint32_t>(kNodes);
  uint32_t* targets = allocate<uint32_t>(kNodes);

  HostGraph host;
  for (int step = 1; step <= steps; ++step) {
    walk<<<kNodes / kThreads, kThreads>>>(on_device, (step - 1) & 1);
    CHECK_LAUNCH();
    settle<<<kNodes / kThreads, kThreads>>>(on_device);
    CHECK_LAUNCH();
    host.step((step - 1) & 1);
    if (step % 10 == 0 || step == steps) {
      collect<<<kNodes / kThreads, kThreads>>>(on_device, values, targets, step & 1);
      CHECK_LAUNCH();
      const std::vector<uint32_t> found = fetch(values, kNodes);
      const std::vector<uint32_t> edges = fetch(targets, kNodes);
      expect_same("value", found, host.value);
      expect_same("edge", edges, host.next[step & 1]);
      std::printf("step %d values %016llx edges %016llx\n", step,
                  static_cast<unsigned long long>(hash_of(found)),
                  static_cast<unsigned long long>(hash_of(edges)));
    }
  }
  for (Node* pool : pools) CHECK(cudaFree(pool));
  CHECK(cudaFree(graph.nodes));
  CHECK(cudaFree(on_device));
  CHECK(cudaFree(values));
  CHECK(cudaFree(targets));
  return finish();
}
