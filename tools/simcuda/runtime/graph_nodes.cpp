// Nodes of graphs, and what else there is about graphs: the driver's own, with the runtime's
// parameters.
#include <algorithm>

#include "tools/simcuda/runtime/box.h"
#include "tools/simcuda/runtime/context.h"
#include "tools/simcuda/runtime/graph_params.h"
#include "tools/simcuda/runtime/registry.h"

using namespace simcuda::runtime;

namespace {

CUgraphEdgeData* edges_of(cudaGraphEdgeData* edges) {
  return reinterpret_cast<CUgraphEdgeData*>(edges);
}
const CUgraphEdgeData* edges_of(const cudaGraphEdgeData* edges) {
  return reinterpret_cast<const CUgraphEdgeData*>(edges);
}

CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(const cudaMemAllocNodeParams& params) {
  static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
  CUDA_MEM_ALLOC_NODE_PARAMS out{};
  out.poolProps.allocType = static_cast<CUmemAllocationType>(params.poolProps.allocType);
  out.poolProps.handleTypes = static_cast<CUmemAllocationHandleType>(params.poolProps.handleTypes);
  out.poolProps.location = {static_cast<CUmemLocationType>(params.poolProps.location.type),
                            params.poolProps.location.id};
  out.poolProps.maxSize = params.poolProps.maxSize;
  out.accessDescs = reinterpret_cast<const CUmemAccessDesc*>(params.accessDescs);
  out.accessDescCount = params.accessDescCount;
  out.bytesize = params.bytesize;
  return out;
}

template <class Call>
cudaError_t with_alloc(cudaMemAllocNodeParams* params, const Call& call) {
  if (params == nullptr) return cudaErrorInvalidValue;
  CUDA_MEM_ALLOC_NODE_PARAMS alloc = alloc_params(*params);
  const cudaError_t result = call(&alloc);
  if (result == cudaSuccess) params->dptr = reinterpret_cast<void*>(alloc.dptr);
  return result;
}

cudaError_t get_alloc(const Driver& driver, cudaGraphNode_t node, cudaMemAllocNodeParams* out) {
  CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
  if (out == nullptr) return cudaErrorInvalidValue;
  const cudaError_t result = driver.cuGraphMemAllocNodeGetParams(node, &alloc);
  if (result != cudaSuccess) return result;
  *out = {};
  out->poolProps.allocType = static_cast<cudaMemAllocationType>(alloc.poolProps.allocType);
  out->poolProps.location = {static_cast<cudaMemLocationType>(alloc.poolProps.location.type),
                             alloc.poolProps.location.id};
  out->accessDescs = reinterpret_cast<const cudaMemAccessDesc*>(alloc.accessDescs);
  out->accessDescCount = alloc.accessDescCount;
  out->bytesize = alloc.bytesize;
  out->dptr = reinterpret_cast<void*>(alloc.dptr);
  return cudaSuccess;
}

// call(const CUDA_MEMCPY3D*, CUcontext)
template <class Call>
cudaError_t with_box(const Driver& driver, const cudaMemcpy3DParms* params, const Call& call) {
  CUDA_MEMCPY3D box{};
  CUcontext context = nullptr;
  cudaError_t result = box_of(driver, params, &box);
  if (result == cudaSuccess) result = driver.cuCtxGetCurrent(&context);
  return result == cudaSuccess ? call(&box, context) : result;
}
template <class Call>
cudaError_t with_line(const Driver& driver, void* to, const void* from, size_t bytes,
                      const Call& call) {
  CUcontext context = nullptr;
  const CUDA_MEMCPY3D box = line_of(to, from, bytes);
  const cudaError_t current = driver.cuCtxGetCurrent(&context);
  return current == cudaSuccess ? call(&box, context) : current;
}

cudaError_t get_box(const Driver& driver, cudaGraphNode_t node, cudaMemcpy3DParms* out) {
  CUDA_MEMCPY3D box{};
  if (out == nullptr) return cudaErrorInvalidValue;
  const cudaError_t result = driver.cuGraphMemcpyNodeGetParams(node, &box);
  if (result != cudaSuccess) return result;
  *out = {};
  out->srcPos = {box.srcXInBytes, box.srcY, box.srcZ};
  out->dstPos = {box.dstXInBytes, box.dstY, box.dstZ};
  const bool from_host = box.srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_host = box.dstMemoryType == CU_MEMORYTYPE_HOST;
  out->srcPtr.ptr =
      from_host ? const_cast<void*>(box.srcHost) : reinterpret_cast<void*>(box.srcDevice);
  out->dstPtr.ptr = to_host ? box.dstHost : reinterpret_cast<void*>(box.dstDevice);
  out->srcPtr.pitch = box.srcPitch;
  out->dstPtr.pitch = box.dstPitch;
  out->srcPtr.ysize = box.srcHeight;
  out->dstPtr.ysize = box.dstHeight;
  out->extent = {box.WidthInBytes, box.Height, box.Depth};
  out->kind = cudaMemcpyDefault;
  // With an array the program counts in its elements.
  size_t source_element = 1;
  size_t destination_element = 1;
  if (box.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    out->srcPtr = {};
    out->srcArray = reinterpret_cast<cudaArray_t>(box.srcArray);
  }
  if (box.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    out->dstPtr = {};
    out->dstArray = reinterpret_cast<cudaArray_t>(box.dstArray);
  }
  cudaError_t status = element_bytes(driver, out->srcArray, &source_element);
  if (status == cudaSuccess) status = element_bytes(driver, out->dstArray, &destination_element);
  out->srcPos.x /= source_element;
  out->dstPos.x /= destination_element;
  out->extent.width /= std::max(source_element, destination_element);
  return status;
}

template <class Call>
cudaError_t with_set(const cudaMemsetParams* params, const Call& call) {
  if (params == nullptr) return cudaErrorInvalidValue;
  const CUDA_MEMSET_NODE_PARAMS set = memset_params(*params);
  return call(&set);
}

cudaError_t get_set(const Driver& driver, cudaGraphNode_t node, cudaMemsetParams* out) {
  CUDA_MEMSET_NODE_PARAMS set{};
  if (out == nullptr) return cudaErrorInvalidValue;
  const cudaError_t result = driver.cuGraphMemsetNodeGetParams(node, &set);
  if (result != cudaSuccess) return result;
  *out = {reinterpret_cast<void*>(set.dst),
          set.pitch,
          set.value,
          set.elementSize,
          set.width,
          set.height};
  return cudaSuccess;
}

template <class Call>
cudaError_t with_host(const cudaHostNodeParams* params, const Call& call) {
  if (params == nullptr) return cudaErrorInvalidValue;
  const CUDA_HOST_NODE_PARAMS host{params->fn, params->userData};
  return call(&host);
}

cudaError_t get_host(const Driver& driver, cudaGraphNode_t node, cudaHostNodeParams* out) {
  CUDA_HOST_NODE_PARAMS host{};
  if (out == nullptr) return cudaErrorInvalidValue;
  const cudaError_t result = driver.cuGraphHostNodeGetParams(node, &host);
  if (result == cudaSuccess) *out = {host.fn, host.userData};
  return result;
}

template <class Call>
cudaError_t with_kernel(const Driver& driver, const cudaKernelNodeParams* params,
                        const Call& call) {
  CUDA_KERNEL_NODE_PARAMS_v2 kernel;
  const cudaError_t result = kernel_params(driver, params, &kernel);
  return result == cudaSuccess ? call(&kernel) : result;
}

// The program gets the function by which it knows the kernel.
cudaError_t get_kernel(const Driver& driver, cudaGraphNode_t node, cudaKernelNodeParams* out) {
  CUDA_KERNEL_NODE_PARAMS_v2 kernel{};
  if (out == nullptr) return cudaErrorInvalidValue;
  const cudaError_t result = driver.cuGraphKernelNodeGetParams(node, &kernel);
  if (result != cudaSuccess) return result;
  const void* function = registry().function_of(driver, kernel.func);
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  *out = {};
  out->func = const_cast<void*>(function);
  out->gridDim = {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ};
  out->blockDim = {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ};
  out->sharedMemBytes = kernel.sharedMemBytes;
  out->kernelParams = kernel.kernelParams;
  return cudaSuccess;
}

cudaError_t get_type(const Driver& driver, cudaGraphNode_t node, cudaGraphNodeType* out) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  if (out == nullptr) return cudaErrorInvalidValue;
  const cudaError_t result = driver.cuGraphNodeGetType(node, &type);
  if (result == cudaSuccess) *out = static_cast<cudaGraphNodeType>(type);
  return result;
}

cudaError_t get_flags(const Driver& driver, cudaGraphExec_t exec, unsigned long long* out) {
  cuuint64_t flags = 0;
  if (out == nullptr) return cudaErrorInvalidValue;
  const cudaError_t result = driver.cuGraphExecGetFlags(exec, &flags);
  if (result == cudaSuccess) *out = flags;
  return result;
}

cudaError_t instantiate(const StreamCalls& streams, cudaGraphExec_t* exec, cudaGraph_t graph,
                        cudaGraphInstantiateParams* params) {
  if (params == nullptr) return cudaErrorInvalidValue;
  CUDA_GRAPH_INSTANTIATE_PARAMS asked{};
  asked.flags = params->flags;
  asked.hUploadStream = params->uploadStream;
  const cudaError_t result = streams.cuGraphInstantiateWithParams(exec, graph, &asked);
  params->errNode_out = asked.hErrNode_out;
  params->result_out = static_cast<cudaGraphInstantiateResult>(asked.result_out);
  return result;
}

template <class Call>
cudaError_t with_symbol(const Driver& driver, const void* symbol, size_t offset, size_t count,
                        const Call& call) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const cudaError_t status = registry().find_variable(driver, symbol, &address, &bytes);
  if (status != cudaSuccess) return status;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  return call(reinterpret_cast<void*>(address + offset));
}

// Copies back into `params` what the driver says of a node that it has made.
template <class Call>
cudaError_t with_node(const Driver& driver, cudaGraphNodeParams* params, const Call& call) {
  CUgraphNodeParams node{};
  if (params == nullptr) return cudaErrorInvalidValue;
  node.type = static_cast<CUgraphNodeType>(params->type);
  cudaError_t result = cudaSuccess;
  switch (node.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      result = kernel_params(driver, &params->kernel, &node.kernel);
      break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      result = box_of(driver, &params->memcpy.copyParams, &node.memcpy.copyParams);
      break;
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS set = memset_params(params->memset);
      node.memset = {set.dst,   set.pitch,  set.value, set.elementSize,
                     set.width, set.height, nullptr};
      break;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      node.host = {params->host.fn, params->host.userData};
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      node.graph = {params->graph.graph,
                    static_cast<CUgraphChildGraphNodeOwnership>(params->graph.ownership)};
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      node.eventRecord.event = params->eventRecord.event;
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      node.alloc = alloc_params(params->alloc);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      node.free.dptr = address_of(params->free.dptr);
      break;
    default:
      break;
  }
  if (result == cudaSuccess) result = call(&node);
  if (result != cudaSuccess) return result;
  if (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    params->alloc.dptr = reinterpret_cast<void*>(node.alloc.dptr);
  }
  if (node.type == CU_GRAPH_NODE_TYPE_GRAPH) params->graph.graph = node.graph.graph;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attr,
                                           void* value) {
  return with_context([&](const Driver& driver) {
    return driver.cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attr),
                                               value);
  });
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
  return with_context([&](const Driver& driver) { return driver.cuDeviceGraphMemTrim(device); });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attr,
                                           void* value) {
  return with_context([&](const Driver& driver) {
    return driver.cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attr),
                                               value);
  });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                       cudaGraph_t childGraph) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies, numDependencies,
                                           childGraph);
  });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
                                     size_t numDependencies) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphAddDependencies(graph, from, to, edges_of(edgeData), numDependencies);
  });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                        const cudaGraphNode_t* pDependencies,
                                        size_t numDependencies, cudaEvent_t event) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies, numDependencies,
                                            event);
  });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                      cudaEvent_t event) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies, numDependencies, event);
  });
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                     cudaMemAllocNodeParams* nodeParams) {
  return with_context([&](const Driver& driver) {
    return with_alloc(nodeParams, [&](CUDA_MEM_ALLOC_NODE_PARAMS* params) {
      return driver.cuGraphAddMemAllocNode(pGraphNode, graph, pDependencies, numDependencies,
                                           params);
    });
  });
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                    const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                    void* dptr) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphAddMemFreeNode(pGraphNode, graph, pDependencies, numDependencies,
                                        address_of(dptr));
  });
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaMemcpy3DParms* pCopyParams) {
  return with_context([&](const Driver& driver) {
    return with_box(driver, pCopyParams, [&](const CUDA_MEMCPY3D* box, CUcontext context) {
      return driver.cuGraphAddMemcpyNode(pGraphNode, graph, pDependencies, numDependencies, box,
                                         context);
    });
  });
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                             const cudaGraphNode_t* pDependencies,
                                             size_t numDependencies, void* dst, const void* symbol,
                                             size_t count, size_t offset, cudaMemcpyKind) {
  return with_context([&](const Driver& driver) {
    return with_symbol(driver, symbol, offset, count, [&](void* variable) {
      return with_line(driver, dst, variable, count,
                       [&](const CUDA_MEMCPY3D* box, CUcontext context) {
                         return driver.cuGraphAddMemcpyNode(pGraphNode, graph, pDependencies,
                                                            numDependencies, box, context);
                       });
    });
  });
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                           const cudaGraphNode_t* pDependencies,
                                           size_t numDependencies, const void* symbol,
                                           const void* src, size_t count, size_t offset,
                                           cudaMemcpyKind) {
  return with_context([&](const Driver& driver) {
    return with_symbol(driver, symbol, offset, count, [&](void* variable) {
      return with_line(driver, variable, src, count,
                       [&](const CUDA_MEMCPY3D* box, CUcontext context) {
                         return driver.cuGraphAddMemcpyNode(pGraphNode, graph, pDependencies,
                                                            numDependencies, box, context);
                       });
    });
  });
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                             const cudaGraphNode_t* pDependencies,
                             const cudaGraphEdgeData* dependencyData, size_t numDependencies,
                             cudaGraphNodeParams* nodeParams) {
  return with_context([&](const Driver& driver) {
    return with_node(driver, nodeParams, [&](CUgraphNodeParams* params) {
      return driver.cuGraphAddNode(pGraphNode, graph, pDependencies, edges_of(dependencyData),
                                   numDependencies, params);
    });
  });
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* pGraph) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphChildGraphNodeGetGraph(node, pGraph); });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphDebugDotPrint(graph, path, flags); });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return with_context([&](const Driver& driver) { return driver.cuGraphDestroyNode(node); });
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event_out) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphEventRecordNodeGetEvent(node, event_out); });
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphEventRecordNodeSetEvent(node, event); });
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event_out) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphEventWaitNodeGetEvent(node, event_out); });
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphEventWaitNodeSetEvent(node, event); });
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 cudaGraph_t childGraph) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph);
  });
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                 cudaEvent_t event) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event);
  });
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                               cudaEvent_t event) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event);
  });
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long* flags) {
  return with_context([&](const Driver& driver) { return get_flags(driver, graphExec, flags); });
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* pNodeParams) {
  return with_context([&](const Driver& driver) {
    return with_host(pNodeParams, [&](const CUDA_HOST_NODE_PARAMS* host) {
      return driver.cuGraphExecHostNodeSetParams(hGraphExec, node, host);
    });
  });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaMemcpy3DParms* pNodeParams) {
  return with_context([&](const Driver& driver) {
    return with_box(driver, pNodeParams, [&](const CUDA_MEMCPY3D* box, CUcontext context) {
      return driver.cuGraphExecMemcpyNodeSetParams(hGraphExec, node, box, context);
    });
  });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                               void* dst, const void* src, size_t count,
                                               cudaMemcpyKind) {
  return with_context([&](const Driver& driver) {
    return with_line(driver, dst, src, count, [&](const CUDA_MEMCPY3D* box, CUcontext context) {
      return driver.cuGraphExecMemcpyNodeSetParams(hGraphExec, node, box, context);
    });
  });
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec,
                                                       cudaGraphNode_t node, void* dst,
                                                       const void* symbol, size_t count,
                                                       size_t offset, cudaMemcpyKind) {
  return with_context([&](const Driver& driver) {
    return with_symbol(driver, symbol, offset, count, [&](void* variable) {
      return with_line(
          driver, dst, variable, count, [&](const CUDA_MEMCPY3D* box, CUcontext context) {
            return driver.cuGraphExecMemcpyNodeSetParams(hGraphExec, node, box, context);
          });
    });
  });
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec,
                                                     cudaGraphNode_t node, const void* symbol,
                                                     const void* src, size_t count, size_t offset,
                                                     cudaMemcpyKind) {
  return with_context([&](const Driver& driver) {
    return with_symbol(driver, symbol, offset, count, [&](void* variable) {
      return with_line(
          driver, variable, src, count, [&](const CUDA_MEMCPY3D* box, CUcontext context) {
            return driver.cuGraphExecMemcpyNodeSetParams(hGraphExec, node, box, context);
          });
    });
  });
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* nodeParams) {
  return with_context([&](const Driver& driver) {
    return with_node(driver, nodeParams, [&](CUgraphNodeParams* params) {
      return driver.cuGraphExecNodeSetParams(graphExec, node, params);
    });
  });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* edgeData, size_t* numEdges) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphGetEdges(graph, from, to, edges_of(edgeData), numEdges);
  });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* pRootNodes,
                                  size_t* pNumRootNodes) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes);
  });
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* pNodeParams) {
  return with_context([&](const Driver& driver) { return get_host(driver, node, pNodeParams); });
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                       const cudaHostNodeParams* pNodeParams) {
  return with_context([&](const Driver& driver) {
    return with_host(pNodeParams, [&](const CUDA_HOST_NODE_PARAMS* host) {
      return driver.cuGraphHostNodeSetParams(node, host);
    });
  });
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphKernelNodeCopyAttributes(hDst, hSrc); });
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
                                            cudaLaunchAttributeValue* value_out) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphKernelNodeGetAttribute(
        hNode, static_cast<CUlaunchAttributeID>(attr),
        reinterpret_cast<CUlaunchAttributeValue*>(value_out));
  });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* pNodeParams) {
  return with_context([&](const Driver& driver) { return get_kernel(driver, node, pNodeParams); });
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
                                            const cudaLaunchAttributeValue* value) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphKernelNodeSetAttribute(
        hNode, static_cast<CUlaunchAttributeID>(attr),
        reinterpret_cast<const CUlaunchAttributeValue*>(value));
  });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const cudaKernelNodeParams* pNodeParams) {
  return with_context([&](const Driver& driver) {
    return with_kernel(driver, pNodeParams, [&](const CUDA_KERNEL_NODE_PARAMS_v2* kernel) {
      return driver.cuGraphKernelNodeSetParams(node, kernel);
    });
  });
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                           cudaMemAllocNodeParams* params_out) {
  return with_context([&](const Driver& driver) { return get_alloc(driver, node, params_out); });
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* dptr_out) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(dptr_out));
  });
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* pNodeParams) {
  return with_context([&](const Driver& driver) { return get_box(driver, node, pNodeParams); });
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                         const cudaMemcpy3DParms* pNodeParams) {
  return with_context([&](const Driver& driver) {
    return with_box(driver, pNodeParams, [&](const CUDA_MEMCPY3D* box, CUcontext) {
      return driver.cuGraphMemcpyNodeSetParams(node, box);
    });
  });
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst, const void* src,
                                           size_t count, cudaMemcpyKind) {
  return with_context([&](const Driver& driver) {
    return with_line(driver, dst, src, count, [&](const CUDA_MEMCPY3D* box, CUcontext) {
      return driver.cuGraphMemcpyNodeSetParams(node, box);
    });
  });
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* dst,
                                                   const void* symbol, size_t count, size_t offset,
                                                   cudaMemcpyKind) {
  return with_context([&](const Driver& driver) {
    return with_symbol(driver, symbol, offset, count, [&](void* variable) {
      return with_line(driver, dst, variable, count, [&](const CUDA_MEMCPY3D* box, CUcontext) {
        return driver.cuGraphMemcpyNodeSetParams(node, box);
      });
    });
  });
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol,
                                                 const void* src, size_t count, size_t offset,
                                                 cudaMemcpyKind) {
  return with_context([&](const Driver& driver) {
    return with_symbol(driver, symbol, offset, count, [&](void* variable) {
      return with_line(driver, variable, src, count, [&](const CUDA_MEMCPY3D* box, CUcontext) {
        return driver.cuGraphMemcpyNodeSetParams(node, box);
      });
    });
  });
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* pNodeParams) {
  return with_context([&](const Driver& driver) { return get_set(driver, node, pNodeParams); });
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                         const cudaMemsetParams* pNodeParams) {
  return with_context([&](const Driver& driver) {
    return with_set(pNodeParams, [&](const CUDA_MEMSET_NODE_PARAMS* set) {
      return driver.cuGraphMemsetNodeSetParams(node, set);
    });
  });
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* pNode, cudaGraphNode_t originalNode,
                                     cudaGraph_t clonedGraph) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphNodeFindInClone(pNode, originalNode, clonedGraph);
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* pDependencies,
                                         cudaGraphEdgeData* edgeData, size_t* pNumDependencies) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphNodeGetDependencies(node, pDependencies, edges_of(edgeData),
                                             pNumDependencies);
  });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* pDependentNodes,
                                           cudaGraphEdgeData* edgeData,
                                           size_t* pNumDependentNodes) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphNodeGetDependentNodes(node, pDependentNodes, edges_of(edgeData),
                                               pNumDependentNodes);
  });
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int* isEnabled) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled);
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* pType) {
  return with_context([&](const Driver& driver) { return get_type(driver, node, pType); });
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int isEnabled) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled);
  });
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* nodeParams) {
  return with_context([&](const Driver& driver) {
    return with_node(driver, nodeParams, [&](CUgraphNodeParams* params) {
      return driver.cuGraphNodeSetParams(node, params);
    });
  });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphReleaseUserObject(graph, object, count); });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                        const cudaGraphNode_t* to,
                                        const cudaGraphEdgeData* edgeData, size_t numDependencies) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphRemoveDependencies(graph, from, to, edges_of(edgeData), numDependencies);
  });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count, unsigned int flags) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphRetainUserObject(graph, object, count, flags);
  });
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object_out, void* ptr, cudaHostFn_t destroy,
                                 unsigned int initialRefcount, unsigned int flags) {
  return with_context([&](const Driver& driver) {
    return driver.cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags);
  });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return with_context(
      [&](const Driver& driver) { return driver.cuUserObjectRelease(object, count); });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return with_context(
      [&](const Driver& driver) { return driver.cuUserObjectRetain(object, count); });
}

CUDART_BOTH_STREAMS(cudaGraphInstantiateWithParams, _ptsz,
                    (cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
                     cudaGraphInstantiateParams* instantiateParams),
                    instantiate(streams, pGraphExec, graph, instantiateParams))

CUDART_BOTH_STREAMS(cudaStreamBeginCaptureToGraph, _ptsz,
                    (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* dependencyData, size_t numDependencies,
                     cudaStreamCaptureMode mode),
                    streams.cuStreamBeginCaptureToGraph(stream, graph, dependencies,
                                                        edges_of(dependencyData), numDependencies,
                                                        static_cast<CUstreamCaptureMode>(mode)))

CUDART_BOTH_STREAMS(cudaStreamUpdateCaptureDependencies, _ptsz,
                    (cudaStream_t stream, cudaGraphNode_t* dependencies,
                     const cudaGraphEdgeData* dependencyData, size_t numDependencies,
                     unsigned int flags),
                    streams.cuStreamUpdateCaptureDependencies(stream, dependencies,
                                                              edges_of(dependencyData),
                                                              numDependencies, flags))
