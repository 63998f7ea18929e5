// Memory that belongs to graphs: it has its address from the creation of its node on, and is there
// from a launch that allocates it until it is freed, by a node or by a call.
//
// Not thread-safe: Graphs' lock guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/memory.h"

namespace simcuda {

struct GraphBlock {
  uint64_t address = 0;
  uint64_t size = 0;  // bytes
  std::byte* host = nullptr;
  int device = 0;
  bool live = false;  // by the order of the calls
  CUgraph owner = nullptr;
  std::set<CUgraph> freed_in;  // graphs that have a node which frees it
  CUmemPoolProps properties{};
  std::vector<CUmemAccessDesc> accesses;
};

class GraphMemory {
 public:
  GraphMemory(Memory& memory, int devices)
      : memory_(memory), counts_(static_cast<size_t>(devices)) {}

  // Memory that is not there yet, for a node of `owner`.
  CUresult create(const CUDA_MEM_ALLOC_NODE_PARAMS& params, CUgraph owner,
                  std::shared_ptr<GraphBlock>* block);
  // The block that starts at `address`; null: none of a graph does.
  std::shared_ptr<GraphBlock> find(uint64_t address) const;
  void allocate(GraphBlock& block);
  void free(GraphBlock& block);
  // Whether there is memory that no graph needs any more.
  bool has_unused() const;
  // Gives it back to the device. Nothing that is queued uses it.
  void drop_unused();

  void trim(int device);
  uint64_t count(int device, CUgraphMem_attribute attribute) const;
  void reset_high(int device, CUgraphMem_attribute attribute);

 private:
  // Bytes. Memory that was allocated stays reserved until it is trimmed.
  struct Counts {
    uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  };

  Memory& memory_;
  std::vector<Counts> counts_;  // by device
  std::map<uint64_t, std::shared_ptr<GraphBlock>> blocks_;
};

}  // namespace simcuda
