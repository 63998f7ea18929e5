// How calls about graphs begin.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/node_work.h"

namespace simcuda {

// body(Driver&) with the lock of all graphs.
template <class Body>
CUresult with_graphs(Body&& body) {
  return in_driver([&](Driver& state) {
    auto hold = state.graphs.hold();
    return static_cast<CUresult>(body(state));
  });
}

template <class Body>
CUresult with_graph(CUgraph handle, Body&& body) {
  return with_graphs([&](Driver& state) {
    auto graph = state.graphs.graphs.find(handle);
    return graph ? static_cast<CUresult>(body(state, graph)) : CUDA_ERROR_INVALID_VALUE;
  });
}

template <class Body>
CUresult with_node(CUgraphNode handle, Body&& body) {
  return with_graphs([&](Driver& state) {
    auto node = state.graphs.nodes.find(handle);
    return node ? static_cast<CUresult>(body(state, node)) : CUDA_ERROR_INVALID_VALUE;
  });
}

// make(Driver&, Work*) says what the node does.
template <class Make>
CUresult add_node(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count,
                  Make&& make) {
  return with_graph(handle, [&](Driver& state, const auto& graph) {
    if (out == nullptr || (count != 0 && dependencies == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    std::vector<std::shared_ptr<GraphNode>> after;
    for (size_t i = 0; i < count; ++i) after.push_back(state.graphs.nodes.find(dependencies[i]));
    Work work;
    CUresult result = make(state, &work);
    if (result != CUDA_SUCCESS) return result;
    auto node = state.graphs.add(graph, std::move(after), std::move(work));
    if (!node) return CUDA_ERROR_INVALID_VALUE;
    *out = node->handle;
    return CUDA_SUCCESS;
  });
}

template <class Params>
CUresult add_with_params(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                         size_t count, const Params* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_node(out, graph, dependencies, count,
                  [&](Driver& state, Work* work) { return work_of(state, *params, work); });
}

template <class Params>
CUresult set_params(CUgraphNode handle, const Params* params) {
  return with_node(handle, [&](Driver& state, const auto& node) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    CUresult result = work_of(state, *params, &work);
    if (result != CUDA_SUCCESS) return result;
    if (work.index() != node->work.index()) return CUDA_ERROR_INVALID_VALUE;
    node->work = std::move(work);
    return CUDA_SUCCESS;
  });
}

// body(Call&, GraphNode&) for a node that does a Call.
template <class Call, class Body>
CUresult with_call(CUgraphNode handle, Body&& body) {
  return with_node(handle, [&](Driver&, const auto& node) {
    auto* call = std::get_if<Call>(&node->work);
    return call == nullptr ? CUDA_ERROR_INVALID_VALUE : static_cast<CUresult>(body(*call, *node));
  });
}

// Edges with data of their own are for what kernels signal in the middle, which there is not.
inline bool plain(const CUgraphEdgeData* edges, size_t count) {
  for (size_t i = 0; edges != nullptr && i < count; ++i) {
    if (edges[i].from_port != 0 || edges[i].to_port != 0 || edges[i].type != 0) return false;
  }
  return true;
}

}  // namespace simcuda
