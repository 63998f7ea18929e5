// How launches of kernels are recorded and replayed, whichever call makes them.
#pragma once

#include "interpose/handlers/hooked_call.h"

namespace gpusnap::handle {

struct Shape {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
};

inline uint64_t packed(unsigned low, unsigned high) {
  return low | static_cast<uint64_t>(high) << 32;
}

struct Arguments {
  void** params;
  void** extra;
};

// The hot path: one look-up and one append while recording.
template <class Real>
CUresult follow_launch(HookedCall& hooked, CUfunction function, const Shape& shape, CUstream stream,
                       const Arguments& arguments, Real&& real) {
  (void)hooked.stream(stream);
  hooked.key.add(hooked.model().modules.function(function), packed(shape.grid_x, shape.grid_y),
                 packed(shape.grid_z, shape.block_x), packed(shape.block_y, shape.block_z),
                 shape.shared_bytes);
  if (hooked.captured()) return hooked.record_or_repeat(real);
  hooked.key.data = hooked.model().modules.kernels().digest(function, arguments.params,
                                                            arguments.extra, hooked.model().memory);
  hooked.device_may_write();
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    // Code that is loaded at its first launch is loaded where it was: now, not while live.
    if (recorded == CUDA_SUCCESS) hooked.model().modules.load_function(function);
    return recorded;
  }
  if (hooked.asks_writes()) [[unlikely]] {
    hooked.model().modules.kernels().add_writes(function, arguments.params, arguments.extra,
                                                hooked.model().memory, hooked.writes);
  }
  const CUresult result = hooked.call_driver(real);
  if (result == CUDA_SUCCESS) hooked.recorder().count_launch();
  hooked.record(result);
  return result;
}

}  // namespace gpusnap::handle
