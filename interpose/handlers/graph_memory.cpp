// Nodes that allocate and free memory. While recording they are the driver's. In a replay, and in
// the run that goes on from it, those that were made before the cut are empty nodes
// (graph_memory_placeholders.h).

#include "interpose/handlers/graph_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/memory_calls.h"
#include "interpose/services/fatal.h"

namespace gpusnap::handle {

namespace {
CUdevice device_of(DeviceModel& model, CUcontext context) {
  CUdevice device = 0;
  const CurrentContext current(model.driver, context);
  (void)model.driver.cuCtxGetDevice(&device);
  return device;
}

// Any context on that device; null: there is none.
CUcontext context_on(DeviceModel& model, CUdevice device) {
  for (const KnownContext& known : model.contexts.by_number()) {
    if (device_of(model, known.handle) == device) return known.handle;
  }
  return nullptr;
}

// Two nodes of a graph may have the same address, one after the other.
void place_graph_memory(HookedCall& hooked, uint64_t address, uint64_t size, CUdevice device) {
  GraphMemoryPlaceholders& graph_memory_placeholders =
      hooked.model().graphs.graph_memory_placeholders();
  hooked.contexts().note_current();
  const CUcontext context = context_on(hooked.model(), device);
  if (context == nullptr) cannot_place(address, size, "no context is on its device");
  const CurrentContext current(hooked.driver(), context);
  const RelaxedCapture relaxed(hooked.driver());
  const Status status = hooked.model().placement.place(address, size);
  if (!status.ok()) cannot_place(address, size, status.message());
  graph_memory_placeholders.note_memory(address, {size, device});
}

// Puts an empty node where the recording had one that allocates or frees.
template <class Add>
CUresult stand_in(HookedCall& hooked, CUgraphNode* out, GraphMemoryPlaceholders::Node node,
                  uint64_t size, Add&& add) {
  if (hooked.driver().cuGraphAddEmptyNode == nullptr) {
    fatal(kExitImpossible, "this CUDA driver is too old for graphs with memory");
  }
  hooked.repeat(add);
  if (node.allocates) {
    place_graph_memory(hooked, node.address, size, node.params.poolProps.location.id);
    for (const CUmemAccessDesc& access : node.accesses) {
      if (access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
      hooked.model().placement.allow(access.location.id);
    }
  }
  hooked.model().graphs.graph_memory_placeholders().add(*out, std::move(node));
  return CUDA_SUCCESS;
}

GraphMemoryPlaceholders::Node alloc_node(CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  GraphMemoryPlaceholders::Node node;
  node.graph = graph;
  node.allocates = true;
  node.address = params.dptr;
  node.params = params;
  node.accesses.assign(params.accessDescs, params.accessDescs + params.accessDescCount);
  return node;
}

// `add`: an empty node instead.
template <class Real, class Add>
CUresult add_alloc(HookedCall& hooked, CUgraphNode* out, CUgraph graph,
                   CUDA_MEM_ALLOC_NODE_PARAMS* params, Real&& real, Add&& add) {
  hooked.key.add(params->bytesize);
  if (!hooked.replaying()) {
    const CUresult result = hooked.call_driver(real);
    if (result != CUDA_SUCCESS) {
      hooked.record(result);
      return result;
    }
    const uint64_t address = params->dptr;
    hooked.record_answer(result, &address, sizeof address);
    return result;
  }
  const CUresult recorded = hooked.match_next_entry();
  if (recorded != CUDA_SUCCESS) return recorded;
  uint64_t address = 0;
  hooked.take_answer(&address, sizeof address);
  params->dptr = address;
  return stand_in(hooked, out, alloc_node(graph, *params), params->bytesize, add);
}

template <class Real, class Add>
CUresult add_free(HookedCall& hooked, CUgraphNode* out, CUgraph graph, CUdeviceptr address,
                  Real&& real, Add&& add) {
  if (!hooked.replaying()) {
    // The driver has no such memory, if it was allocated before the cut.
    const bool ours = hooked.model().graphs.graph_memory_placeholders().has_memory(address);
    const CUresult result = hooked.call_driver([&] { return ours ? add() : real(); });
    hooked.record(result);
    if (result == CUDA_SUCCESS && ours) {
      GraphMemoryPlaceholders::Node node;
      node.graph = graph;
      node.address = address;
      hooked.model().graphs.graph_memory_placeholders().add(*out, std::move(node));
    }
    return result;
  }
  const CUresult recorded = hooked.match_next_entry();
  if (recorded != CUDA_SUCCESS) return recorded;
  GraphMemoryPlaceholders::Node node;
  node.graph = graph;
  node.address = address;
  return stand_in(hooked, out, std::move(node), 0, add);
}
}  // namespace

CUcontext context_of(DeviceModel& model, CUstream stream) {
  CUcontext context = model.contexts.current();
  const bool special =
      stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (!special && model.driver.cuStreamGetCtx != nullptr) {
    (void)model.driver.cuStreamGetCtx(stream, &context);
  }
  return context;
}

bool LaunchedMemory::is_there(uint64_t address) const {
  return step_.model().memory.at(address) != nullptr;
}

bool LaunchedMemory::is_refused() const {
  const GraphMemoryPlaceholders& graph_memory_placeholders =
      step_.model().graphs.graph_memory_placeholders();
  const bool taken = std::ranges::any_of(memory_.lasting, [&](const Graphs::Allocation& one) {
    return graph_memory_placeholders.has_memory(one.address) && !memory_.anew &&
           is_there(one.address);
  });
  return taken || std::ranges::any_of(memory_.freed, [&](uint64_t address) {
           return graph_memory_placeholders.has_memory(address) && !is_there(address);
         });
}

void LaunchedMemory::before_launch() {
  if (memory_.none()) return;
  WriteSet freed;
  for (uint64_t address : memory_.freed) freed.add_range_of(address);
  for (const Graphs::Allocation& one : memory_.lasting) {
    if (memory_.anew && is_there(one.address)) freed.add_range_of(one.address);
  }
  if (!freed.empty()) step_.before_free(freed);
  const auto context = reinterpret_cast<uint64_t>(context_of(step_.model(), stream_));
  for (const auto* list : {&memory_.lasting, &memory_.transient}) {
    for (const Graphs::Allocation& one : *list) {
      MemoryRange range;
      range.address = one.address;
      range.size = one.size;
      range.context = context;
      if (step_.model().memory.insert(std::move(range))) added_.push_back(one.address);
    }
  }
}

void LaunchedMemory::after_launch() {
  for (uint64_t address : added_) (void)erase_range(step_, address);
}

void LaunchedMemory::launched() {
  if (memory_.none()) return;
  for (uint64_t address : memory_.freed) (void)erase_range(step_, address);
  const CUcontext context = context_of(step_.model(), stream_);
  const CurrentContext current(step_.driver(), context);
  for (const Graphs::Allocation& one : memory_.lasting) {
    (void)erase_range(step_, one.address);  // by a launch that frees what the one before left
    if (!step_.replaying() && device_of(step_.model(), context) != one.device) {
      step_.refuse("memory of another device that a graph allocates");
    }
    insert_range(step_, one.address, one.size, MemoryKind::kDevice, true);
  }
}

void capture_stand_in(HookedCall& hooked, CUstream stream, GraphMemoryPlaceholders::Node node,
                      uint64_t size) {
  const Driver& driver = hooked.driver();
  if (driver.cuStreamGetCaptureInfo_v2 == nullptr ||
      driver.cuStreamUpdateCaptureDependencies == nullptr) {
    fatal(kExitImpossible, "this CUDA driver is too old for graphs with memory");
  }
  node.params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  node.params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE,
                                    device_of(hooked.model(), context_of(hooked.model(), stream))};
  node.params.bytesize = size;
  node.params.dptr = node.address;
  CUgraph graph = nullptr;
  CUgraphNode added = nullptr;
  (void)stand_in(hooked, &added, node, size, [&] {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    const CUgraphNode* dependencies = nullptr;
    size_t count = 0;
    CUresult result =
        driver.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &dependencies, &count);
    if (result == CUDA_SUCCESS) {
      result = driver.cuGraphAddEmptyNode(&added, graph, dependencies, count);
    }
    return result == CUDA_SUCCESS ? driver.cuStreamUpdateCaptureDependencies(
                                        stream, &added, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES)
                                  : result;
  });
  node.graph = graph;
  hooked.model().graphs.graph_memory_placeholders().add(added, std::move(node));
}

void drop_graph_memory(HookedCall& hooked) {
  GraphMemoryPlaceholders& graph_memory_placeholders =
      hooked.model().graphs.graph_memory_placeholders();
  std::vector<uint64_t> gone = graph_memory_placeholders.without_node();
  std::erase_if(gone, [&](uint64_t address) {
    return hooked.model().graphs.allocates(address) || hooked.model().memory.at(address) != nullptr;
  });
  // Nothing can be waited for while a stream is captured: then it goes another time.
  if (gone.empty() || hooked.model().contexts.is_capturing()) return;
  const Driver& driver = hooked.driver();
  for (const KnownContext& known : hooked.model().contexts.by_number()) {
    (void)hooked.unlocked([&] {
      const CurrentContext current(driver, known.handle);
      return driver.cuCtxSynchronize();
    });
  }
  for (uint64_t address : gone) {
    graph_memory_placeholders.forget_memory(address);
    end_placed(hooked, address);
  }
}

CUresult graph_add_memory(const Call<decltype(cuGraphAddMemAllocNode)>& call, CUgraphNode* node,
                          CUgraph graph, const CUgraphNode* dependencies, size_t count,
                          CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  if (node == nullptr || params == nullptr) {
    return call.real(node, graph, dependencies, count, params);
  }
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(node, graph, dependencies, count, params);
  return add_alloc(
      hooked, node, graph, params,
      [&] { return call.real(node, graph, dependencies, count, params); },
      [&] { return hooked.driver().cuGraphAddEmptyNode(node, graph, dependencies, count); });
}

CUresult graph_add_memory(const Call<decltype(cuGraphAddMemFreeNode)>& call, CUgraphNode* node,
                          CUgraph graph, const CUgraphNode* dependencies, size_t count,
                          CUdeviceptr address) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(node, graph, dependencies, count, address);
  return add_free(
      hooked, node, graph, address,
      [&] { return call.real(node, graph, dependencies, count, address); },
      [&] { return hooked.driver().cuGraphAddEmptyNode(node, graph, dependencies, count); });
}

namespace {
// Nodes of other kinds pass through, as they do by calls of their own.
template <class F, class... A>
CUresult add_any(const Call<F>& call, CUgraphNode* node, CUgraph graph,
                 const CUgraphNode* dependencies, size_t count, CUgraphNodeParams* params,
                 A... args) {
  const bool allocates = params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  const bool frees = params != nullptr && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  if (node == nullptr || (!allocates && !frees)) return call.real(args...);
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  auto real = [&] { return call.real(args...); };
  auto add = [&] { return hooked.driver().cuGraphAddEmptyNode(node, graph, dependencies, count); };
  return allocates ? add_alloc(hooked, node, graph, &params->alloc, real, add)
                   : add_free(hooked, node, graph, params->free.dptr, real, add);
}
}  // namespace

CUresult graph_add_node(const Call<decltype(cuGraphAddNode)>& call, CUgraphNode* node,
                        CUgraph graph, const CUgraphNode* dependencies, size_t count,
                        CUgraphNodeParams* params) {
  return add_any(call, node, graph, dependencies, count, params, node, graph, dependencies, count,
                 params);
}

CUresult graph_add_node(const Call<decltype(cuGraphAddNode_v2)>& call, CUgraphNode* node,
                        CUgraph graph, const CUgraphNode* dependencies,
                        const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params) {
  return add_any(call, node, graph, dependencies, count, params, node, graph, dependencies, edges,
                 count, params);
}

CUresult graph_describe(const Call<decltype(cuGraphNodeGetType)>& call, CUgraphNode node,
                        CUgraphNodeType* type) {
  const CUresult result = call.real(node, type);
  const GraphMemoryPlaceholders* graph_memory_placeholders =
      CallEnvironment::graph_memory_placeholders();
  GraphMemoryPlaceholders::Node found;
  if (result == CUDA_SUCCESS && graph_memory_placeholders != nullptr &&
      graph_memory_placeholders->find(node, &found)) {
    *type = found.allocates ? CU_GRAPH_NODE_TYPE_MEM_ALLOC : CU_GRAPH_NODE_TYPE_MEM_FREE;
  }
  return result;
}

CUresult graph_describe(const Call<decltype(cuGraphMemAllocNodeGetParams)>& call, CUgraphNode node,
                        CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  const GraphMemoryPlaceholders* graph_memory_placeholders =
      CallEnvironment::graph_memory_placeholders();
  GraphMemoryPlaceholders::Node found;
  if (params == nullptr || graph_memory_placeholders == nullptr ||
      !graph_memory_placeholders->find(node, &found) || !found.allocates) {
    return call.real(node, params);
  }
  *params = found.params;
  return CUDA_SUCCESS;
}

CUresult graph_describe(const Call<decltype(cuGraphMemFreeNodeGetParams)>& call, CUgraphNode node,
                        CUdeviceptr* address) {
  const GraphMemoryPlaceholders* graph_memory_placeholders =
      CallEnvironment::graph_memory_placeholders();
  GraphMemoryPlaceholders::Node found;
  if (address == nullptr || graph_memory_placeholders == nullptr ||
      !graph_memory_placeholders->find(node, &found) || found.allocates) {
    return call.real(node, address);
  }
  *address = found.address;
  return CUDA_SUCCESS;
}

namespace {
// Bytes of placeholders, which the driver does not count. It counts current and peak use apart.
uint64_t stand_in_bytes(DeviceModel& model, CUdevice device, bool used_now) {
  uint64_t bytes = 0;
  for (const auto& [address, memory] : model.graphs.graph_memory_placeholders().memory()) {
    const bool counts = !used_now || model.memory.at(address) != nullptr;
    if (counts && memory.device == device) bytes += memory.size;
  }
  return bytes;
}
}  // namespace

// How much there is depends on what else uses the device, and on where it is from.
CUresult graph_memory_get(const Call<decltype(cuDeviceGetGraphMemAttribute)>& call, CUdevice device,
                          CUgraphMem_attribute attribute, void* value) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(device, attribute, value);
  hooked.check(attribute);
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded == CUDA_SUCCESS) hooked.take_answer(value, sizeof(cuuint64_t));
    return recorded;
  }
  const CUresult result = hooked.call_driver([&] { return call.real(device, attribute, value); });
  if (result == CUDA_SUCCESS) {
    cuuint64_t bytes = 0;
    std::memcpy(&bytes, value, sizeof bytes);
    bytes +=
        stand_in_bytes(hooked.model(), device, attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
    std::memcpy(value, &bytes, sizeof bytes);
    hooked.record_answer(result, value, sizeof(cuuint64_t));
  } else {
    hooked.record(result);
  }
  return result;
}

}  // namespace gpusnap::handle
