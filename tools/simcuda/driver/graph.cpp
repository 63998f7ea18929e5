#include "tools/simcuda/driver/graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace simcuda {
namespace {

// The step added last runs first of all that could run, not the one that a program would expect.
// So a dependency that the program forgot shows.
std::optional<std::vector<size_t>> order_of(const std::vector<GraphExec::Step>& steps,
                                            size_t* stuck) {
  std::vector<size_t> waits_for(steps.size());
  std::vector<std::vector<size_t>> before(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    waits_for[i] = steps[i].after.size();
    for (size_t j : steps[i].after) before[j].push_back(i);
  }
  std::vector<size_t> ready;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (waits_for[i] == 0) ready.push_back(i);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    auto newest = std::max_element(ready.begin(), ready.end());
    const size_t next = *newest;
    ready.erase(newest);
    order.push_back(next);
    for (size_t i : before[next]) {
      if (--waits_for[i] == 0) ready.push_back(i);
    }
  }
  if (order.size() == steps.size()) return order;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (waits_for[i] != 0) *stuck = i;
  }
  return std::nullopt;
}

// By the places of nodes in their graph.
std::map<const GraphNode*, size_t> places_of(const Graph& graph) {
  std::map<const GraphNode*, size_t> places;
  for (size_t i = 0; i < graph.nodes.size(); ++i) places[graph.nodes[i].get()] = i;
  return places;
}

std::vector<size_t> after_of(const GraphNode& node,
                             const std::map<const GraphNode*, size_t>& places) {
  std::vector<size_t> after;
  for (const auto& before : node.after) after.push_back(places.at(before.get()));
  std::sort(after.begin(), after.end());
  return after;
}

std::shared_ptr<GraphExec> exec_of(const Graph& graph, CUgraphNode* wrong) {
  auto exec = std::make_shared<GraphExec>();
  const auto places = places_of(graph);
  for (const auto& node : graph.nodes) {
    GraphExec::Step step;
    step.node = node->handle;
    step.work = node->work;
    step.after = after_of(*node, places);
    if (auto* child = std::get_if<ChildCall>(&node->work)) {
      step.child = exec_of(*child->graph, wrong);
      if (!step.child) return nullptr;
    }
    exec->steps.push_back(std::move(step));
  }
  size_t stuck = 0;
  auto order = order_of(exec->steps, &stuck);
  if (!order) {
    *wrong = exec->steps[stuck].node;
    return nullptr;
  }
  exec->order = std::move(*order);
  return exec;
}

CUgraphExecUpdateResult compare(const GraphExec& exec, const Graph& graph, CUgraphNode* wrong) {
  if (exec.steps.size() != graph.nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  const auto places = places_of(graph);
  for (size_t i = 0; i < exec.steps.size(); ++i) {
    const GraphExec::Step& step = exec.steps[i];
    const GraphNode& node = *graph.nodes[i];
    *wrong = node.handle;
    if (step.after != after_of(node, places)) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (type_of(step.work) != type_of(node.work)) {
      return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    }
    if (!exchangeable(step.work, node.work)) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (!step.child) continue;
    auto result = compare(*step.child, *std::get<ChildCall>(node.work).graph, wrong);
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return result;
  }
  *wrong = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

void exchange(GraphExec& exec, const Graph& graph) {
  for (size_t i = 0; i < exec.steps.size(); ++i) {
    GraphExec::Step& step = exec.steps[i];
    step.work = graph.nodes[i]->work;
    if (step.child) exchange(*step.child, *std::get<ChildCall>(step.work).graph);
  }
}

}  // namespace

CUgraphNodeType type_of(const Work& work) {
  constexpr CUgraphNodeType kTypes[] = {
      CU_GRAPH_NODE_TYPE_EMPTY,       CU_GRAPH_NODE_TYPE_KERNEL,
      CU_GRAPH_NODE_TYPE_MEMCPY,      CU_GRAPH_NODE_TYPE_MEMSET,
      CU_GRAPH_NODE_TYPE_HOST,        CU_GRAPH_NODE_TYPE_EVENT_RECORD,
      CU_GRAPH_NODE_TYPE_WAIT_EVENT,  CU_GRAPH_NODE_TYPE_GRAPH,
      CU_GRAPH_NODE_TYPE_MEM_ALLOC,   CU_GRAPH_NODE_TYPE_MEM_FREE,
      CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
  return kTypes[work.index()];
}

bool has_memory(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    const auto* child = std::get_if<ChildCall>(&node->work);
    return std::holds_alternative<AllocCall>(node->work) ||
           std::holds_alternative<FreeCall>(node->work) ||
           (child != nullptr && has_memory(*child->graph));
  });
}

bool GraphExec::has_memory() const {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) {
    return std::holds_alternative<AllocCall>(step.work) ||
           std::holds_alternative<FreeCall>(step.work) || (step.child && step.child->has_memory());
  });
}

bool exchangeable(const Work& before, const Work& after) {
  if (before.index() != after.index()) return false;
  if (const auto* copy = std::get_if<CopyCall>(&before)) {
    const CUDA_MEMCPY3D& other = std::get<CopyCall>(after).copy;
    return copy->copy.srcMemoryType == other.srcMemoryType &&
           copy->copy.dstMemoryType == other.dstMemoryType;
  }
  if (const auto* kernel = std::get_if<KernelCall>(&before)) {
    return kernel->context == std::get<KernelCall>(after).context;
  }
  // Where its memory is cannot change.
  if (const auto* alloc = std::get_if<AllocCall>(&before)) {
    return alloc->block == std::get<AllocCall>(after).block;
  }
  if (const auto* free = std::get_if<FreeCall>(&before)) {
    return free->block == std::get<FreeCall>(after).block;
  }
  if (const auto* words = std::get_if<WordsCall>(&before)) {
    return words->context == std::get<WordsCall>(after).context;
  }
  return true;
}

GraphExec::Step* GraphExec::find(CUgraphNode node) {
  for (Step& step : steps) {
    if (step.node == node) return &step;
    if (!step.child) continue;
    if (Step* inner = step.child->find(node)) return inner;
  }
  return nullptr;
}

std::shared_ptr<Graph> Graphs::create() {
  auto graph = std::make_shared<Graph>();
  graph->handle = graphs.reserve();
  graphs.insert(graph->handle, graph);
  return graph;
}

std::shared_ptr<GraphNode> Graphs::add(const std::shared_ptr<Graph>& graph,
                                       std::vector<std::shared_ptr<GraphNode>> after, Work work) {
  for (size_t i = 0; i < after.size(); ++i) {
    if (!after[i] || after[i]->graph.lock() != graph) return nullptr;
    if (std::find(after.begin(), after.begin() + static_cast<ptrdiff_t>(i), after[i]) !=
        after.begin() + static_cast<ptrdiff_t>(i)) {
      return nullptr;
    }
  }
  auto node = std::make_shared<GraphNode>();
  node->handle = nodes.reserve();
  node->graph = graph;
  node->work = std::move(work);
  node->after = std::move(after);
  nodes.insert(node->handle, node);
  graph->nodes.push_back(node);
  return node;
}

std::shared_ptr<Graph> Graphs::clone(const Graph& graph) {
  auto copy = create();
  copy->original = graph.handle;
  std::map<const GraphNode*, std::shared_ptr<GraphNode>> twins;
  for (const auto& node : graph.nodes) {
    Work work = node->work;
    if (auto* child = std::get_if<ChildCall>(&work)) {
      child->graph = clone(*child->graph);
      child->graph->child = true;
    }
    auto twin = add(copy, {}, std::move(work));
    twin->original = node->handle;
    twin->attributes = node->attributes;
    twins[node.get()] = std::move(twin);
  }
  for (const auto& node : graph.nodes) {
    for (const auto& before : node->after) twins[node.get()]->after.push_back(twins[before.get()]);
  }
  for (const auto& [object, count] : graph.objects) refer(copy->objects, object, count);
  return copy;
}

void Graphs::destroy(const std::shared_ptr<Graph>& graph) {
  graphs.remove(graph->handle);
  for (const auto& node : graph->nodes) {
    nodes.remove(node->handle);
    if (auto* child = std::get_if<ChildCall>(&node->work)) destroy(child->graph);
  }
  release_all(graph->objects);
}

void Graphs::destroy(const std::shared_ptr<GraphExec>& exec) {
  execs.remove(exec->handle);
  release_all(exec->objects);
}

void Graphs::refer(UserObjects& objects, const std::shared_ptr<UserObject>& object,
                   unsigned count) {
  objects[object] += count;
  object->references += count;
}

void Graphs::release(const std::shared_ptr<UserObject>& object, uint64_t count) {
  object->references -= count;
  if (object->references == 0) unreferenced_.push_back(object);
}

void Graphs::release_all(UserObjects& objects) {
  for (const auto& [object, count] : objects) release(object, count);
  objects.clear();
}

void Graphs::destroy_node(const std::shared_ptr<GraphNode>& node) {
  nodes.remove(node->handle);
  if (auto* child = std::get_if<ChildCall>(&node->work)) destroy(child->graph);
  auto graph = node->graph.lock();
  if (!graph) return;
  std::erase(graph->nodes, node);
  for (const auto& other : graph->nodes) std::erase(other->after, node);
}

std::shared_ptr<GraphExec> Graphs::instantiate(const Graph& graph, uint64_t flags,
                                               CUgraphNode* wrong) {
  auto exec = exec_of(graph, wrong);
  if (!exec) return nullptr;
  exec->flags = flags;
  for (const auto& [object, count] : graph.objects) refer(exec->objects, object, 1);
  exec->handle = execs.reserve();
  execs.insert(exec->handle, exec);
  return exec;
}

std::shared_ptr<Graph> Graphs::graph_of(const GraphExec& exec) {
  auto graph = create();
  graph->child = true;
  for (const GraphExec::Step& step : exec.steps) {
    Work work = step.enabled ? step.work : Work(EmptyCall{});
    if (step.enabled && step.child) work = ChildCall{graph_of(*step.child)};
    add(graph, {}, std::move(work));
  }
  for (size_t i = 0; i < exec.steps.size(); ++i) {
    for (size_t j : exec.steps[i].after) graph->nodes[i]->after.push_back(graph->nodes[j]);
  }
  return graph;
}

CUgraphExecUpdateResult Graphs::update(GraphExec& exec, const Graph& graph, CUgraphNode* wrong) {
  auto result = compare(exec, graph, wrong);
  if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS) exchange(exec, graph);
  return result;
}

}  // namespace simcuda
