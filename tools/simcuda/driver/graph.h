// Graphs: nodes of work and what each comes after; and graphs that are ready to be launched.
//
// Not thread-safe but for Graphs: who holds Graphs' lock may use all graphs of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/handles.h"
#include "tools/simcuda/driver/work.h"

namespace simcuda {

struct GraphExec;

// Something of the program's that graphs keep alive.
struct UserObject {
  CUuserObject handle = nullptr;
  CUhostFn destroy = nullptr;
  void* user = nullptr;
  uint64_t references = 0;
};
using UserObjects = std::map<std::shared_ptr<UserObject>, unsigned>;

struct GraphNode {
  CUgraphNode handle = nullptr;
  std::weak_ptr<Graph> graph;
  Work work;
  std::vector<std::shared_ptr<GraphNode>> after;  // each once, in the order they were added
  CUgraphNode original = nullptr;                 // that it was cloned from
  std::vector<void*> parameters;                  // what was last told of a kernel's parameters
  std::map<CUkernelNodeAttrID, CUkernelNodeAttrValue> attributes;  // that were set
};

struct Graph {
  CUgraph handle = nullptr;
  CUgraph original = nullptr;                     // that it was cloned from
  bool child = false;                             // belongs to a node
  std::weak_ptr<GraphExec> exec;                  // made from it last
  UserObjects objects;                            // that it refers to
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
  UserObjects objects;        // that it refers to
  Point last;                 // of its newest launch, which the next one waits for

  // Null: no such node, also not in children.
  Step* find(CUgraphNode node);
  bool has_memory() const;
};

CUgraphNodeType type_of(const Work& work);
// Whether it allocates or frees memory, or a graph in it does: much is not allowed then.
bool has_memory(const Graph& graph);
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
  // The graph must have no memory nodes.
  std::shared_ptr<Graph> clone(const Graph& graph);
  // Takes its handles away, and those of its nodes and their children.
  void destroy(const std::shared_ptr<Graph>& graph);
  void destroy_node(const std::shared_ptr<GraphNode>& node);
  // Null, with a node in `wrong`, when the graph has a cycle.
  std::shared_ptr<GraphExec> instantiate(const Graph& graph, uint64_t flags, CUgraphNode* wrong);
  // A graph that does what the executable one does, for captures of its launch.
  std::shared_ptr<Graph> graph_of(const GraphExec& exec);
  CUgraphExecUpdateResult update(GraphExec& exec, const Graph& graph, CUgraphNode* wrong);
  void destroy(const std::shared_ptr<GraphExec>& exec);

  // References to an object of the program's.
  static void refer(UserObjects& objects, const std::shared_ptr<UserObject>& object,
                    unsigned count);
  void release(const std::shared_ptr<UserObject>& object, uint64_t count);
  // Objects that nothing refers to any more; to be destroyed without the lock.
  std::vector<std::shared_ptr<UserObject>> take_unreferenced() {
    return std::exchange(unreferenced_, {});
  }

 private:
  void release_all(UserObjects& objects);

  std::vector<std::shared_ptr<UserObject>> unreferenced_;
  std::mutex mutex_;
};

}  // namespace simcuda
