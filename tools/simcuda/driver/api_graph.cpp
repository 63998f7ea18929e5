// Graphs: made by hand, changed, and asked about.

#include <algorithm>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/graph_calls.h"

namespace simcuda {

// A kernel runs in the context of its function; a library's kernel in the one that is given, or the
// current one.
CUresult work_of(Driver& state, const CUDA_KERNEL_NODE_PARAMS_v2& params, Work* work) {
  std::shared_ptr<Context> context;
  if (params.func == nullptr && params.ctx != nullptr) {
    context = state.contexts.find(params.ctx);
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  } else if (CUresult result = state.current(&context); result != CUDA_SUCCESS) {
    return result;
  }
  auto handle = params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
  if (auto function = state.functions.find(handle)) {
    auto module = function->module.lock();
    if (module) context = state.contexts.find(module->context);
    if (!context) return CUDA_ERROR_INVALID_HANDLE;
  }
  KernelCall call;
  CUresult result =
      check_kernel(state, *context, handle, {params.gridDimX, params.gridDimY, params.gridDimZ},
                   {params.blockDimX, params.blockDimY, params.blockDimZ}, params.sharedMemBytes,
                   params.kernelParams, params.extra, &call);
  if (result == CUDA_SUCCESS) *work = std::move(call);
  return result;
}

CUresult work_of(Driver& state, const CUDA_KERNEL_NODE_PARAMS_v1& params, Work* work) {
  return work_of(state,
                 CUDA_KERNEL_NODE_PARAMS_v2{params.func, params.gridDimX, params.gridDimY,
                                            params.gridDimZ, params.blockDimX, params.blockDimY,
                                            params.blockDimZ, params.sharedMemBytes,
                                            params.kernelParams, params.extra, nullptr, nullptr},
                 work);
}

CUresult work_of(Driver& state, const CUDA_MEMCPY3D& copy, Work* work) {
  std::shared_ptr<Context> context;
  if (CUresult result = state.current(&context); result != CUDA_SUCCESS) return result;
  const Memory::Plan plan(state.memory);
  WorkQueue::Task task;
  CUresult result = copy_task(state, *context, plan.hold, copy, &task);
  if (result == CUDA_SUCCESS) *work = CopyCall{copy};
  return result;
}

CUresult work_of(Driver& state, const CUDA_MEMSET_NODE_PARAMS& set, Work* work) {
  std::shared_ptr<Context> context;
  if (CUresult result = state.current(&context); result != CUDA_SUCCESS) return result;
  const Memory::Plan plan(state.memory);
  WorkQueue::Task task;
  CUresult result = set_task(state, *context, plan.hold, set, &task);
  if (result == CUDA_SUCCESS) *work = SetCall{set};
  return result;
}

CUresult work_of(Driver& state, const CUDA_CHILD_GRAPH_NODE_PARAMS& params, Work* work) {
  auto graph = state.graphs.graphs.find(params.graph);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  if (params.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    if (graph->child) return CUDA_ERROR_INVALID_VALUE;
  } else {
    if (has_memory(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
    graph = state.graphs.clone(*graph);
  }
  graph->child = true;
  *work = ChildCall{std::move(graph)};
  return CUDA_SUCCESS;
}

CUresult work_of(Driver& state, const CUDA_EVENT_RECORD_NODE_PARAMS& params, Work* work) {
  *work = RecordCall{params.event};
  return state.events.find(params.event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult work_of(Driver& state, const CUDA_EVENT_WAIT_NODE_PARAMS& params, Work* work) {
  *work = WaitCall{params.event};
  return state.events.find(params.event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult work_of(Driver&, const CUDA_HOST_NODE_PARAMS& params, Work* work) {
  if (params.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *work = HostCall{params.fn, params.userData};
  return CUDA_SUCCESS;
}

namespace {

template <class Params>
CUresult kernel_params(Driver& state, KernelCall& call, GraphNode& node, Params* out) {
  auto function = state.functions.find(call.function);
  if (out == nullptr || !function) return CUDA_ERROR_INVALID_VALUE;
  node.parameters.clear();
  for (const auto& parameter : info(*function->kernel).parameters) {
    node.parameters.push_back(call.values.data() + parameter.offset);
  }
  *out = {};
  out->func = call.function;
  out->gridDimX = call.grid.x;
  out->gridDimY = call.grid.y;
  out->gridDimZ = call.grid.z;
  out->blockDimX = call.block.x;
  out->blockDimY = call.block.y;
  out->blockDimZ = call.block.z;
  out->sharedMemBytes = static_cast<unsigned>(call.shared);
  out->kernelParams = node.parameters.empty() ? nullptr : node.parameters.data();
  return CUDA_SUCCESS;
}

template <class Params>
CUresult get_kernel_params(CUgraphNode handle, Params* out) {
  return with_node(handle, [&](Driver& state, const auto& node) {
    auto* call = std::get_if<KernelCall>(&node->work);
    if (call == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return kernel_params(state, *call, *node, out);
  });
}

// As the driver lists things: without a place to put them it tells how many there are; what a
// longer list has room for beyond them is null.
template <class Handle, class Fill>
CUresult list(size_t total, size_t* count, Handle* out, Fill&& fill) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr) {
    for (size_t i = 0; i < *count; ++i) fill(i, i < total);
    *count = std::min(*count, total);
  } else {
    *count = total;
  }
  return CUDA_SUCCESS;
}

CUresult list_nodes(const std::vector<std::shared_ptr<GraphNode>>& nodes, CUgraphNode* out,
                    size_t* count) {
  return list(nodes.size(), count, out,
              [&](size_t i, bool there) { out[i] = there ? nodes[i]->handle : nullptr; });
}

std::vector<std::shared_ptr<GraphNode>> dependents_of(const GraphNode& node) {
  std::vector<std::shared_ptr<GraphNode>> found;
  if (auto graph = node.graph.lock()) {
    for (const auto& other : graph->nodes) {
      if (std::any_of(other->after.begin(), other->after.end(),
                      [&](const auto& before) { return before.get() == &node; })) {
        found.push_back(other);
      }
    }
  }
  return found;
}

CUresult change_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count,
                      bool add) {
  return with_graph(handle, [&](Driver& state, const auto& graph) {
    if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    if (!add && has_memory(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < count; ++i) {
      auto before = state.graphs.nodes.find(from[i]);
      auto after = state.graphs.nodes.find(to[i]);
      if (!before || !after || before == after || before->graph.lock() != graph ||
          after->graph.lock() != graph) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      const auto found = std::find(after->after.begin(), after->after.end(), before);
      if ((found == after->after.end()) != add) return CUDA_ERROR_INVALID_VALUE;
      if (add) {
        after->after.push_back(before);
      } else {
        after->after.erase(found);
      }
    }
    return CUDA_SUCCESS;
  });
}

void clear_edges(CUgraphEdgeData* edges, const CUgraphNode* out, const size_t* count) {
  if (edges != nullptr && out != nullptr) std::fill_n(edges, *count, CUgraphEdgeData{});
}

}  // namespace
}  // namespace simcuda

using simcuda::add_node;
using simcuda::add_with_params;
using simcuda::Driver;
using simcuda::GraphNode;
using simcuda::set_params;
using simcuda::with_call;
using simcuda::with_graph;
using simcuda::with_graphs;
using simcuda::with_node;
using simcuda::Work;

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  return with_graphs([&](Driver& state) {
    if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *graph = state.graphs.create()->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  const CUresult result = with_graph(handle, [&](Driver& state, const auto& graph) {
    if (graph->child) return CUDA_ERROR_INVALID_VALUE;
    state.graphs.destroy(graph);
    return CUDA_SUCCESS;
  });
  simcuda::clean_up_graphs();
  return result;
}

CUresult cuGraphClone(CUgraph* clone, CUgraph original) {
  return with_graph(original, [&](Driver& state, const auto& graph) {
    if (clone == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (simcuda::has_memory(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
    *clone = state.graphs.clone(*graph)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original, CUgraph clone) {
  return with_graph(clone, [&](Driver&, const auto& graph) {
    if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (const auto& one : graph->nodes) {
      if (one->original != original) continue;
      *node = one->handle;
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  return with_node(handle, [&](Driver&, const auto& node) {
    if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *type = simcuda::type_of(node->work);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return with_graph(handle, [&](Driver&, const auto& graph) {
    return simcuda::list_nodes(graph->nodes, nodes, count);
  });
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return with_graph(handle, [&](Driver&, const auto& graph) {
    auto roots = graph->nodes;
    std::erase_if(roots, [](const auto& node) { return !node->after.empty(); });
    return simcuda::list_nodes(roots, nodes, count);
  });
}

CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return with_graph(handle, [&](Driver&, const auto& graph) {
    std::vector<std::pair<CUgraphNode, CUgraphNode>> edges;
    for (const auto& node : graph->nodes) {
      for (const auto& before : node->after) edges.emplace_back(before->handle, node->handle);
    }
    if ((from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    return simcuda::list(edges.size(), count, from, [&](size_t i, bool there) {
      from[i] = there ? edges[i].first : nullptr;
      to[i] = there ? edges[i].second : nullptr;
    });
  });
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* edges, size_t* count) {
  const CUresult result = cuGraphGetEdges(graph, from, to, count);
  if (result == CUDA_SUCCESS) simcuda::clear_edges(edges, from, count);
  return result;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* dependencies, size_t* count) {
  return with_node(handle, [&](Driver&, const auto& node) {
    return simcuda::list_nodes(node->after, dependencies, count);
  });
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* dependencies,
                                       CUgraphEdgeData* edges, size_t* count) {
  const CUresult result = cuGraphNodeGetDependencies(node, dependencies, count);
  if (result == CUDA_SUCCESS) simcuda::clear_edges(edges, dependencies, count);
  return result;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode* dependents, size_t* count) {
  return with_node(handle, [&](Driver&, const auto& node) {
    return simcuda::list_nodes(simcuda::dependents_of(*node), dependents, count);
  });
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* dependents,
                                         CUgraphEdgeData* edges, size_t* count) {
  const CUresult result = cuGraphNodeGetDependentNodes(node, dependents, count);
  if (result == CUDA_SUCCESS) simcuda::clear_edges(edges, dependents, count);
  return result;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  return simcuda::change_edges(graph, from, to, count, true);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edges, size_t count) {
  if (!simcuda::plain(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  return simcuda::change_edges(graph, from, to, count, true);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return simcuda::change_edges(graph, from, to, count, false);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData*, size_t count) {
  return simcuda::change_edges(graph, from, to, count, false);
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return with_node(handle, [&](Driver& state, const auto& node) {
    const auto graph = node->graph.lock();
    if (graph && simcuda::has_memory(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
    state.graphs.destroy_node(node);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return add_with_params(node, graph, dependencies, count, params);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return add_with_params(node, graph, dependencies, count, params);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return simcuda::get_kernel_params(node, params);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return simcuda::get_kernel_params(node, params);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return set_params(node, params);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return set_params(node, params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* copy, CUcontext) {
  return add_with_params(node, graph, dependencies, count, copy);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* copy) {
  return with_call<simcuda::CopyCall>(node, [&](auto& call, GraphNode&) {
    if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *copy = call.copy;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* copy) {
  return set_params(node, copy);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return add_with_params(node, graph, dependencies, count, params);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return with_call<simcuda::SetCall>(node, [&](auto& call, GraphNode&) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *params = call.set;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return set_params(node, params);
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  return add_with_params(node, graph, dependencies, count, params);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return with_call<simcuda::HostCall>(node, [&](auto& call, GraphNode&) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *params = {call.function, call.user};
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return set_params(node, params);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child) {
  return add_node(node, graph, dependencies, count, [&](Driver& state, Work* work) {
    if (child == graph) return CUDA_ERROR_INVALID_VALUE;
    return simcuda::work_of(
        state, CUDA_CHILD_GRAPH_NODE_PARAMS{child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE}, work);
  });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* child) {
  return with_call<simcuda::ChildCall>(node, [&](auto& call, GraphNode&) {
    if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *child = call.graph->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count) {
  return add_node(node, graph, dependencies, count, [](Driver&, Work*) { return CUDA_SUCCESS; });
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* dependencies, size_t count, CUevent event) {
  return add_node(node, graph, dependencies, count, [&](Driver& state, Work* work) {
    return simcuda::work_of(state, CUDA_EVENT_RECORD_NODE_PARAMS{event}, work);
  });
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return with_call<simcuda::RecordCall>(node, [&](auto& call, GraphNode&) {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *event = call.event;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return with_call<simcuda::RecordCall>(node, [&](auto& call, GraphNode&) {
    call.event = event;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, CUevent event) {
  return add_node(node, graph, dependencies, count, [&](Driver& state, Work* work) {
    return simcuda::work_of(state, CUDA_EVENT_WAIT_NODE_PARAMS{event}, work);
  });
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return with_call<simcuda::WaitCall>(node, [&](auto& call, GraphNode&) {
    if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *event = call.event;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return with_call<simcuda::WaitCall>(node, [&](auto& call, GraphNode&) {
    call.event = event;
    return CUDA_SUCCESS;
  });
}
