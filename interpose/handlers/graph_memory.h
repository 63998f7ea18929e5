// Memory that graphs allocate: what launches, frees and a replay's nodes do with it. The session's
// lock is held.
#pragma once

#include "interpose/handlers/hooked_call.h"

namespace gpusnap::handle {

// Around one launch. Memory that the launch frees again is in the map only while it is asked what
// the launch writes.
class LaunchedMemory {
 public:
  LaunchedMemory(HookedCall& hooked, Graphs::Memory memory, CUstream stream)
      : step_(hooked), memory_(std::move(memory)), stream_(stream) {}

  // The driver has none of this memory, so it is on us to say that it is there already.
  bool is_refused() const;
  void before_launch();
  void after_launch();
  // The launch has been made, or was when it was recorded: what is there from now on.
  void launched();

 private:
  bool is_there(uint64_t address) const;

  HookedCall& step_;
  Graphs::Memory memory_;
  CUstream stream_;
  std::vector<uint64_t> added_;
};

// The context of a stream.
CUcontext context_of(DeviceModel& model, CUstream stream);
// Captured calls that get and give back memory.
template <class Real>
CUresult capture_alloc(HookedCall& hooked, CUdeviceptr* out, uint64_t size, CUstream stream,
                       Real&& real);
template <class Real>
CUresult capture_free(HookedCall& hooked, CUdeviceptr address, CUstream stream, Real&& real);
// In a replay: the node, and its memory.
void capture_stand_in(HookedCall& hooked, CUstream stream, GraphMemoryPlaceholders::Node node,
                      uint64_t size);
// Drops placeholders of graphs that are gone.
void drop_graph_memory(HookedCall& hooked);

template <class Real>
CUresult capture_alloc(HookedCall& hooked, CUdeviceptr* out, uint64_t size, CUstream stream,
                       Real&& real) {
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    uint64_t address = 0;
    hooked.take_answer(&address, sizeof address);
    GraphMemoryPlaceholders::Node node;
    node.allocates = true;
    node.address = address;
    capture_stand_in(hooked, stream, std::move(node), size);
    *out = address;
    return recorded;
  }
  const CUresult result = hooked.call_driver(real);
  if (result != CUDA_SUCCESS) {
    hooked.record(result);
    return result;
  }
  const uint64_t address = *out;
  hooked.record_answer(result, &address, sizeof address);
  return result;
}

template <class Real>
CUresult capture_free(HookedCall& hooked, CUdeviceptr address, CUstream stream, Real&& real) {
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded != CUDA_SUCCESS) return recorded;
    GraphMemoryPlaceholders::Node node;
    node.address = address;
    capture_stand_in(hooked, stream, std::move(node), 0);
    return recorded;
  }
  if (hooked.model().graphs.graph_memory_placeholders().has_memory(address)) {
    GraphMemoryPlaceholders::Node node;
    node.address = address;
    capture_stand_in(hooked, stream, std::move(node), 0);
    hooked.record(CUDA_SUCCESS);
    return CUDA_SUCCESS;
  }
  const CUresult result = hooked.call_driver(real);
  hooked.record(result);
  return result;
}

}  // namespace gpusnap::handle
