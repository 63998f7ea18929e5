// Captures and graphs. How a graph is built is the program's own affair: the calls pass through, in
// a recording and in a replay. What counts is what a launch does.

#include "interpose/handlers/handlers.h"

namespace gpusnap::handle {

namespace {
// Whether a capture has ended with this result.
bool ends_capture(CUresult result) {
  return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
         result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

// For calls that a replay makes whatever came of them: they fail again by themselves.
template <class Real>
CUresult made_whatever(Step& step, Real&& real) {
  if (!step.replaying()) {
    const CUresult result = step.made(real);
    step.record(result);
    return result;
  }
  const CUresult recorded = step.expect();
  if (recorded == CUDA_SUCCESS) {
    step.repeated(real);
  } else {
    (void)step.outside(real);
  }
  return recorded;
}

// A launch of this graph could not be repeated.
void refuse_unless_followed(Step& step, const std::string& unfollowed) {
  if (!unfollowed.empty() && !step.replaying()) step.session().refuse(unfollowed);
}

template <class Params>
CUresult set_kernel(Step& step, CUresult result, CUgraphExec exec, CUgraphNode node,
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
  refuse_unless_followed(step, step.session().graphs().set_kernel(exec, node, plain));
  return result;
}
}  // namespace

CUresult capture_end(const Call<CUresult(CUstream, CUgraph*)>& call, CUstream stream,
                     CUgraph* graph) {
  Step step(call);
  if (step.off()) return call.real(stream, graph);
  const CUstream meant = step.stream(stream);
  const CUresult result = made_whatever(step, [&] { return call.real(stream, graph); });
  if (ends_capture(result)) step.session().end_capture(meant);
  return result;
}

CUresult graph_instantiated(Step& step, CUresult result, const CUgraphExec* exec, CUgraph graph) {
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(step, step.session().graphs().instantiated(*exec, graph));
  }
  return result;
}

CUresult graph_update(const Call<decltype(cuGraphExecUpdate)>& call, CUgraphExec exec,
                      CUgraph graph, CUgraphNode* error_node, CUgraphExecUpdateResult* outcome) {
  Step step(call);
  if (step.off()) return call.real(exec, graph, error_node, outcome);
  const CUresult result =
      made_whatever(step, [&] { return call.real(exec, graph, error_node, outcome); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(step, step.session().graphs().updated(exec, graph));
  }
  return result;
}

CUresult graph_update(const Call<decltype(cuGraphExecUpdate_v2)>& call, CUgraphExec exec,
                      CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  Step step(call);
  if (step.off()) return call.real(exec, graph, info);
  const CUresult result = made_whatever(step, [&] { return call.real(exec, graph, info); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(step, step.session().graphs().updated(exec, graph));
  }
  return result;
}

CUresult graph_set_node(const Call<decltype(cuGraphExecKernelNodeSetParams)>& call,
                        CUgraphExec exec, CUgraphNode node,
                        const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  Step step(call);
  if (step.off()) return call.real(exec, node, params);
  const CUresult result = step.made_again([&] { return call.real(exec, node, params); });
  return set_kernel(step, result, exec, node, params);
}

CUresult graph_set_node(const Call<decltype(cuGraphExecKernelNodeSetParams_v2)>& call,
                        CUgraphExec exec, CUgraphNode node,
                        const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  Step step(call);
  if (step.off()) return call.real(exec, node, params);
  const CUresult result = step.made_again([&] { return call.real(exec, node, params); });
  return set_kernel(step, result, exec, node, params);
}

CUresult graph_set_node(const Call<decltype(cuGraphExecMemcpyNodeSetParams)>& call,
                        CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* copy,
                        CUcontext context) {
  Step step(call);
  if (step.off()) return call.real(exec, node, copy, context);
  const CUresult result = step.made_again([&] { return call.real(exec, node, copy, context); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(step, step.session().graphs().set_copy(exec, node, *copy));
  }
  return result;
}

CUresult graph_set_node(const Call<decltype(cuGraphExecMemsetNodeSetParams)>& call,
                        CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params,
                        CUcontext context) {
  Step step(call);
  if (step.off()) return call.real(exec, node, params, context);
  const CUresult result = step.made_again([&] { return call.real(exec, node, params, context); });
  if (result == CUDA_SUCCESS) step.session().graphs().set_memset(exec, node, *params);
  return result;
}

CUresult graph_set_node(const Call<decltype(cuGraphExecEventRecordNodeSetEvent)>& call,
                        CUgraphExec exec, CUgraphNode node, CUevent event) {
  Step step(call);
  if (step.off()) return call.real(exec, node, event);
  const CUresult result = step.made_again([&] { return call.real(exec, node, event); });
  if (result == CUDA_SUCCESS) step.session().graphs().set_record(exec, node, event);
  return result;
}

CUresult graph_set_node(const Call<decltype(cuGraphExecChildGraphNodeSetParams)>& call,
                        CUgraphExec exec, CUgraphNode node, CUgraph child) {
  Step step(call);
  if (step.off()) return call.real(exec, node, child);
  const CUresult result = step.made_again([&] { return call.real(exec, node, child); });
  if (result == CUDA_SUCCESS) {
    refuse_unless_followed(step, step.session().graphs().set_child(exec, node, child));
  }
  return result;
}

CUresult graph_set_node(const Call<decltype(cuGraphNodeSetEnabled)>& call, CUgraphExec exec,
                        CUgraphNode node, unsigned enabled) {
  Step step(call);
  if (step.off()) return call.real(exec, node, enabled);
  step.check(enabled);
  const CUresult result = step.made_again([&] { return call.real(exec, node, enabled); });
  if (result == CUDA_SUCCESS) step.session().graphs().set_enabled(exec, node, enabled != 0);
  return result;
}

CUresult graph_exec_destroy(const Call<CUresult(CUgraphExec)>& call, CUgraphExec exec) {
  Step step(call);
  if (step.off()) return call.real(exec);
  const CUresult result = step.made_again([&] { return call.real(exec); });
  if (result == CUDA_SUCCESS) step.session().graphs().destroyed(exec);
  return result;
}

CUresult graph_launch(const Call<CUresult(CUgraphExec, CUstream)>& call, CUgraphExec exec,
                      CUstream given) {
  Step step(call);
  if (step.off()) return call.real(exec, given);
  Session& session = step.session();
  const Graphs& graphs = session.graphs();
  const CUstream stream = step.stream(given);
  step.key.add(graphs.number(exec));
  auto real = [&] { return call.real(exec, given); };
  if (step.captured()) return step.made_again(real);
  step.device_may_write();
  if (step.replaying()) {
    const CUresult recorded = step.expect();
    if (recorded != CUDA_SUCCESS) return recorded;
    // Later calls may ask for the time of an event that only this launch records.
    for (CUevent event : graphs.events(exec)) (void)session.driver().cuEventRecord(event, stream);
    return recorded;
  }
  if (step.asks_writes()) graphs.add_writes(exec, step.writes);
  const CUresult result = step.made(real);
  if (result == CUDA_SUCCESS) session.recorder().count_launches(graphs.kernels(exec));
  step.record(result);
  return result;
}

}  // namespace gpusnap::handle
