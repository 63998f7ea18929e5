// Memory of graphs in a replay. The driver chooses where such memory is when its node is made, and
// maps it when the graph is launched; a replay has to have it where it was, and launches nothing.
// So it puts an empty node in the place of each that allocates or frees memory, and memory of its
// own at the recorded address, for as long as a graph that the driver was given may use it.
//
// Any thread: what the nodes are. The rest: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "interpose/cuda/cuda_abi.h"

namespace gpusnap {

class GraphMemoryPlaceholders {
 public:
  struct Node {
    CUgraph graph = nullptr;
    bool allocates = false;
    uint64_t address = 0;
    CUDA_MEM_ALLOC_NODE_PARAMS params{};  // where it allocates
    std::vector<CUmemAccessDesc> accesses;
  };

  void add(CUgraphNode handle, Node node);
  // False: it is what the driver says.
  bool find(CUgraphNode handle, Node* node) const;
  bool has_nodes_of(CUgraph graph) const;
  // The graph has been destroyed.
  void forget(CUgraph graph);

  // Memory that has been put at an address.
  struct Memory {
    uint64_t size = 0;  // bytes
    int device = 0;
  };
  void note_memory(uint64_t address, Memory memory) { memory_[address] = memory; }
  bool has_memory(uint64_t address) const { return memory_.contains(address); }
  const std::map<uint64_t, Memory>& memory() const { return memory_; }
  // The addresses of such memory that no node allocates; they stay until they are forgotten.
  std::vector<uint64_t> without_node() const;
  void forget_memory(uint64_t address) { memory_.erase(address); }

 private:
  mutable std::mutex mutex_;  // over the nodes
  std::map<CUgraphNode, Node> nodes_;
  std::map<uint64_t, Memory> memory_;
};

}  // namespace gpusnap
