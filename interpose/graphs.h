// Graphs that are ready to be launched: what each of their nodes writes, and how many kernels a
// launch runs. Read from the driver when a graph is instantiated or updated.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "interpose/driver.h"
#include "interpose/modules.h"
#include "tracker/memory_map.h"
#include "tracker/write_set.h"

namespace gpusnap {

class Graphs {
 public:
  Graphs(const Driver& driver, Modules& modules, const MemoryMap& memory)
      : driver_(driver), modules_(modules), memory_(memory) {}

  // What a launch of a graph cannot be followed for, by name; empty: nothing.
  std::string instantiated(CUgraphExec exec, CUgraph graph);
  std::string updated(CUgraphExec exec, CUgraph graph);
  void destroyed(CUgraphExec exec) { execs_.erase(exec); }
  // One node of it has other parameters now.
  std::string set_kernel(CUgraphExec exec, CUgraphNode node,
                         const CUDA_KERNEL_NODE_PARAMS_v1& params);
  std::string set_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D& copy);
  void set_memset(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS& params);
  void set_record(CUgraphExec exec, CUgraphNode node, CUevent event);
  std::string set_child(CUgraphExec exec, CUgraphNode node, CUgraph child);
  void set_enabled(CUgraphExec exec, CUgraphNode node, bool enabled);

  // Of one launch; of a graph that is not known, everything.
  void add_writes(CUgraphExec exec, WriteSet& writes) const;
  uint64_t kernels(CUgraphExec exec) const;
  // Which it is, in the order in which graphs were instantiated.
  uint64_t number(CUgraphExec exec) const;
  // The events that it records.
  std::vector<CUevent> events(CUgraphExec exec) const;

 private:
  // A kernel and its arguments, copied: what it writes is asked at each launch, since what they
  // point to may have been allocated meanwhile.
  struct KernelCall {
    KernelCall() = default;
    KernelCall(KernelCall&&) = default;
    KernelCall& operator=(KernelCall&&) = default;
    CUfunction function = nullptr;
    std::vector<std::byte> values;
    std::vector<void*> params;  // into values
  };
  struct Node {
    CUgraphNode handle = nullptr;
    uint64_t kernels = 0;
    bool everything = false;
    bool enabled = true;
    std::vector<KernelCall> calls;
    std::vector<WriteSet::Range> writes;
    std::vector<CUevent> events;
  };
  struct Exec {
    uint64_t number = 0;
    std::vector<Node> nodes;
    // After an update it is not known which node of the one graph became which of the other: what
    // is set for one node then comes on top.
    bool paired = true;
  };

  std::string read_graph(CUgraph graph, std::vector<Node>& nodes) const;
  std::string read_node(CUgraphNode handle, Node& node) const;
  std::string read_copy(const CUDA_MEMCPY3D& copy, Node& node) const;
  void read_kernel(const CUDA_KERNEL_NODE_PARAMS_v1& params, Node& node) const;
  static void read_memset(const CUDA_MEMSET_NODE_PARAMS& params, Node& node);
  // A child graph is a node that does all that its own do.
  static void fold(std::vector<Node> nodes, Node& into);
  static void take(const WriteSet& set, Node& node);
  void put(CUgraphExec exec, Node node);

  const Driver& driver_;
  Modules& modules_;
  const MemoryMap& memory_;
  std::map<CUgraphExec, Exec> execs_;
  uint64_t count_ = 0;
};

}  // namespace gpusnap
