// Captures, graphs, and pools of memory: the driver's own, with the runtime's parameters.
#include "tools/simcuda/runtime/context.h"
#include "tools/simcuda/runtime/graph_params.h"
#include "tools/simcuda/runtime/registry.h"

using namespace simcuda::runtime;

namespace {

cudaError_t instantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphInstantiateWithFlags(exec, graph, flags); });
}

cudaError_t update(const Driver& driver, cudaGraphExec_t exec, cudaGraph_t graph,
                   cudaGraphExecUpdateResultInfo* info) {
  if (info == nullptr) return cudaErrorInvalidValue;
  CUgraphExecUpdateResultInfo found{};
  const cudaError_t result = driver.cuGraphExecUpdate(exec, graph, &found);
  info->result = static_cast<cudaGraphExecUpdateResult>(found.result);
  info->errorNode = found.errorNode;
  info->errorFromNode = found.errorFromNode;
  return result;
}

cudaError_t add_copy(const Driver& driver, cudaGraphNode_t* node, cudaGraph_t graph,
                     const cudaGraphNode_t* dependencies, size_t count, void* to, const void* from,
                     size_t bytes) {
  CUcontext context = nullptr;
  const CUDA_MEMCPY3D copy = line_of(to, from, bytes);
  const cudaError_t current = driver.cuCtxGetCurrent(&context);
  return current == cudaSuccess
             ? driver.cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, context)
             : current;
}

cudaError_t take_from_pool(const StreamCalls& streams, void** pointer, size_t size,
                           cudaMemPool_t pool, cudaStream_t stream) {
  CUdeviceptr address = 0;
  if (pointer == nullptr) return cudaErrorInvalidValue;
  const cudaError_t result = streams.cuMemAllocFromPoolAsync(&address, size, pool, stream);
  if (result == cudaSuccess) *pointer = reinterpret_cast<void*>(address);
  return result;
}

cudaError_t create_pool(const Driver& driver, cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  if (props == nullptr) return cudaErrorInvalidValue;
  CUmemPoolProps properties{};
  properties.allocType = static_cast<CUmemAllocationType>(props->allocType);
  properties.handleTypes = static_cast<CUmemAllocationHandleType>(props->handleTypes);
  properties.location = {static_cast<CUmemLocationType>(props->location.type), props->location.id};
  properties.maxSize = props->maxSize;
  return driver.cuMemPoolCreate(pool, &properties);
}

}  // namespace

CUDART_BOTH_STREAMS(cudaStreamBeginCapture, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureMode mode),
                    streams.cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)))

CUDART_BOTH_STREAMS(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* pGraph),
                    streams.cuStreamEndCapture(stream, pGraph))

cudaError_t cudaGraphCreate(cudaGraph_t* pGraph, unsigned int flags) {
  return with_context([&](const Driver& driver) { return driver.cuGraphCreate(pGraph, flags); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with_context([&](const Driver& driver) { return driver.cuGraphDestroy(graph); });
}

cudaError_t cudaGraphClone(cudaGraph_t* pGraphClone, cudaGraph_t originalGraph) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphClone(pGraphClone, originalGraph); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes) {
  return with_context(
      [&](const Driver& driver) { return driver.cuGraphGetNodes(graph, nodes, numNodes); });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                  const cudaGraphNode_t* dependencies, size_t count) {
  return with_context([&](const Driver& driver) {
    return driver.cuGraphAddEmptyNode(node, graph, dependencies, count);
  });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, size_t count,
                                   const cudaKernelNodeParams* params) {
  return with_context([&](const Driver& driver) {
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    const cudaError_t result = kernel_params(driver, params, &kernel);
    return result == cudaSuccess
               ? driver.cuGraphAddKernelNode(node, graph, dependencies, count, &kernel)
               : result;
  });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, size_t count,
                                   const cudaMemsetParams* params) {
  return with_context([&](const Driver& driver) {
    CUcontext context = nullptr;
    if (params == nullptr) return cudaErrorInvalidValue;
    const CUDA_MEMSET_NODE_PARAMS set = memset_params(*params);
    const cudaError_t current = driver.cuCtxGetCurrent(&context);
    return current == cudaSuccess
               ? driver.cuGraphAddMemsetNode(node, graph, dependencies, count, &set, context)
               : current;
  });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                 const cudaGraphNode_t* dependencies, size_t count,
                                 const cudaHostNodeParams* params) {
  return with_context([&](const Driver& driver) {
    if (params == nullptr) return cudaErrorInvalidValue;
    const CUDA_HOST_NODE_PARAMS call{params->fn, params->userData};
    return driver.cuGraphAddHostNode(node, graph, dependencies, count, &call);
  });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t* dependencies, size_t count, void* dst,
                                     const void* src, size_t bytes, cudaMemcpyKind) {
  return with_context([&](const Driver& driver) {
    return add_copy(driver, node, graph, dependencies, count, dst, src, bytes);
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return instantiate(exec, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return instantiate(exec, graph, flags);
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  return with_context([&](const Driver& driver) {
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    const cudaError_t result = kernel_params(driver, params, &kernel);
    return result == cudaSuccess ? driver.cuGraphExecKernelNodeSetParams(exec, node, &kernel)
                                 : result;
  });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaMemsetParams* params) {
  return with_context([&](const Driver& driver) {
    CUcontext context = nullptr;
    if (params == nullptr) return cudaErrorInvalidValue;
    const CUDA_MEMSET_NODE_PARAMS set = memset_params(*params);
    const cudaError_t current = driver.cuCtxGetCurrent(&context);
    return current == cudaSuccess ? driver.cuGraphExecMemsetNodeSetParams(exec, node, &set, context)
                                  : current;
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  return with_context([&](const Driver& driver) { return update(driver, exec, graph, info); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return with_context([&](const Driver& driver) { return driver.cuGraphExecDestroy(exec); });
}

CUDART_BOTH_STREAMS(cudaGraphUpload, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
                    streams.cuGraphUpload(graphExec, stream))

CUDART_BOTH_STREAMS(cudaGraphLaunch, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
                    streams.cuGraphLaunch(graphExec, stream))

CUDART_BOTH_STREAMS(cudaMallocFromPoolAsync, _ptsz,
                    (void** ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
                    take_from_pool(streams, ptr, size, memPool, stream))

cudaError_t cudaMemPoolCreate(cudaMemPool_t* memPool, const cudaMemPoolProps* poolProps) {
  return with_context(
      [&](const Driver& driver) { return create_pool(driver, memPool, poolProps); });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool) {
  return with_context([&](const Driver& driver) { return driver.cuMemPoolDestroy(memPool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep) {
  return with_context(
      [&](const Driver& driver) { return driver.cuMemPoolTrimTo(memPool, minBytesToKeep); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return with_context([&](const Driver& driver) {
    return driver.cuMemPoolSetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value);
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return with_context([&](const Driver& driver) {
    return driver.cuMemPoolGetAttribute(memPool, static_cast<CUmemPool_attribute>(attr), value);
  });
}

// The descriptions of both APIs lie in memory alike.
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const cudaMemAccessDesc* descList,
                                 size_t count) {
  return with_context([&](const Driver& driver) {
    return driver.cuMemPoolSetAccess(memPool, reinterpret_cast<const CUmemAccessDesc*>(descList),
                                     count);
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t memPool,
                                 cudaMemLocation* location) {
  return with_context([&](const Driver& driver) {
    if (flags == nullptr || location == nullptr) return cudaErrorInvalidValue;
    CUmemLocation place{static_cast<CUmemLocationType>(location->type), location->id};
    CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const cudaError_t status = driver.cuMemPoolGetAccess(&access, memPool, &place);
    if (status == cudaSuccess) *flags = static_cast<cudaMemAccessFlags>(access);
    return status;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* memPool, int device) {
  return with_context(
      [&](const Driver& driver) { return driver.cuDeviceGetDefaultMemPool(memPool, device); });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* memPool, int device) {
  return with_context(
      [&](const Driver& driver) { return driver.cuDeviceGetMemPool(memPool, device); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
  return with_context(
      [&](const Driver& driver) { return driver.cuDeviceSetMemPool(device, memPool); });
}
