#include "interpose/model/graph_callback.h"

namespace gpusnap {

std::unique_ptr<GraphCallback> make_graph_callback(HostCallbacks& callbacks,
                                                   const CUDA_HOST_NODE_PARAMS& params) {
  auto callback = std::make_unique<GraphCallback>();
  callback->callbacks = &callbacks;
  callback->function = params.fn;
  callback->user = params.userData;
  // A launch that was captured has ours already.
  if (params.fn == run_graph_callback) {
    const auto* inner = static_cast<const GraphCallback*>(params.userData);
    callback->function = inner->function;
    callback->user = inner->user;
  }
  return callback;
}

void HostNodes::replace(CUgraph graph) {
  size_t count = 0;
  if (driver_->cuGraphGetNodes == nullptr || driver_->cuGraphHostNodeSetParams == nullptr ||
      driver_->cuGraphHostNodeGetParams == nullptr) {
    return;
  }
  if (driver_->cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return;
  std::vector<CUgraphNode> handles(count);
  if (count == 0 || driver_->cuGraphGetNodes(graph, handles.data(), &count) != CUDA_SUCCESS) return;
  for (CUgraphNode handle : handles) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    if (driver_->cuGraphNodeGetType(handle, &type) != CUDA_SUCCESS) continue;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
      CUgraph child = nullptr;
      if (driver_->cuGraphChildGraphNodeGetGraph(handle, &child) == CUDA_SUCCESS) replace(child);
    }
    Node node;
    if (type != CU_GRAPH_NODE_TYPE_HOST ||
        driver_->cuGraphHostNodeGetParams(handle, &node.own) != CUDA_SUCCESS) {
      continue;
    }
    node.handle = handle;
    node.callback = make_graph_callback(callbacks_, node.own);
    const CUDA_HOST_NODE_PARAMS ours{run_graph_callback, node.callback.get()};
    // One that cannot be replaced is one that cannot be followed.
    if (driver_->cuGraphHostNodeSetParams(handle, &ours) != CUDA_SUCCESS) continue;
    nodes_.push_back(std::move(node));
  }
}

void HostNodes::put_back() {
  for (const Node& node : nodes_) {
    (void)driver_->cuGraphHostNodeSetParams(node.handle, &node.own);
  }
}

}  // namespace gpusnap
