// Nodes of any kind, by one call; attributes of kernels; what a graph looks like.

#include <cstdio>
#include <memory>
#include <utility>

#include "tools/simcuda/driver/graph_calls.h"

namespace simcuda {

CUresult work_of(Driver& state, const CUgraphNodeParams& params, Work* work) {
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return work_of(state, params.kernel, work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params.memcpy.flags != 0) return CUDA_ERROR_INVALID_VALUE;
      return work_of(state, params.memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS_v2& set = params.memset;
      return work_of(state,
                     CUDA_MEMSET_NODE_PARAMS{set.dst, set.pitch, set.value, set.elementSize,
                                             set.width, set.height},
                     work);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return work_of(state, params.host, work);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return work_of(state, params.graph, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return work_of(state, params.eventRecord, work);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return work_of(state, params.eventWait, work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& words = params.memOp;
      return work_of(
          state,
          CUDA_BATCH_MEM_OP_NODE_PARAMS_v1{words.ctx, words.count, words.paramArray, words.flags},
          work);
    }
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CUDA_ERROR_NOT_SUPPORTED;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      break;  // not without a graph
  }
  return CUDA_ERROR_INVALID_VALUE;
}

namespace {

CUresult add_any(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                 CUgraphNodeParams* params) {
  return add_node(node, graph, dependencies, count, [&](Driver& state, Work* work) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      return alloc_work(state, graph, &params->alloc, work);
    }
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      return free_work(state, graph, params->free.dptr, work);
    }
    CUresult result = work_of(state, *params, work);
    if (const auto* child = std::get_if<ChildCall>(work))
      params->graph.graph = child->graph->handle;
    return result;
  });
}

// Attributes that change what a kernel does are those that a launch refuses, too.
bool supported(CUkernelNodeAttrID attribute, const CUkernelNodeAttrValue& value) {
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      return value.cooperative == 0;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      return value.clusterDim.x <= 1 && value.clusterDim.y <= 1 && value.clusterDim.z <= 1;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      return false;
    default:
      return true;
  }
}

const char* name_of(const Work& work) {
  constexpr const char* kNames[] = {"empty",      "kernel", "copy",  "set",  "host", "event record",
                                    "event wait", "graph",  "alloc", "free", "words"};
  return kNames[work.index()];
}

// As graphviz reads it; graphs within graphs are clusters.
void print(std::FILE* file, const Graph& graph) {
  std::fprintf(file, "subgraph cluster_%p {\n", static_cast<void*>(graph.handle));
  for (const auto& node : graph.nodes) {
    std::fprintf(file, "\"%p\" [label=\"%s\"];\n", static_cast<void*>(node->handle),
                 name_of(node->work));
    for (const auto& before : node->after) {
      std::fprintf(file, "\"%p\" -> \"%p\";\n", static_cast<void*>(before->handle),
                   static_cast<void*>(node->handle));
    }
    if (const auto* child = std::get_if<ChildCall>(&node->work)) print(file, *child->graph);
  }
  std::fprintf(file, "}\n");
}

}  // namespace
}  // namespace simcuda

using simcuda::Driver;
using simcuda::GraphNode;
using simcuda::KernelCall;
using simcuda::with_call;
using simcuda::with_graph;
using simcuda::WordsCall;

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                        size_t count, CUgraphNodeParams* params) {
  return simcuda::add_any(node, graph, dependencies, count, params);
}

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params) {
  if (!simcuda::plain(edges, count)) return CUDA_ERROR_NOT_SUPPORTED;
  return simcuda::add_any(node, graph, dependencies, count, params);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  if (params != nullptr && params->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return CUDA_ERROR_NOT_SUPPORTED;
  return simcuda::set_params(node, params);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* params) {
  return simcuda::add_with_params(node, graph, dependencies, count, params);
}

// The operations told are the node's own, until it is changed.
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node,
                                        CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* params) {
  return with_call<WordsCall>(node, [&](WordsCall& words, GraphNode&) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *params = {words.context, static_cast<unsigned>(words.operations.size()),
               words.operations.data(), 0};
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* params) {
  return simcuda::set_params(node, params);
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue* value) {
  return with_call<KernelCall>(node, [&](auto&, GraphNode& kernel) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!simcuda::supported(attribute, *value)) return CUDA_ERROR_NOT_SUPPORTED;
    kernel.attributes[attribute] = *value;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       CUkernelNodeAttrValue* value) {
  return with_call<KernelCall>(node, [&](auto&, GraphNode& kernel) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto found = kernel.attributes.find(attribute);
    *value = found == kernel.attributes.end() ? CUkernelNodeAttrValue{} : found->second;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return simcuda::with_node(to, [&](Driver& state, const auto& target) {
    const auto source = state.graphs.nodes.find(from);
    if (!source || !std::holds_alternative<KernelCall>(source->work) ||
        !std::holds_alternative<KernelCall>(target->work)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    target->attributes = source->attributes;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned) {
  return with_graph(handle, [&](Driver&, const auto& graph) {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
        std::fopen(path, "w"), [](std::FILE* one) { return std::fclose(one); });
    if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
    std::fprintf(file.get(), "digraph {\n");
    simcuda::print(file.get(), *graph);
    std::fprintf(file.get(), "}\n");
    return std::ferror(file.get()) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
  });
}
