#include "interpose/graphs.h"

#include <cstring>
#include <iterator>
#include <utility>

namespace gpusnap {

namespace {
const char* unfollowed_name(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_HOST:
      return "a graph that calls a host function";
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return "a graph that uses external semaphores";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "memory that is allocated in a graph";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "a graph that waits for or writes values";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "a graph with conditions";
    default:
      return "a graph with a node of a kind that this version does not know";
  }
}
constexpr const char* kUnreadable = "a graph that the driver does not describe";
}  // namespace

void Graphs::take(const WriteSet& set, Node& node) {
  if (!set.said() || set.everything()) node.everything = true;
  node.writes.insert(node.writes.end(), set.begin(), set.end());
}

void Graphs::fold(std::vector<Node> nodes, Node& into) {
  for (Node& node : nodes) {
    into.kernels += node.kernels;
    into.everything = into.everything || node.everything;
    std::move(node.calls.begin(), node.calls.end(), std::back_inserter(into.calls));
    into.writes.insert(into.writes.end(), node.writes.begin(), node.writes.end());
    into.events.insert(into.events.end(), node.events.begin(), node.events.end());
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

// Memory that the host sees is compared with its mirror when the program synchronises; plain memory
// of the program has none, and would be written behind our back.
std::string Graphs::read_copy(const CUDA_MEMCPY3D& copy, Node& node) const {
  // What an array holds is looked at in each cut.
  if (copy.dstMemoryType == CU_MEMORYTYPE_ARRAY) return {};
  const uint64_t base = copy.dstMemoryType == CU_MEMORYTYPE_HOST
                            ? reinterpret_cast<uint64_t>(copy.dstHost)
                            : copy.dstDevice;
  const uint64_t pitch = copy.dstPitch != 0 ? copy.dstPitch : copy.WidthInBytes;
  const uint64_t slice = pitch * (copy.dstHeight != 0 ? copy.dstHeight : copy.Height);
  const uint64_t to = base + copy.dstZ * slice + copy.dstY * pitch + copy.dstXInBytes;
  if (memory_.find(to) == nullptr && copy.dstMemoryType != CU_MEMORYTYPE_DEVICE) {
    return "a graph that copies into host memory that is not page-locked";
  }
  WriteSet set;
  set.add_box(to, copy.WidthInBytes, copy.Height, pitch, copy.Depth, slice);
  take(set, node);
  return {};
}

std::string Graphs::read_node(CUgraphNode handle, Node& node) const {
  node.handle = handle;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  if (driver_.cuGraphNodeGetType(handle, &type) != CUDA_SUCCESS) return kUnreadable;
  switch (type) {
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
      std::string unfollowed = read_graph(child, inside);
      fold(std::move(inside), node);
      return unfollowed;
    }
    default:
      return unfollowed_name(type);
  }
}

std::string Graphs::read_graph(CUgraph graph, std::vector<Node>& nodes) const {
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
    std::string why = read_node(handle, node);
    if (unfollowed.empty()) unfollowed = std::move(why);
    nodes.push_back(std::move(node));
  }
  return unfollowed;
}

std::string Graphs::instantiated(CUgraphExec exec, CUgraph graph) {
  Exec fresh;
  std::string unfollowed = read_graph(graph, fresh.nodes);
  fresh.number = count_++;
  execs_[exec] = std::move(fresh);
  return unfollowed;
}

std::string Graphs::updated(CUgraphExec exec, CUgraph graph) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) return {};
  std::vector<Node> nodes;
  std::string unfollowed = read_graph(graph, nodes);
  found->second.nodes = std::move(nodes);
  found->second.paired = false;
  return unfollowed;
}

void Graphs::put(CUgraphExec exec, Node node) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) return;
  Exec& known = found->second;
  if (known.paired) {
    for (Node& one : known.nodes) {
      if (one.handle != node.handle) continue;
      node.enabled = one.enabled;
      one = std::move(node);
      return;
    }
  }
  // The kernel that it replaces has been counted.
  node.kernels = 0;
  known.nodes.push_back(std::move(node));
}

std::string Graphs::set_kernel(CUgraphExec exec, CUgraphNode handle,
                               const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  Node node;
  node.handle = handle;
  read_kernel(params, node);
  put(exec, std::move(node));
  return {};
}

std::string Graphs::set_copy(CUgraphExec exec, CUgraphNode handle, const CUDA_MEMCPY3D& copy) {
  Node node;
  node.handle = handle;
  std::string unfollowed = read_copy(copy, node);
  put(exec, std::move(node));
  return unfollowed;
}

void Graphs::set_memset(CUgraphExec exec, CUgraphNode handle,
                        const CUDA_MEMSET_NODE_PARAMS& params) {
  Node node;
  node.handle = handle;
  read_memset(params, node);
  put(exec, std::move(node));
}

void Graphs::set_record(CUgraphExec exec, CUgraphNode handle, CUevent event) {
  Node node;
  node.handle = handle;
  node.events.push_back(event);
  put(exec, std::move(node));
}

std::string Graphs::set_child(CUgraphExec exec, CUgraphNode handle, CUgraph child) {
  std::vector<Node> inside;
  std::string unfollowed = read_graph(child, inside);
  Node node;
  node.handle = handle;
  fold(std::move(inside), node);
  put(exec, std::move(node));
  return unfollowed;
}

void Graphs::set_enabled(CUgraphExec exec, CUgraphNode handle, bool enabled) {
  auto found = execs_.find(exec);
  if (found == execs_.end()) return;
  for (Node& node : found->second.nodes) {
    if (node.handle == handle) node.enabled = enabled;
  }
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
    for (const WriteSet::Range& range : node.writes) writes.add(range.address, range.size);
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

std::vector<CUevent> Graphs::events(CUgraphExec exec) const {
  std::vector<CUevent> events;
  auto found = execs_.find(exec);
  if (found == execs_.end()) return events;
  for (const Node& node : found->second.nodes) {
    events.insert(events.end(), node.events.begin(), node.events.end());
  }
  return events;
}

}  // namespace gpusnap
