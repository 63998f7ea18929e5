// Work that streams and graphs queue: kernels, copies, sets and functions of the host, as the
// program asked for them, checked, and not yet bound to memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "tools/simcuda/driver/context.h"
#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/memory.h"
#include "tools/simcuda/machine.h"

namespace simcuda {

struct Driver;
struct Graph;
struct GraphBlock;

struct KernelCall {
  CUfunction function = nullptr;  // never a library's kernel
  CUcontext context = nullptr;    // of the function
  Dim3 grid, block;
  uint64_t shared = 0;
  std::vector<std::byte> values;  // the parameter block
  bool cooperative = false;
};
struct CopyCall {
  CUDA_MEMCPY3D copy{};
};
struct SetCall {
  CUDA_MEMSET_NODE_PARAMS set{};
};
struct HostCall {
  CUhostFn function = nullptr;
  void* user = nullptr;
};
struct RecordCall {
  CUevent event = nullptr;
};
struct WaitCall {
  CUevent event = nullptr;
};
struct ChildCall {
  std::shared_ptr<Graph> graph;
};
struct EmptyCall {};
// Memory of a graph: there from the one to the other.
struct AllocCall {
  std::shared_ptr<GraphBlock> block;
};
struct FreeCall {
  std::shared_ptr<GraphBlock> block;
};
// Words that are written and waited for.
struct WordsCall {
  CUcontext context = nullptr;
  std::vector<CUstreamBatchMemOpParams> operations;
};

using Work = std::variant<EmptyCall, KernelCall, CopyCall, SetCall, HostCall, RecordCall, WaitCall,
                          ChildCall, AllocCall, FreeCall, WordsCall>;

// Checks a launch and gathers its parameters.
CUresult check_kernel(Driver& driver, Context& context, CUfunction function, const Dim3& grid,
                      const Dim3& block, uint64_t shared, void** parameters, void** extra,
                      KernelCall* call);
// Makes the launch a cooperative one, where all its blocks fit on the device at once.
CUresult make_cooperative(Driver& driver, KernelCall* call);
// Tasks for a stream. Tasks of copies, sets and words are bound to memory: the caller keeps
// the Hold until they are queued, in a stream of `context`. A kernel's takes Memory's lock itself.
CUresult kernel_task(Driver& driver, const KernelCall& call, WorkQueue::Task* task);
CUresult copy_task(Driver& driver, Context& context, const Memory::Hold& hold,
                   const CUDA_MEMCPY3D& copy, WorkQueue::Task* task);
CUresult set_task(Driver& driver, Context& context, const Memory::Hold& hold,
                  const CUDA_MEMSET_NODE_PARAMS& set, WorkQueue::Task* task);
CUresult words_task(Driver& driver, Context& context, const Memory::Hold& hold,
                    const std::vector<CUstreamBatchMemOpParams>& operations, WorkQueue::Task* task);
// Runs a function of the program, in which no driver call is allowed.
void run_host_function(Driver& driver, CUhostFn function, void* user);

}  // namespace simcuda
