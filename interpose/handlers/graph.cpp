// Captures and graphs. How a graph is built is the program's own affair: the calls pass through, in
// a recording and in a replay. Only the effects of a launch count.

#include <memory>
#include <utility>
#include <vector>

#include "interpose/handlers/graph_memory.h"
#include "interpose/handlers/handlers.h"
#include "interpose/handlers/wait_mark.h"

namespace gpusnap::handle {

namespace {
// Whether a capture has ended with this result.
bool ends_capture(CUresult result) {
  return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
         result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

// For calls that a replay makes whatever came of them: they fail again by themselves.
template <class Real>
CUresult made_whatever(HookedCall& hooked, Real&& real) {
  if (!hooked.replaying()) {
    const CUresult result = hooked.call_driver(real);
    hooked.record(result);
    return result;
  }
  const CUresult recorded = hooked.match_next_entry();
  if (recorded == CUDA_SUCCESS) {
    hooked.repeat(real);
  } else {
    (void)hooked.unlocked(real);
  }
  return recorded;
}

// A launch of this graph could not be repeated.
void refuse_unless_followed(HookedCall& hooked, const std::string& unfollowed) {
  if (!unfollowed.empty() && !hooked.replaying()) hooked.refuse(unfollowed);
}

template <class Params>
CUresult set_kernel(HookedCall& hooked, CUresult result, CUgraphExec exec, CUgraphNode node,
                    const Params* params) {
  if (result != CUDA_SUCCESS) return result;
  CUfunction function = params->func;
  if constexpr (requires { params->kern; }) {
    if (function == nullptr) function = reinterpret_cast<CUfunction>(params->kern);
  }
  const CUDA_KERNEL_NODE_PARAMS_v1 plain{
      function,          params->gridDimX,       params->gridDimY,
      params->gridDimZ,  params->blockDimX,      params->blockDimY,
      params->blockDimZ, params->sharedMemBytes, params->kernelParams,
      params->extra};
  refuse_unless_followed(hooked, hooked.model().graphs.set_kernel(exec, node, plain));
  return result;
}
}  // namespace

CUresult capture_end(const Call<CUresult(CUstream, CUgraph*)>& call, CUstream stream,
                     CUgraph* graph) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(stream, graph);
  const CUstream meant = hooked.stream(stream);
  const CUresult result = made_whatever(hooked, [&] { return call.real(stream, graph); });
  if (ends_capture(result)) hooked.model().contexts.end_capture(meant);
  return result;
}

CUresult graph_instantiated(HookedCall& hooked, CUresult result, CUgraphExec exec, CUgraph graph,
                            HostNodes& hosts, uint64_t flags) {
  if (result != CUDA_SUCCESS) return result;
  const bool anew = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  Graphs& graphs = hooked.model().graphs;
  refuse_unless_followed(hooked, graphs.instantiated(exec, graph, hosts.take(), anew));
  if (graphs.graph_memory_placeholders().has_nodes_of(graph)) graphs.take(graph, exec);
  return result;
}

bool is_taken(HookedCall& hooked, CUgraph graph) {
  return !hooked.replaying() && hooked.model().graphs.is_taken(graph);
}

CUresult graph_edit(const Call<decltype(cuGraphClone)>& call, CUgraph* clone, CUgraph graph) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(clone, graph);
  const bool has_memory = hooked.model().graphs.graph_memory_placeholders().has_nodes_of(graph);
  return hooked.record_or_repeat(
      [&] { return has_memory ? CUDA_ERROR_NOT_SUPPORTED : call.real(clone, graph); });
}

CUresult graph_edit(const Call<decltype(cuGraphAddChildGraphNode)>& call, CUgraphNode* node,
                    CUgraph graph, const CUgraphNode* dependencies, size_t count, CUgraph child) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(node, graph, dependencies, count, child);
  const bool has_memory = hooked.model().graphs.graph_memory_placeholders().has_nodes_of(child);
  return hooked.record_or_repeat([&] {
    return has_memory ? CUDA_ERROR_NOT_SUPPORTED
                      : call.real(node, graph, dependencies, count, child);
  });
}

CUresult graph_destroy(const Call<decltype(cuGraphDestroy)>& call, CUgraph graph) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(graph);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(graph); });
  if (result == CUDA_SUCCESS) {
    hooked.model().graphs.graph_destroyed(graph);
    drop_graph_memory(hooked);
  }
  return result;
}

namespace {
// An update that failed fails again by itself, unless memory of the graph is not the driver's.
template <class Info, class Real>
CUresult update(HookedCall& hooked, CUgraphExec exec, CUgraph graph, Info fail, Real&& real) {
  Graphs& graphs = hooked.model().graphs;
  HostNodes hosts(hooked.driver(), hooked.host_callbacks());
  const bool ours =
      graphs.graph_memory_placeholders().has_nodes_of(graph) || graphs.has_memory(exec);
  const CUresult result = made_whatever(hooked, [&] {
    if (hooked.replaying() && ours && hooked.entry().head.result != CUDA_SUCCESS) {
      fail();
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    return hosts.replaced(graph, real);
  });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(hooked, graphs.updated(exec, graph, hosts.take()));
  }
  return result;
}
}  // namespace

CUresult graph_update(const Call<decltype(cuGraphExecUpdate)>& call, CUgraphExec exec,
                      CUgraph graph, CUgraphNode* error_node, CUgraphExecUpdateResult* outcome) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, graph, error_node, outcome);
  auto fail = [&] {
    if (error_node != nullptr) *error_node = nullptr;
    *outcome = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  };
  return update(hooked, exec, graph, fail,
                [&] { return call.real(exec, graph, error_node, outcome); });
}

CUresult graph_update(const Call<decltype(cuGraphExecUpdate_v2)>& call, CUgraphExec exec,
                      CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, graph, info);
  auto fail = [&] { *info = {CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, nullptr, nullptr}; };
  return update(hooked, exec, graph, fail, [&] { return call.real(exec, graph, info); });
}

CUresult graph_set_node(const Call<decltype(cuGraphExecKernelNodeSetParams)>& call,
                        CUgraphExec exec, CUgraphNode node,
                        const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, params);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(exec, node, params); });
  return set_kernel(hooked, result, exec, node, params);
}

CUresult graph_set_node(const Call<decltype(cuGraphExecKernelNodeSetParams_v2)>& call,
                        CUgraphExec exec, CUgraphNode node,
                        const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, params);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(exec, node, params); });
  return set_kernel(hooked, result, exec, node, params);
}

CUresult graph_set_node(const Call<decltype(cuGraphExecMemcpyNodeSetParams)>& call,
                        CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* copy,
                        CUcontext context) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, copy, context);
  const CUresult result =
      hooked.record_or_repeat([&] { return call.real(exec, node, copy, context); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(hooked, hooked.model().graphs.set_copy(exec, node, *copy));
  }
  return result;
}

CUresult graph_set_node(const Call<decltype(cuGraphExecMemsetNodeSetParams)>& call,
                        CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params,
                        CUcontext context) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, params, context);
  const CUresult result =
      hooked.record_or_repeat([&] { return call.real(exec, node, params, context); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(hooked, hooked.model().graphs.set_memset(exec, node, *params));
  }
  return result;
}

CUresult graph_set_node(const Call<decltype(cuGraphExecBatchMemOpNodeSetParams)>& call,
                        CUgraphExec exec, CUgraphNode node,
                        const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* params) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, params);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(exec, node, params); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(
        hooked, hooked.model().graphs.set_words(exec, node, {params->paramArray, params->count}));
  }
  return result;
}

CUresult graph_set_node(const Call<decltype(cuGraphExecEventRecordNodeSetEvent)>& call,
                        CUgraphExec exec, CUgraphNode node, CUevent event) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, event);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(exec, node, event); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(hooked, hooked.model().graphs.set_record(exec, node, event));
  }
  return result;
}

namespace {
template <class Real>
CUresult set_child(HookedCall& hooked, CUgraphExec exec, CUgraphNode node, CUgraph child,
                   Real&& real) {
  HostNodes hosts(hooked.driver(), hooked.host_callbacks());
  const CUresult result = hooked.record_or_repeat([&] { return hosts.replaced(child, real); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(hooked,
                           hooked.model().graphs.set_child(exec, node, child, hosts.take()));
  }
  return result;
}

// real(fn, user): with these in the place of the program's.
template <class Real>
CUresult set_host(HookedCall& hooked, CUgraphExec exec, CUgraphNode node,
                  const CUDA_HOST_NODE_PARAMS& params, Real&& real) {
  auto callback = make_graph_callback(hooked.host_callbacks(), params);
  const CUDA_HOST_NODE_PARAMS ours{run_graph_callback, callback.get()};
  const CUresult result = hooked.record_or_repeat([&] { return real(ours); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(hooked, hooked.model().graphs.set_host(exec, node, std::move(callback)));
  }
  return result;
}
}  // namespace

CUresult graph_set_node(const Call<decltype(cuGraphExecChildGraphNodeSetParams)>& call,
                        CUgraphExec exec, CUgraphNode node, CUgraph child) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, child);
  return set_child(hooked, exec, node, child, [&] { return call.real(exec, node, child); });
}

CUresult graph_set_node(const Call<decltype(cuGraphExecHostNodeSetParams)>& call, CUgraphExec exec,
                        CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, params);
  if (params == nullptr || params->fn == nullptr) {
    return hooked.record_or_repeat([&] { return call.real(exec, node, params); });
  }
  return set_host(hooked, exec, node, *params,
                  [&](const auto& ours) { return call.real(exec, node, &ours); });
}

CUresult graph_set_node(const Call<decltype(cuGraphExecNodeSetParams)>& call, CUgraphExec exec,
                        CUgraphNode node, CUgraphNodeParams* params) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, params);
  Graphs& graphs = hooked.model().graphs;
  auto real = [&] { return call.real(exec, node, params); };
  auto followed = [&](auto&& note) {
    const CUresult result = hooked.record_or_repeat(real);
    if (result == CUDA_SUCCESS) refuse_unless_followed(hooked, note());
    return result;
  };
  if (params == nullptr) return hooked.record_or_repeat(real);
  hooked.check(params->type);
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return set_kernel(hooked, hooked.record_or_repeat(real), exec, node, &params->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return followed([&] { return graphs.set_copy(exec, node, params->memcpy.copyParams); });
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return followed([&] {
        const CUDA_MEMSET_NODE_PARAMS_v2& set = params->memset;
        return graphs.set_memset(
            exec, node, {set.dst, set.pitch, set.value, set.elementSize, set.width, set.height});
      });
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return followed([&] {
        return graphs.set_words(exec, node, {params->memOp.paramArray, params->memOp.count});
      });
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return followed([&] { return graphs.set_record(exec, node, params->eventRecord.event); });
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return hooked.record_or_repeat(real);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return set_child(hooked, exec, node, params->graph.graph, real);
    case CU_GRAPH_NODE_TYPE_HOST:
      return set_host(hooked, exec, node, params->host, [&](const auto& ours) {
        CUgraphNodeParams replaced = *params;
        replaced.host = ours;
        return call.real(exec, node, &replaced);
      });
    default:
      return hooked.record_or_refuse("cuGraphExecNodeSetParams of such a node", real);
  }
}

CUresult graph_set_node(const Call<decltype(cuGraphNodeSetEnabled)>& call, CUgraphExec exec,
                        CUgraphNode node, unsigned enabled) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, node, enabled);
  hooked.check(enabled);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(exec, node, enabled); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(hooked, hooked.model().graphs.set_enabled(exec, node, enabled != 0));
  }
  return result;
}

CUresult graph_exec_destroy(const Call<CUresult(CUgraphExec)>& call, CUgraphExec exec) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(exec); });
  if (result == CUDA_SUCCESS) {
    hooked.model().graphs.destroyed(exec);
    drop_graph_memory(hooked);
  }
  return result;
}

namespace {
// Copies of a launch into plain memory of the host: they are delivered when they are done.
class Brought {
 public:
  Brought(HookedCall& hooked, CUgraphExec exec)
      : hooked_(hooked), blocks_(hooked.model().graphs.brought_to_host(exec)) {}

  void take_marks() {
    for (size_t i = 0; i < blocks_.size(); ++i)
      marks_.push_back(hooked_.host_updates().take_mark());
  }
  // Right behind the launch, without the session's lock.
  void mark(CUstream stream) {
    for (const ProgressMark& mark : marks_) {
      marked_ = marked_ && mark.word != nullptr &&
                write_mark(hooked_.driver(), mark, stream) == CUDA_SUCCESS;
    }
  }
  void defer() {
    if (!marked_) return hooked_.refuse(kNoProgressMark);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      hooked_.host_updates().defer(blocks_[i], marks_[i], true, hooked_.enter_copy());
    }
  }
  void give_marks_back() {
    for (const ProgressMark& mark : marks_) hooked_.host_updates().give_back_unused(mark);
  }
  void remember() {
    for (const HostBlock& block : blocks_) hooked_.host_updates().remember_deferred(block);
  }

 private:
  HookedCall& hooked_;
  const std::vector<HostBlock> blocks_;
  std::vector<ProgressMark> marks_;
  bool marked_ = true;
};
}  // namespace

CUresult graph_launch(const Call<CUresult(CUgraphExec, CUstream)>& call, CUgraphExec exec,
                      CUstream given) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, given);
  Graphs& graphs = hooked.model().graphs;
  const CUstream stream = hooked.stream(given);
  hooked.key.add(graphs.number(exec));
  auto real = [&] { return call.real(exec, given); };
  if (hooked.captured()) {
    graphs.share(exec);
    return hooked.record_or_repeat(real);
  }
  using enum HookedCall::DeviceWrites;
  hooked.device_may_write(graphs.events(exec).empty() ? kInGraph : kInGraphTelling);
  LaunchedMemory memory(hooked, graphs.memory(exec), stream);
  Brought brought(hooked, exec);
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    memory.launched();
    // Later calls may ask for the time of an event that only this launch records.
    for (CUevent event : graphs.events(exec)) (void)hooked.driver().cuEventRecord(event, stream);
    brought.remember();
    for (const GraphCallback* callback : graphs.callbacks(exec)) {
      hooked.host_callbacks().remember({.plain = callback->function, .user = callback->user});
    }
    return recorded;
  }
  if (memory.is_refused()) {
    hooked.record(CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_INVALID_VALUE;
  }
  memory.before_launch();
  if (hooked.asks_writes()) graphs.add_writes(exec, hooked.writes);
  brought.take_marks();
  WaitMark wait(hooked.model(), graphs.waits(exec));
  const CUresult result = hooked.call_driver([&] {
    const CUresult launched = real();
    if (launched == CUDA_SUCCESS) brought.mark(stream);
    wait.record(launched, stream);
    return launched;
  });
  wait.hand_over();
  if (result == CUDA_SUCCESS) hooked.recorder().count_launches(graphs.kernels(exec));
  hooked.record(result);
  memory.after_launch();
  if (result != CUDA_SUCCESS) {
    brought.give_marks_back();
    return result;
  }
  memory.launched();
  brought.defer();
  hooked.host_callbacks().launched(graphs.callbacks(exec));
  return result;
}

}  // namespace gpusnap::handle
