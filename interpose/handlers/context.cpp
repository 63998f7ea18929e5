// Contexts, streams, and the times of events.

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/sparse.h"

namespace gpusnap::handle {

CUresult context(const Call<CUresult(CUcontext*, CUdevice)>& call, CUcontext* out,
                 CUdevice device) {
  Step step(call);
  if (step.off()) return call.real(out, device);
  step.check(device);
  const CUresult result = step.made_again([&] { return call.real(out, device); });
  if (result == CUDA_SUCCESS) step.session().contexts().set_primary(device, *out);
  return result;
}

// Release and reset of a device's primary context; what ends with its last user is forgotten.
CUresult context(const Call<CUresult(CUdevice)>& call, CUdevice device) {
  Step step(call);
  if (step.off()) return call.real(device);
  step.check(device);
  const ArenaPinning::Pause pause(step.session().pinning());
  const CUresult result = step.made_again([&] { return call.real(device); });
  unsigned flags = 0;
  int active = 1;
  const Driver& driver = step.session().driver();
  if (driver.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active == 0) {
    step.session().forget_context(step.session().contexts().primary(device));
    end_tile_pools(step);
  }
  return result;
}

CUresult context(const Call<CUresult(CUcontext)>& call, CUcontext which) {
  Step step(call);
  if (step.off()) return call.real(which);
  if (step.hook() == HookId::cuCtxSetCurrent) {
    step.session().about_to_set(which);
    step.key.data = step.session().contexts().key_of(which);
  }
  const bool ends = step.hook() == HookId::cuCtxDestroy || step.hook() == HookId::cuCtxDestroy_v2;
  const bool may_end = ends || step.hook() == HookId::cuCtxDetach;
  const ArenaPinning::Pause pause(may_end ? step.session().pinning() : nullptr);
  const CUresult result = step.made_again([&] { return call.real(which); });
  if (ends && result == CUDA_SUCCESS) {
    step.session().forget_context(which);
    end_tile_pools(step);
  }
  step.session().note_context();
  return result;
}

namespace {
template <class F, class... A>
CUresult create_stream(const Call<F>& call, CUstream* out, A... args) {
  Step step(call);
  if (step.off()) return call.real(out, args...);
  (step.check(args), ...);
  const CUresult result = step.made_again([&] { return call.real(out, args...); });
  if (result == CUDA_SUCCESS) step.session().add_stream(*out);
  return result;
}
}  // namespace

CUresult stream_create(const Call<CUresult(CUstream*, unsigned)>& call, CUstream* out,
                       unsigned flags) {
  return create_stream(call, out, flags);
}

CUresult stream_create(const Call<CUresult(CUstream*, unsigned, int)>& call, CUstream* out,
                       unsigned flags, int priority) {
  return create_stream(call, out, flags, priority);
}

CUresult stream_destroy(const Call<CUresult(CUstream)>& call, CUstream stream) {
  Step step(call);
  if (step.off()) return call.real(stream);
  step.session().remove_stream(stream);
  return step.made_again([&] { return call.real(stream); });
}

// Time passes differently in a replay: the program is told what it was told.
CUresult event_elapsed(const Call<CUresult(float*, CUevent, CUevent)>& call, float* milliseconds,
                       CUevent start, CUevent end) {
  Step step(call);
  if (step.off()) return call.real(milliseconds, start, end);
  if (step.replaying()) {
    const CUresult recorded = step.expect();
    if (recorded == CUDA_SUCCESS) step.take_answer(milliseconds, sizeof *milliseconds);
    return recorded;
  }
  const CUresult result = step.made([&] { return call.real(milliseconds, start, end); });
  if (result == CUDA_SUCCESS) {
    step.record_answer(result, milliseconds, sizeof *milliseconds);
  } else {
    step.record(result);
  }
  return result;
}

// What a restore placed is no memory of the context's, and needs to be told.
CUresult peer_access(const Call<CUresult(CUcontext, unsigned)>& call, CUcontext peer,
                     unsigned flags) {
  Step step(call);
  if (step.off()) return call.real(peer, flags);
  step.check(flags);
  const CUresult result = step.made_again([&] { return call.real(peer, flags); });
  CUdevice device = 0;
  if (result == CUDA_SUCCESS && step.session().driver().cuCtxGetDevice(&device) == CUDA_SUCCESS) {
    step.session().placement().allow(device);
  }
  return result;
}

}  // namespace gpusnap::handle
