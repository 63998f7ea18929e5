// The work of a graph's node, from the parameters of the calls that add and change nodes: checked,
// as those calls do.
#pragma once

#include <optional>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {

CUresult work_of(Driver& state, const CUDA_KERNEL_NODE_PARAMS_v1& params, Work* work);
CUresult work_of(Driver& state, const CUDA_KERNEL_NODE_PARAMS_v2& params, Work* work);
CUresult work_of(Driver& state, const CUDA_MEMCPY3D& copy, Work* work);
CUresult work_of(Driver& state, const CUDA_MEMSET_NODE_PARAMS& set, Work* work);
CUresult work_of(Driver& state, const CUDA_HOST_NODE_PARAMS& params, Work* work);
CUresult work_of(Driver& state, const CUDA_CHILD_GRAPH_NODE_PARAMS& params, Work* work);
CUresult work_of(Driver& state, const CUDA_EVENT_RECORD_NODE_PARAMS& params, Work* work);
CUresult work_of(Driver& state, const CUDA_EVENT_WAIT_NODE_PARAMS& params, Work* work);
CUresult work_of(Driver& state, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1& params, Work* work);
// For nodes of the kinds above; CUDA_ERROR_NOT_SUPPORTED for other kinds that there are.
CUresult work_of(Driver& state, const CUgraphNodeParams& params, Work* work);

// For a node of `graph` that allocates memory; `params` tells its address.
CUresult alloc_work(Driver& state, CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS* params, Work* work);
CUresult free_work(Driver& state, CUgraph graph, CUdeviceptr address, Work* work);

// Where memory of a graph starts: frees it, by a call. Nothing: it is no such address.
std::optional<CUresult> free_graph_memory(Driver& state, CUdeviceptr address, const Stream* stream);
// Destroys what no graph refers to any more, and gives back memory that none needs.
void clean_up_graphs();

}  // namespace simcuda
