// Memory of graphs: the nodes that allocate and free it, and what devices keep for it.

#include <cstring>
#include <optional>
#include <utility>

#include "tools/simcuda/driver/backing.h"
#include "tools/simcuda/driver/graph_calls.h"

namespace simcuda {

CUresult alloc_work(Driver& state, CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS* params, Work* work) {
  const CUmemPoolProps& pool = params->poolProps;
  if (pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE || !state.is_device(pool.location.id) ||
      (params->accessDescCount != 0 && params->accessDescs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < params->accessDescCount; ++i) {
    const CUmemLocation& location = params->accessDescs[i].location;
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || !state.is_device(location.id)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (state.faults.strike(FaultPoint::kAllocation)) return CUDA_ERROR_OUT_OF_MEMORY;
  AllocCall call;
  CUresult result = state.graph_memory.create(*params, graph, &call.block);
  if (result != CUDA_SUCCESS) return result;
  params->dptr = call.block->address;
  *work = std::move(call);
  return CUDA_SUCCESS;
}

// Once in a graph; and in the graph that allocates it, or in others.
CUresult free_work(Driver& state, CUgraph graph, CUdeviceptr address, Work* work) {
  auto block = state.graph_memory.find(address);
  if (!block || block->freed_in.contains(graph)) return CUDA_ERROR_INVALID_VALUE;
  const bool own = graph == block->owner;
  if (own ? !block->freed_in.empty() : block->freed_in.contains(block->owner)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  block->freed_in.insert(graph);
  *work = FreeCall{std::move(block)};
  return CUDA_SUCCESS;
}

std::optional<CUresult> free_graph_memory(Driver& state, CUdeviceptr address,
                                          const Stream* stream) {
  auto hold = state.graphs.hold();
  const auto block = state.graph_memory.find(address);
  if (!block) return std::nullopt;
  if (!block->live || block->freed_in.contains(block->owner)) return CUDA_ERROR_INVALID_VALUE;
  state.graph_memory.free(*block);
  ++state.stats.frees;
  if (stream != nullptr) {
    stream->context->submit(*stream, [block] { fill_with_junk(block->host, block->size, 1); });
  }
  return CUDA_SUCCESS;
}

void clean_up_graphs() {
  Driver* state = driver();
  if (state == nullptr) return;
  std::vector<std::shared_ptr<UserObject>> unreferenced;
  {
    auto hold = state->graphs.hold();
    state->drop_unused_graph_memory();
    unreferenced = state->graphs.take_unreferenced();
  }
  for (const auto& object : unreferenced) {
    state->user_objects.remove(object->handle);
    run_host_function(*state, object->destroy, object->user);
  }
}

namespace {

// body(Driver&) with the lock of all graphs, for a device that exists.
template <class Body>
CUresult on_device(CUdevice device, Body&& body) {
  return with_graphs([&](Driver& state) {
    if (!state.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    return static_cast<CUresult>(body(state));
  });
}

}  // namespace
}  // namespace simcuda

using simcuda::Driver;
using simcuda::GraphNode;
using simcuda::on_device;
using simcuda::with_call;
using simcuda::Work;

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return simcuda::add_node(node, graph, dependencies, count, [&](Driver& state, Work* work) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return simcuda::alloc_work(state, graph, params, work);
  });
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return with_call<simcuda::AllocCall>(node, [&](auto& call, GraphNode&) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const simcuda::GraphBlock& block = *call.block;
    *params = {block.properties, block.accesses.empty() ? nullptr : block.accesses.data(),
               block.accesses.size(), block.size, block.address};
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               size_t count, CUdeviceptr address) {
  return simcuda::add_node(node, graph, dependencies, count, [&](Driver& state, Work* work) {
    return simcuda::free_work(state, graph, address, work);
  });
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  return with_call<simcuda::FreeCall>(node, [&](auto& call, GraphNode&) {
    if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *address = call.block->address;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return on_device(device, [&](Driver& state) {
    state.drop_unused_graph_memory();
    state.graph_memory.trim(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void* value) {
  return on_device(device, [&](Driver& state) {
    if (value == nullptr || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const cuuint64_t count = state.graph_memory.count(device, attribute);
    std::memcpy(value, &count, sizeof count);
    return CUDA_SUCCESS;
  });
}

// The marks can only be set back.
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                      void* value) {
  return on_device(device, [&](Driver& state) {
    cuuint64_t count = 1;
    if (value != nullptr) std::memcpy(&count, value, sizeof count);
    if (count != 0 || (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
                       attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    state.graph_memory.reset_high(device, attribute);
    return CUDA_SUCCESS;
  });
}
