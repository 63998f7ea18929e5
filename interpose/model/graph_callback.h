// Functions of the host in graphs. The driver gets ours in their place when a graph is instantiated
// or updated; the program's graph is as it was before and after. So each executable graph has its
// own, and it is known which launch each run belongs to (host_callbacks.h says the rest).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "interpose/hook/driver.h"

namespace gpusnap {

class HostCallbacks;

// Guarded by the session's lock from the launch on.
struct GraphCallback {
  HostCallbacks* callbacks = nullptr;
  CUhostFn function = nullptr;
  void* user = nullptr;
  std::deque<uint64_t> launched;  // numbers of runs that have not begun
  uint32_t running = 0;
  bool kept = false;  // other graphs may have it

  bool idle() const { return launched.empty() && running == 0 && !kept; }
};
// The function that the driver is given: a CUhostFn of a GraphCallback.
void run_graph_callback(void* callback);
std::unique_ptr<GraphCallback> make_graph_callback(HostCallbacks& callbacks,
                                                   const CUDA_HOST_NODE_PARAMS& params);

// The functions of a graph, and of those within it, while ours are in their place.
class HostNodes {
 public:
  struct Node {
    CUgraphNode handle = nullptr;
    CUDA_HOST_NODE_PARAMS own{};  // the program's
    std::unique_ptr<GraphCallback> callback;
  };

  HostNodes(const Driver& driver, HostCallbacks& callbacks)
      : driver_(&driver), callbacks_(callbacks) {}
  // Calls `real` meanwhile. Holds no lock.
  template <class Real>
  CUresult replaced(CUgraph graph, Real&& real) {
    replace(graph);
    const CUresult result = real();
    put_back();
    return result;
  }
  std::vector<Node> take() { return std::move(nodes_); }

 private:
  void replace(CUgraph graph);
  void put_back();

  const Driver* driver_;
  HostCallbacks& callbacks_;
  std::vector<Node> nodes_;
};

}  // namespace gpusnap
