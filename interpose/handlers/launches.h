// How launches of kernels are recorded and replayed, whichever call makes them.
#pragma once

#include "interpose/step.h"

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
CUresult follow_launch(Step& step, CUfunction function, const Shape& shape, CUstream stream,
                       const Arguments& arguments, Real&& real) {
  Session& session = step.session();
  (void)step.stream(stream);
  step.key.add(session.modules().function(function), packed(shape.grid_x, shape.grid_y),
               packed(shape.grid_z, shape.block_x), packed(shape.block_y, shape.block_z),
               shape.shared_bytes);
  if (step.captured()) return step.made_again(real);
  step.key.data = session.modules().kernels().digest(function, arguments.params, arguments.extra,
                                                     session.memory());
  step.device_may_write();
  if (step.replaying()) {
    const CUresult recorded = step.expect();
    // Code that is loaded at its first launch is loaded where it was: now, not while live.
    if (recorded == CUDA_SUCCESS) session.modules().load_function(function);
    return recorded;
  }
  if (step.asks_writes()) [[unlikely]] {
    session.modules().kernels().add_writes(function, arguments.params, arguments.extra,
                                           session.memory(), step.writes);
  }
  const CUresult result = step.made(real);
  if (result == CUDA_SUCCESS) session.recorder().count_launch();
  step.record(result);
  return result;
}

}  // namespace gpusnap::handle
