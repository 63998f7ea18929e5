#include "interpose/model/graphs.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace gpusnap {

namespace {
const char* unfollowed_name(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_HOST:
      return "a graph with a host function that cannot be replaced by ours";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "a graph that uses external semaphores";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "a graph with conditions";
    default:
      return "a graph with a node of a kind that this version does not know";
  }
}
constexpr const char* kUnreadable = "a graph that the driver does not describe";
constexpr const char* kMixedUp =
    "a graph that is changed as a whole and then node by node, and reaches memory or functions of "
    "the "
    "host";

// Where a copy leads, as the driver has it.
struct Target {
  uint64_t address, pitch, slice;
};
Target target_of(const CUDA_MEMCPY3D& copy) {
  const uint64_t base = copy.dstMemoryType == CU_MEMORYTYPE_HOST
                            ? reinterpret_cast<uint64_t>(copy.dstHost)
                            : copy.dstDevice;
  const uint64_t pitch = copy.dstPitch != 0 ? copy.dstPitch : copy.WidthInBytes;
  const uint64_t slice = pitch * (copy.dstHeight != 0 ? copy.dstHeight : copy.Height);
  return {base + copy.dstZ * slice + copy.dstY * pitch + copy.dstXInBytes, pitch, slice};
}

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}
}  // namespace

void Graphs::take(const WriteSet& set, Node& node) {
  if (!set.said() || set.everything()) node.everything = true;
  node.writes.insert(node.writes.end(), set.begin(), set.end());
}

void Graphs::fold(std::vector<Node> nodes, Node& into) {
  for (Node& node : nodes) {
    into.kernels += node.kernels;
    into.everything = into.everything || node.everything;
    append(into.calls, node.calls);
    append(into.writes, node.writes);
    append(into.events, node.events);
    append(into.copies, node.copies);
    append(into.callbacks, node.callbacks);
    append(into.allocated, node.allocated);
    append(into.freed, node.freed);
  }
}

void Graphs::read_kernel(const CUDA_KERNEL_NODE_PARAMS_v1& params, Node& node) const {
  node.kernels = 1;
  modules_.met_function(params.func);
  const KernelWrites* kernel = modules_.kernels().find(params.func);
  if (kernel == nullptr || !kernel->layout_known ||
      (params.kernelParams == nullptr && !kernel->parameters.empty())) {
    node.everything = true;
    return;
  }
  KernelCall call;
  call.function = params.func;
  size_t bytes = 0;
  for (const KernelWrites::Parameter& parameter : kernel->parameters) bytes += parameter.size;
  call.values.resize(bytes);
  std::byte* place = call.values.data();
  for (size_t i = 0; i < kernel->parameters.size(); ++i) {
    std::memcpy(place, params.kernelParams[i], kernel->parameters[i].size);
    call.params.push_back(place);
    place += kernel->parameters[i].size;
  }
  node.calls.push_back(std::move(call));
}

void Graphs::read_memset(const CUDA_MEMSET_NODE_PARAMS& params, Node& node) {
  WriteSet set;
  const uint64_t width = params.width * params.elementSize;
  set.add_box(params.dst, width, params.height, params.height > 1 ? params.pitch : width, 1, 0);
  take(set, node);
}

std::string Graphs::read_copy(const CUDA_MEMCPY3D& copy, Node& node) {
  // The content of an array is looked at in each cut.
  if (copy.dstMemoryType != CU_MEMORYTYPE_ARRAY) node.copies.push_back(copy);
  return {};
}

// Memory that the host sees and the map holds is compared with its mirror when the program
// synchronises; any other memory of the program has none.
bool Graphs::is_pageable(CUmemorytype type, uint64_t to) const {
  if (type == CU_MEMORYTYPE_DEVICE || memory_.find(to) != nullptr) return false;
  if (type == CU_MEMORYTYPE_HOST) return true;
  unsigned where = 0;
  return driver_.cuPointerGetAttribute == nullptr ||
         driver_.cuPointerGetAttribute(&where, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, to) !=
             CUDA_SUCCESS ||
         where != CU_MEMORYTYPE_DEVICE;
}

bool Graphs::is_seen_by_host(uint64_t address) const {
  const MemoryRange* range = memory_.find(address);
  return range != nullptr ? !is_on_device(range->kind)
                          : is_pageable(CU_MEMORYTYPE_UNIFIED, address);
}

// A word that the host sees it may take for a signal, without any call that could be found in the
// journal.
std::string Graphs::read_words(std::span<const CUstreamBatchMemOpParams> operations,
                               Node& node) const {
  for (const CUstreamBatchMemOpParams& one : operations) {
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        node.waits = true;
        continue;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      case CU_STREAM_MEM_OP_BARRIER:
        continue;
      default:
        node.everything = true;
        return "a graph with an operation on memory of a kind that is not known";
    }
    const bool wide = one.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    const CUdeviceptr address = one.writeValue.address;
    node.writes.push_back({address, wide ? sizeof(cuuint64_t) : sizeof(cuuint32_t)});
    if (is_seen_by_host(address)) return "a graph that writes values to memory that the host sees";
  }
  return {};
}

std::string Graphs::read_memory(CUgraphNode handle, bool allocates, Node& node) const {
  GraphMemoryPlaceholders::Node stand_in;
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  CUdeviceptr address = 0;
  if (graph_memory_placeholders_.find(handle, &stand_in)) {
    params = stand_in.params;
    address = stand_in.address;
  } else if (allocates) {
    if (driver_.cuGraphMemAllocNodeGetParams == nullptr ||
        driver_.cuGraphMemAllocNodeGetParams(handle, &params) != CUDA_SUCCESS) {
      return kUnreadable;
    }
    address = params.dptr;
  } else if (driver_.cuGraphMemFreeNodeGetParams == nullptr ||
             driver_.cuGraphMemFreeNodeGetParams(handle, &address) != CUDA_SUCCESS) {
    return kUnreadable;
  }
  if (allocates) {
    node.allocated.push_back({address, params.bytesize, params.poolProps.location.id});
  } else {
    node.freed.push_back(address);
  }
  return {};
}

std::string Graphs::read_node(CUgraphNode handle, const Hosts& hosts, Node& node) const {
  node.handle = handle;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  GraphMemoryPlaceholders::Node stand_in;
  if (graph_memory_placeholders_.find(handle, &stand_in))
    return read_memory(handle, stand_in.allocates, node);
  if (driver_.cuGraphNodeGetType(handle, &type) != CUDA_SUCCESS) return kUnreadable;
  switch (type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return read_memory(handle, type == CU_GRAPH_NODE_TYPE_MEM_ALLOC, node);
    case CU_GRAPH_NODE_TYPE_HOST: {
      const auto found = std::ranges::find(hosts, handle, &HostNodes::Node::handle);
      if (found == hosts.end()) return unfollowed_name(type);
      node.callbacks.push_back(found->callback.get());
      return {};
    }
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return {};
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS_v1 params{};
      if (driver_.cuGraphKernelNodeGetParams(handle, &params) != CUDA_SUCCESS) {
        node.kernels = 1;
        node.everything = true;
        return {};
      }
      read_kernel(params, node);
      return {};
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      CUDA_MEMCPY3D copy{};
      if (driver_.cuGraphMemcpyNodeGetParams(handle, &copy) != CUDA_SUCCESS) return kUnreadable;
      return read_copy(copy, node);
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      CUDA_MEMSET_NODE_PARAMS params{};
      if (driver_.cuGraphMemsetNodeGetParams(handle, &params) != CUDA_SUCCESS) return kUnreadable;
      read_memset(params, node);
      return {};
    }
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 params{};
      if (driver_.cuGraphBatchMemOpNodeGetParams == nullptr ||
          driver_.cuGraphBatchMemOpNodeGetParams(handle, &params) != CUDA_SUCCESS) {
        return kUnreadable;
      }
      return read_words({params.paramArray, params.count}, node);
    }
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
      CUevent event = nullptr;
      if (driver_.cuGraphEventRecordNodeGetEvent(handle, &event) != CUDA_SUCCESS) {
        return kUnreadable;
      }
      node.events.push_back(event);
      return {};
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      CUgraph child = nullptr;
      if (driver_.cuGraphChildGraphNodeGetGraph(handle, &child) != CUDA_SUCCESS) return kUnreadable;
      std::vector<Node> inside;
      std::string unfollowed = read_graph(child, hosts, inside);
      fold(std::move(inside), node);
      if (unfollowed.empty() && !(node.allocated.empty() && node.freed.empty())) {
        return "a graph within a graph that allocates or frees memory";
      }
      return unfollowed;
    }
    default:
      return unfollowed_name(type);
  }
}

std::string Graphs::read_graph(CUgraph graph, const Hosts& hosts, std::vector<Node>& nodes) const {
  if (driver_.cuGraphGetNodes == nullptr) return kUnreadable;
  size_t count = 0;
  if (driver_.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return kUnreadable;
  std::vector<CUgraphNode> handles(count);
  if (count != 0 && driver_.cuGraphGetNodes(graph, handles.data(), &count) != CUDA_SUCCESS) {
    return kUnreadable;
  }
  std::string unfollowed;
  for (CUgraphNode handle : handles) {
    Node node;
    std::string why = read_node(handle, hosts, node);
    if (unfollowed.empty()) unfollowed = std::move(why);
    nodes.push_back(std::move(node));
  }
  return unfollowed;
}

void Graphs::own(Exec& exec, Hosts hosts) {
  for (HostNodes::Node& node : hosts) exec.owned.push_back(std::move(node.callback));
}

void Graphs::retire(std::vector<std::unique_ptr<GraphCallback>> callbacks) {
  append(retired_, callbacks);
  std::erase_if(retired_, [](const auto& callback) { return callback->idle(); });
}

// The driver has it, for a graph that we do not know.
void Graphs::keep(std::unique_ptr<GraphCallback> callback) {
  callback->kept = true;
  retired_.push_back(std::move(callback));
}

std::string Graphs::instantiated(CUgraphExec exec, CUgraph graph, Hosts hosts, bool anew) {
  Exec fresh;
  std::string unfollowed = read_graph(graph, hosts, fresh.nodes);
  fresh.number = count_++;
  fresh.anew = anew;
  own(fresh, std::move(hosts));
  execs_[exec] = std::move(fresh);
  return unfollowed;
}

std::string Graphs::updated(CUgraphExec exec, CUgraph graph, Hosts hosts) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) {
    for (HostNodes::Node& node : hosts) keep(std::move(node.callback));
    return {};
  }
  std::vector<Node> nodes;
  std::string unfollowed = read_graph(graph, hosts, nodes);
  retire(std::exchange(found->second.owned, {}));
  own(found->second, std::move(hosts));
  found->second.nodes = std::move(nodes);
  found->second.paired = false;
  return unfollowed;
}

void Graphs::destroyed(CUgraphExec exec) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) return;
  retire(std::move(found->second.owned));
  execs_.erase(found);
}

void Graphs::share(CUgraphExec exec) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) return;
  for (const auto& callback : found->second.owned) callback->kept = true;
}

std::string Graphs::put(CUgraphExec exec, Node node) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) return {};
  Exec& known = found->second;
  if (known.paired) {
    for (Node& one : known.nodes) {
      if (one.handle != node.handle) continue;
      node.enabled = one.enabled;
      one = std::move(node);
      return {};
    }
  }
  const bool reaches_host = node.reaches_host();
  // The kernel that it replaces has been counted.
  node.kernels = 0;
  known.nodes.push_back(std::move(node));
  return reaches_host ? kMixedUp : "";
}

std::string Graphs::set_kernel(CUgraphExec exec, CUgraphNode handle,
                               const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  Node node;
  node.handle = handle;
  read_kernel(params, node);
  return put(exec, std::move(node));
}

std::string Graphs::set_copy(CUgraphExec exec, CUgraphNode handle, const CUDA_MEMCPY3D& copy) {
  Node node;
  node.handle = handle;
  std::string unfollowed = read_copy(copy, node);
  std::string mixed_up = put(exec, std::move(node));
  return unfollowed.empty() ? mixed_up : unfollowed;
}

std::string Graphs::set_memset(CUgraphExec exec, CUgraphNode handle,
                               const CUDA_MEMSET_NODE_PARAMS& params) {
  Node node;
  node.handle = handle;
  read_memset(params, node);
  return put(exec, std::move(node));
}

std::string Graphs::set_words(CUgraphExec exec, CUgraphNode handle,
                              std::span<const CUstreamBatchMemOpParams> operations) {
  Node node;
  node.handle = handle;
  std::string unfollowed = read_words(operations, node);
  std::string mixed_up = put(exec, std::move(node));
  return unfollowed.empty() ? mixed_up : unfollowed;
}

std::string Graphs::set_record(CUgraphExec exec, CUgraphNode handle, CUevent event) {
  Node node;
  node.handle = handle;
  node.events.push_back(event);
  return put(exec, std::move(node));
}

std::string Graphs::set_host(CUgraphExec exec, CUgraphNode handle,
                             std::unique_ptr<GraphCallback> callback) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) {
    keep(std::move(callback));
    return {};
  }
  Node node;
  node.handle = handle;
  node.callbacks.push_back(callback.get());
  // The one that it replaces may run still.
  found->second.owned.push_back(std::move(callback));
  return put(exec, std::move(node));
}

std::string Graphs::set_child(CUgraphExec exec, CUgraphNode handle, CUgraph child, Hosts hosts) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) {
    for (HostNodes::Node& node : hosts) keep(std::move(node.callback));
    return {};
  }
  std::vector<Node> inside;
  std::string unfollowed = read_graph(child, hosts, inside);
  Node node;
  node.handle = handle;
  fold(std::move(inside), node);
  own(found->second, std::move(hosts));
  std::string mixed_up = put(exec, std::move(node));
  return unfollowed.empty() ? mixed_up : unfollowed;
}

std::string Graphs::set_enabled(CUgraphExec exec, CUgraphNode handle, bool enabled) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) return {};
  bool copies = false;
  for (Node& node : found->second.nodes) {
    copies = copies || !node.copies.empty();
    if (node.handle != handle) continue;
    node.enabled = enabled;
    return {};
  }
  return copies ? kMixedUp : "";
}

void Graphs::add_writes(CUgraphExec exec, WriteSet& writes) const {
  writes.add_launch();
  auto found = execs_.find(exec);
  if (found == execs_.end()) {
    writes.add_everything();
    return;
  }
  writes.add_nothing();
  for (const Node& node : found->second.nodes) {
    if (!node.enabled) continue;
    if (node.everything) writes.add_everything();
    for (const WriteSet::Range& range : node.writes) {
      memory_.make_room(writes);
      writes.add(range.address, range.size);
    }
    for (const CUDA_MEMCPY3D& copy : node.copies) {
      const Target to = target_of(copy);
      memory_.make_room(writes);
      writes.add_box(to.address, copy.WidthInBytes, copy.Height, to.pitch, copy.Depth, to.slice);
    }
    for (const KernelCall& call : node.calls) {
      modules_.kernels().add_writes(call.function, const_cast<void**>(call.params.data()), nullptr,
                                    memory_, writes);
    }
  }
}

uint64_t Graphs::number(CUgraphExec exec) const {
  auto found = execs_.find(exec);
  return found == execs_.end() ? UINT64_MAX : found->second.number;
}

uint64_t Graphs::kernels(CUgraphExec exec) const {
  auto found = execs_.find(exec);
  uint64_t count = 0;
  if (found == execs_.end()) return count;
  for (const Node& node : found->second.nodes) {
    if (node.enabled) count += node.kernels;
  }
  return count;
}

bool Graphs::waits(CUgraphExec exec) const {
  auto found = execs_.find(exec);
  return found != execs_.end() && std::ranges::any_of(found->second.nodes, [](const Node& node) {
           return node.enabled && node.waits;
         });
}

std::vector<CUevent> Graphs::events(CUgraphExec exec) const {
  std::vector<CUevent> events;
  auto found = execs_.find(exec);
  if (found == execs_.end()) return events;
  for (const Node& node : found->second.nodes) {
    events.insert(events.end(), node.events.begin(), node.events.end());
  }
  return events;
}

std::vector<HostBlock> Graphs::brought_to_host(CUgraphExec exec) const {
  std::vector<HostBlock> blocks;
  auto found = execs_.find(exec);
  if (found == execs_.end()) return blocks;
  for (const Node& node : found->second.nodes) {
    if (!node.enabled) continue;
    for (const CUDA_MEMCPY3D& copy : node.copies) {
      const Target to = target_of(copy);
      if (!is_pageable(copy.dstMemoryType, to.address)) continue;
      blocks.push_back({reinterpret_cast<std::byte*>(to.address), copy.WidthInBytes, copy.Height,
                        copy.Depth, to.pitch, to.slice});
    }
  }
  return blocks;
}

std::vector<GraphCallback*> Graphs::callbacks(CUgraphExec exec) const {
  std::vector<GraphCallback*> callbacks;
  auto found = execs_.find(exec);
  if (found == execs_.end()) return callbacks;
  for (const Node& node : found->second.nodes) {
    callbacks.insert(callbacks.end(), node.callbacks.begin(), node.callbacks.end());
  }
  return callbacks;
}

Graphs::Memory Graphs::memory(CUgraphExec exec) const {
  Memory memory;
  auto found = execs_.find(exec);
  if (found == execs_.end()) return memory;
  memory.anew = found->second.anew;
  for (const Node& node : found->second.nodes) {
    memory.freed.insert(memory.freed.end(), node.freed.begin(), node.freed.end());
  }
  for (const Node& node : found->second.nodes) {
    for (const Allocation& allocation : node.allocated) {
      const auto freed = std::ranges::find(memory.freed, allocation.address);
      if (freed == memory.freed.end()) {
        memory.lasting.push_back(allocation);
      } else {
        memory.freed.erase(freed);
        memory.transient.push_back(allocation);
      }
    }
  }
  return memory;
}

bool Graphs::allocates(uint64_t address) const {
  for (const auto& [exec, known] : execs_) {
    for (const Node& node : known.nodes) {
      if (std::ranges::find(node.allocated, address, &Allocation::address) !=
          node.allocated.end()) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace gpusnap
