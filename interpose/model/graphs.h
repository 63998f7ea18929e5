// Graphs that are ready to be launched: what each of their nodes writes, what memory they allocate
// and free, what they bring the host, and how many kernels a launch runs. Read from the driver when
// a graph is instantiated or updated.
//
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "interpose/hook/driver.h"
#include "interpose/journal/entry.h"
#include "interpose/model/graph_callback.h"
#include "interpose/model/graph_memory_placeholders.h"
#include "interpose/model/modules.h"
#include "tracker/memory_map.h"
#include "tracker/write_set.h"

namespace gpusnap {

class Graphs {
 public:
  Graphs(const Driver& driver, Modules& modules, const MemoryMap& memory)
      : driver_(driver), modules_(modules), memory_(memory) {}

  // Names what a launch of a graph cannot be followed for; empty: nothing. `hosts`: its functions
  // of the host. `anew`: a launch frees what is left of the one before.
  std::string instantiated(CUgraphExec exec, CUgraph graph, std::vector<HostNodes::Node> hosts = {},
                           bool anew = false);
  std::string updated(CUgraphExec exec, CUgraph graph, std::vector<HostNodes::Node> hosts = {});
  void destroyed(CUgraphExec exec);
  // One node of it has other parameters now.
  std::string set_kernel(CUgraphExec exec, CUgraphNode node,
                         const CUDA_KERNEL_NODE_PARAMS_v1& params);
  std::string set_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D& copy);
  std::string set_memset(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS& params);
  std::string set_words(CUgraphExec exec, CUgraphNode node,
                        std::span<const CUstreamBatchMemOpParams> operations);
  std::string set_record(CUgraphExec exec, CUgraphNode node, CUevent event);
  std::string set_child(CUgraphExec exec, CUgraphNode node, CUgraph child,
                        std::vector<HostNodes::Node> hosts = {});
  std::string set_host(CUgraphExec exec, CUgraphNode node, std::unique_ptr<GraphCallback> callback);
  std::string set_enabled(CUgraphExec exec, CUgraphNode node, bool enabled);

  // Adds the writes of one launch; everything if the graph is not known.
  void add_writes(CUgraphExec exec, WriteSet& writes) const;
  uint64_t kernels(CUgraphExec exec) const;
  // Which it is, in the order in which graphs were instantiated.
  uint64_t number(CUgraphExec exec) const;
  // Whether it waits for words.
  bool waits(CUgraphExec exec) const;
  // The events that it records.
  std::vector<CUevent> events(CUgraphExec exec) const;
  // Memory of the host that a launch writes to and that no allocation of the map holds.
  std::vector<HostBlock> brought_to_host(CUgraphExec exec) const;
  // Its functions of the host, in the order of its nodes.
  std::vector<GraphCallback*> callbacks(CUgraphExec exec) const;
  // It becomes part of another graph.
  void share(CUgraphExec exec);

  struct Allocation {
    uint64_t address = 0;
    uint64_t size = 0;  // bytes
    int device = 0;
  };
  // The effect of a launch on memory that graphs allocate.
  struct Memory {
    std::vector<Allocation> lasting;    // allocated, and there afterwards
    std::vector<Allocation> transient;  // freed by the same launch
    std::vector<uint64_t> freed;        // that was there before
    bool anew = false;
    bool none() const { return lasting.empty() && transient.empty() && freed.empty(); }
  };
  Memory memory(CUgraphExec exec) const;
  bool has_memory(CUgraphExec exec) const { return !memory(exec).none(); }
  // Whether a graph that is ready to be launched allocates memory there.
  bool allocates(uint64_t address) const;
  GraphMemoryPlaceholders& graph_memory_placeholders() { return graph_memory_placeholders_; }
  // Whether such a graph has this executable graph, or one that has not been destroyed.
  void take(CUgraph graph, CUgraphExec exec) { taken_[graph] = exec; }
  void graph_destroyed(CUgraph graph) {
    graph_memory_placeholders_.forget(graph);
    taken_.erase(graph);
  }
  bool is_taken(CUgraph graph) const {
    const auto found = taken_.find(graph);
    return found != taken_.end() && execs_.contains(found->second);
  }

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
    bool waits = false;  // for a word
    bool enabled = true;
    std::vector<KernelCall> calls;
    std::vector<WriteSet::Range> writes;
    std::vector<CUevent> events;
    // Where they lead is asked at each launch, too.
    std::vector<CUDA_MEMCPY3D> copies;
    std::vector<GraphCallback*> callbacks;
    std::vector<Allocation> allocated;
    std::vector<uint64_t> freed;
    // Something of it is in the host's memory: it must not be mistaken for another.
    bool reaches_host() const { return !copies.empty() || !callbacks.empty(); }
  };
  struct Exec {
    uint64_t number = 0;
    bool anew = false;
    std::vector<std::unique_ptr<GraphCallback>> owned;
    std::vector<Node> nodes;
    // After an update it is not known which node of the one graph became which of the other: what
    // is set for one node then comes on top.
    bool paired = true;
  };

  using Hosts = std::vector<HostNodes::Node>;
  std::string read_graph(CUgraph graph, const Hosts& hosts, std::vector<Node>& nodes) const;
  std::string read_node(CUgraphNode handle, const Hosts& hosts, Node& node) const;
  std::string read_memory(CUgraphNode handle, bool allocates, Node& node) const;
  static std::string read_copy(const CUDA_MEMCPY3D& copy, Node& node);
  bool is_pageable(CUmemorytype type, uint64_t to) const;
  bool is_seen_by_host(uint64_t address) const;
  std::string read_words(std::span<const CUstreamBatchMemOpParams> operations, Node& node) const;
  void read_kernel(const CUDA_KERNEL_NODE_PARAMS_v1& params, Node& node) const;
  static void read_memset(const CUDA_MEMSET_NODE_PARAMS& params, Node& node);
  // A child graph is a node that does all that its own do.
  static void fold(std::vector<Node> nodes, Node& into);
  static void take(const WriteSet& set, Node& node);
  std::string put(CUgraphExec exec, Node node);
  // Callbacks that no graph has any more go when they have run.
  void retire(std::vector<std::unique_ptr<GraphCallback>> callbacks);
  void keep(std::unique_ptr<GraphCallback> callback);
  static void own(Exec& exec, Hosts hosts);

  const Driver& driver_;
  Modules& modules_;
  const MemoryMap& memory_;
  std::map<CUgraphExec, Exec> execs_;
  std::vector<std::unique_ptr<GraphCallback>> retired_;
  GraphMemoryPlaceholders graph_memory_placeholders_;
  std::map<CUgraph, CUgraphExec> taken_;
  uint64_t count_ = 0;
};

}  // namespace gpusnap
