// Graphs: nodes of work and what each comes after; and graphs that are ready to be launched.
//
// Not thread-safe but for Graphs: who holds Graphs' lock may use all graphs of it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/simcuda/driver/handles.h"
#include "tools/simcuda/driver/work.h"

namespace simcuda {

struct GraphNode {
  CUgraphNode handle = nullptr;
  std::weak_ptr<Graph> graph;
  Work work;
  std::vector<std::shared_ptr<GraphNode>> after;  // each once, in the order they were added
  CUgraphNode original = nullptr;                 // that it was cloned from
  std::vector<void*> parameters;                  // what was last told of a kernel's parameters
};

struct Graph {
  CUgraph handle = nullptr;
  CUgraph original = nullptr;                     // that it was cloned from
  bool child = false;                             // belongs to a node
  std::vector<std::shared_ptr<GraphNode>> nodes;  // in the order they were added
};

// A graph at the moment of its instantiation, and what was updated since.
struct GraphExec {
  struct Step {
    CUgraphNode node = nullptr;  // of the graph that it was made from
    Work work;
    std::vector<size_t> after;         // steps
    std::shared_ptr<GraphExec> child;  // of a ChildCall
    bool enabled = true;
  };
  CUgraphExec handle = nullptr;
  uint64_t flags = 0;
  std::vector<Step> steps;    // in the order of the graph's nodes
  std::vector<size_t> order;  // in which they run
  Point last;                 // of its newest launch, which the next one waits for

  // Null: no such node, also not in children.
  Step* find(CUgraphNode node);
};

CUgraphNodeType type_of(const Work& work);
// Whether a launched graph may have its work exchanged for this: of the same type, and between the
// same kinds of memory.
bool exchangeable(const Work& before, const Work& after);

// All graphs of the process. Its lock is the caller's to hold.
class Graphs {
 public:
  using Hold = std::unique_lock<std::mutex>;
  Hold hold() { return Hold(mutex_); }

  HandleTable<CUgraph, Graph> graphs{0x9'0000'0000};
  HandleTable<CUgraphNode, GraphNode> nodes{0xa'0000'0000};
  HandleTable<CUgraphExec, GraphExec> execs{0xb'0000'0000};

  std::shared_ptr<Graph> create();
  // Null where a dependency is no node of the graph, or there twice.
  std::shared_ptr<GraphNode> add(const std::shared_ptr<Graph>& graph,
                                 std::vector<std::shared_ptr<GraphNode>> after, Work work);
  std::shared_ptr<Graph> clone(const Graph& graph);
  // Takes its handles away, and those of its nodes and their children.
  void destroy(const std::shared_ptr<Graph>& graph);
  void destroy_node(const std::shared_ptr<GraphNode>& node);
  // Null, with a node in `wrong`, when the graph has a cycle.
  std::shared_ptr<GraphExec> instantiate(const Graph& graph, uint64_t flags, CUgraphNode* wrong);
  // A graph that does what the executable one does, for captures of its launch.
  std::shared_ptr<Graph> graph_of(const GraphExec& exec);
  CUgraphExecUpdateResult update(GraphExec& exec, const Graph& graph, CUgraphNode* wrong);

 private:
  std::mutex mutex_;
};

}  // namespace simcuda
