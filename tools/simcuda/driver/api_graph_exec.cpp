// Graphs that are ready to be launched.

#include <utility>
#include <vector>

#include "tools/simcuda/driver/backing.h"
#include "tools/simcuda/driver/event.h"
#include "tools/simcuda/driver/graph_calls.h"

namespace simcuda {
namespace {

using Step = GraphExec::Step;

// body(Driver&, GraphExec&) with the lock of all graphs.
template <class Body>
CUresult with_exec(CUgraphExec handle, Body&& body) {
  return with_graphs([&](Driver& state) {
    auto exec = state.graphs.execs.find(handle);
    return exec ? static_cast<CUresult>(body(state, *exec)) : CUDA_ERROR_INVALID_VALUE;
  });
}

template <class Body>
CUresult with_step(CUgraphExec handle, CUgraphNode node, Body&& body) {
  return with_exec(handle, [&](Driver& state, GraphExec& exec) {
    Step* step = exec.find(node);
    return step != nullptr ? static_cast<CUresult>(body(state, *step)) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult exchange_work(Step& step, Work work) {
  if (!exchangeable(step.work, work)) return CUDA_ERROR_INVALID_VALUE;
  step.work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult exchange_child(Driver& state, Step& step, CUgraph handle) {
  auto graph = state.graphs.graphs.find(handle);
  CUgraphNode wrong = nullptr;
  if (!graph || !step.child) return CUDA_ERROR_INVALID_VALUE;
  return state.graphs.update(*step.child, *graph, &wrong) == CU_GRAPH_EXEC_UPDATE_SUCCESS
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

template <class Params>
CUresult set_step(CUgraphExec exec, CUgraphNode node, const Params* params) {
  return with_step(exec, node, [&](Driver& state, Step& step) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Work work;
    CUresult result = work_of(state, *params, &work);
    return result == CUDA_SUCCESS ? exchange_work(step, std::move(work)) : result;
  });
}

CUresult instantiate(CUgraphExec* out, CUgraph handle, uint64_t flags, CUgraphNode* wrong) {
  constexpr uint64_t kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                              CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  return in_driver([&](Driver& state) {
    auto hold = state.graphs.hold();
    auto graph = state.graphs.graphs.find(handle);
    if (out == nullptr || !graph) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & ~kKnown) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    // Memory is in one place.
    if (has_memory(*graph) && graph->exec.lock()) return CUDA_ERROR_NOT_SUPPORTED;
    auto exec = state.graphs.instantiate(*graph, flags, wrong);
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    graph->exec = exec;
    *out = exec->handle;
    return CUDA_SUCCESS;
  });
}

// The steps that run, in their order, children's in their place.
void flatten(const GraphExec& exec, std::vector<const Step*>* steps) {
  for (size_t i : exec.order) {
    const Step& step = exec.steps[i];
    if (!step.enabled) continue;
    if (step.child) {
      flatten(*step.child, steps);
    } else {
      steps->push_back(&step);
    }
  }
}

CUresult bind_to_memory(Driver& state, Context& context, const Memory::Hold& hold, const Work& work,
                        WorkQueue::Task* task) {
  if (const auto* copy = std::get_if<CopyCall>(&work)) {
    return copy_task(state, context, hold, copy->copy, task);
  }
  if (const auto* set = std::get_if<SetCall>(&work))
    return set_task(state, context, hold, set->set, task);
  if (const auto* words = std::get_if<WordsCall>(&work))
    return words_task(state, context, hold, words->operations, task);
  if (const auto* host = std::get_if<HostCall>(&work)) {
    *task = [&state, call = *host] { run_host_function(state, call.function, call.user); };
  }
  const auto* alloc = std::get_if<AllocCall>(&work);
  const auto* free = std::get_if<FreeCall>(&work);
  if (alloc != nullptr || free != nullptr) {
    *task = [block = alloc != nullptr ? alloc->block : free->block,
             seed = alloc != nullptr ? 0 : 1] {
      fill_with_junk(block->host, block->size, static_cast<uint64_t>(seed));
    };
  }
  return CUDA_SUCCESS;
}

// The effect of a launch on memory of graphs, by the order of the calls: all that it allocates is
// there while its work is queued. Undone if the launch fails.
class LaunchMemory {
 public:
  LaunchMemory(GraphMemory& memory, const std::vector<const Step*>& steps) : memory_(memory) {
    for (const Step* step : steps) {
      if (const auto* alloc = std::get_if<AllocCall>(&step->work))
        allocated_.push_back(alloc->block);
      if (const auto* free = std::get_if<FreeCall>(&step->work)) freed_.push_back(free->block);
    }
  }
  ~LaunchMemory() {
    for (const auto& block : taken_) memory_.free(*block);
    for (const auto& block : dropped_) memory_.allocate(*block);
  }
  LaunchMemory(const LaunchMemory&) = delete;
  LaunchMemory& operator=(const LaunchMemory&) = delete;

  // `anew`: what is left of the launch before is freed first.
  CUresult take(bool anew) {
    for (const auto& block : allocated_) {
      if (!block->live) continue;
      if (!anew) return CUDA_ERROR_INVALID_VALUE;
      memory_.free(*block);
      dropped_.push_back(block);
    }
    for (const auto& block : allocated_) {
      memory_.allocate(*block);
      taken_.push_back(block);
    }
    for (const auto& block : freed_) {
      if (!block->live) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  }
  void commit() {
    taken_.clear();
    dropped_.clear();
    for (const auto& block : freed_) memory_.free(*block);
  }

 private:
  using Blocks = std::vector<std::shared_ptr<GraphBlock>>;
  GraphMemory& memory_;
  Blocks allocated_, freed_;
  Blocks taken_, dropped_;  // until it is committed
};

Point submit_step(Driver& state, Context& context, const Stream& stream, const Work& work,
                  WorkQueue::Task task, std::vector<Point> after) {
  if (const auto* record = std::get_if<RecordCall>(&work)) {
    if (auto event = state.events.find(record->event))
      return record_now(state, context, stream, *event);
  }
  if (const auto* wait = std::get_if<WaitCall>(&work)) {
    if (auto event = state.events.find(wait->event)) after.push_back(event->latest().point);
    return context.submit(
        stream, [] {}, Context::When::kAlways, std::move(after));
  }
  if (!task) task = [] {};
  return context.submit(stream, std::move(task), Context::When::kHealthy, std::move(after));
}

// All steps on one stream, one after the other, in an order that the graph allows. If a step cannot
// be bound to memory, the launch fails before any step is queued.
CUresult launch(Driver& state, Context& context, const Stream& stream, GraphExec& exec) {
  std::vector<const Step*> steps;
  flatten(exec, &steps);
  LaunchMemory memory(state.graph_memory, steps);
  const bool anew = (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  if (CUresult result = memory.take(anew); result != CUDA_SUCCESS) return result;
  std::vector<WorkQueue::Task> tasks(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto* kernel = std::get_if<KernelCall>(&steps[i]->work);
    CUresult result = kernel == nullptr ? CUDA_SUCCESS : kernel_task(state, *kernel, &tasks[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  {
    auto hold = state.memory.hold();
    for (size_t i = 0; i < steps.size(); ++i) {
      CUresult result = bind_to_memory(state, context, hold, steps[i]->work, &tasks[i]);
      if (result != CUDA_SUCCESS) {
        hold.unlock();
        return result;
      }
    }
    // A graph never runs beside itself.
    exec.last = context.submit(stream, [] {}, Context::When::kAlways, {exec.last});
    for (size_t i = 0; i < steps.size(); ++i) {
      exec.last = submit_step(state, context, stream, steps[i]->work, std::move(tasks[i]), {});
    }
  }
  memory.commit();
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace simcuda

using simcuda::Context;
using simcuda::Driver;
using simcuda::GraphExec;
using simcuda::set_step;
using simcuda::Step;
using simcuda::Stream;
using simcuda::with_exec;
using simcuda::with_step;
using simcuda::Work;

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  CUgraphNode wrong = nullptr;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::instantiate(exec, graph, flags, &wrong);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                               size_t log_size) {
  CUgraphNode wrong = nullptr;
  const CUresult result = simcuda::instantiate(exec, graph, 0, &wrong);
  if (error_node != nullptr) *error_node = wrong;
  if (log != nullptr && log_size != 0) *log = '\0';
  return result;
}

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                            size_t log_size) {
  return cuGraphInstantiate_v2(exec, graph, error_node, log, log_size);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  params->hErrNode_out = nullptr;
  const CUresult result = simcuda::instantiate(exec, graph, params->flags, &params->hErrNode_out);
  params->result_out = result == CUDA_SUCCESS            ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                       : params->hErrNode_out != nullptr ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                                                         : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  return with_exec(handle, [&](Driver&, GraphExec& exec) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = exec.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return set_step(exec, node, params);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return set_step(exec, node, params);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* copy, CUcontext) {
  return set_step(exec, node, copy);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return set_step(exec, node, params);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1* params) {
  return set_step(exec, node, params);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return set_step(exec, node, params);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return with_step(exec, node, [&](Driver& state, Step& step) {
    return simcuda::exchange_child(state, step, child);
  });
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  if (params != nullptr && params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return cuGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
  }
  return set_step(exec, node, params);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return with_step(exec, node, [&](Driver&, Step& step) {
    return simcuda::exchange_work(step, simcuda::RecordCall{event});
  });
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return with_step(exec, node, [&](Driver&, Step& step) {
    return simcuda::exchange_work(step, simcuda::WaitCall{event});
  });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle,
                              CUgraphExecUpdateResultInfo* result) {
  return with_exec(handle, [&](Driver& state, GraphExec& exec) {
    auto graph = state.graphs.graphs.find(graph_handle);
    if (!graph || result == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *result = {};
    result->result = state.graphs.update(exec, *graph, &result->errorNode);
    return result->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                          : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  });
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* result) {
  CUgraphExecUpdateResultInfo info{};
  if (result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult outcome = cuGraphExecUpdate_v2(exec, graph, &info);
  *result = info.result;
  if (error_node != nullptr) *error_node = info.errorNode;
  return outcome;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  return with_step(exec, node, [&](Driver&, Step& step) {
    const CUgraphNodeType type = simcuda::type_of(step.work);
    if (type > CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE;
    step.enabled = enabled != 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  return with_step(exec, node, [&](Driver&, Step& step) {
    if (enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *enabled = step.enabled ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  simcuda::Point last;
  const CUresult result = simcuda::with_graphs([&](Driver& state) {
    const auto exec = state.graphs.execs.find(handle);
    if (!exec) return CUDA_ERROR_INVALID_VALUE;
    // Objects that its launches use are not destroyed under them.
    if (!exec->objects.empty()) last = exec->last;
    state.graphs.destroy(exec);
    return CUDA_SUCCESS;
  });
  last.wait();
  simcuda::clean_up_graphs();
  return result;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  return simcuda::queue_in(stream, [&](Driver& state, Context&, Stream&) {
    return state.graphs.execs.find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return simcuda::queue_or_capture(
      stream_handle,
      [&](Driver& state, Context&, Work* work) {
        auto exec = state.graphs.execs.find(handle);
        if (!exec) return CUDA_ERROR_INVALID_VALUE;
        if (exec->has_memory()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        *work = simcuda::ChildCall{state.graphs.graph_of(*exec)};
        return CUDA_SUCCESS;
      },
      [&](Driver& state, Context& context, Stream& stream) {
        auto hold = state.graphs.hold();
        auto exec = state.graphs.execs.find(handle);
        if (!exec) return CUDA_ERROR_INVALID_VALUE;
        return simcuda::launch(state, context, stream, *exec);
      });
}
