// Contexts, streams, and the times of events.

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/sparse.h"

namespace gpusnap::handle {

CUresult context(const Call<CUresult(CUcontext*, CUdevice)>& call, CUcontext* out,
                 CUdevice device) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, device);
  hooked.check(device);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(out, device); });
  if (result == CUDA_SUCCESS) hooked.model().contexts.set_primary(device, *out);
  return result;
}

// Release and reset of a device's primary context; what ends with its last user is forgotten.
CUresult context(const Call<CUresult(CUdevice)>& call, CUdevice device) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(device);
  hooked.check(device);
  const ArenaPinning::Pause pause(&hooked.pinning());
  const CUresult result = hooked.record_or_repeat([&] { return call.real(device); });
  unsigned flags = 0;
  int active = 1;
  const Driver& driver = hooked.driver();
  if (driver.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active == 0) {
    hooked.contexts().forget(hooked.model().contexts.primary(device));
    end_tile_pools(hooked);
  }
  return result;
}

CUresult context(const Call<CUresult(CUcontext)>& call, CUcontext which) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(which);
  if (hooked.hook() == HookId::cuCtxSetCurrent) {
    own_state.sets = which;
    hooked.key.data = hooked.model().contexts.key_of(which);
  }
  const bool ends =
      hooked.hook() == HookId::cuCtxDestroy || hooked.hook() == HookId::cuCtxDestroy_v2;
  const bool may_end = ends || hooked.hook() == HookId::cuCtxDetach;
  const ArenaPinning::Pause pause(may_end ? &hooked.pinning() : nullptr);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(which); });
  if (ends && result == CUDA_SUCCESS) {
    hooked.contexts().forget(which);
    end_tile_pools(hooked);
  }
  hooked.contexts().note_current();
  return result;
}

namespace {
template <class F, class... A>
CUresult create_stream(const Call<F>& call, CUstream* out, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, args...);
  (hooked.check(args), ...);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(out, args...); });
  if (result == CUDA_SUCCESS) hooked.contexts().add_stream(*out);
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
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(stream);
  hooked.contexts().remove_stream(stream);
  return hooked.record_or_repeat([&] { return call.real(stream); });
}

// Time passes differently in a replay: the program is told what it was told.
CUresult event_elapsed(const Call<CUresult(float*, CUevent, CUevent)>& call, float* milliseconds,
                       CUevent start, CUevent end) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(milliseconds, start, end);
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded == CUDA_SUCCESS) hooked.take_answer(milliseconds, sizeof *milliseconds);
    return recorded;
  }
  const CUresult result = hooked.call_driver([&] { return call.real(milliseconds, start, end); });
  if (result == CUDA_SUCCESS) {
    hooked.record_answer(result, milliseconds, sizeof *milliseconds);
  } else {
    hooked.record(result);
  }
  return result;
}

// Memory of the arena, or that a restore placed, is not the context's, and has to be made
// accessible by itself.
CUresult peer_access(const Call<CUresult(CUcontext, unsigned)>& call, CUcontext peer,
                     unsigned flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(peer, flags);
  hooked.check(flags);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(peer, flags); });
  CUdevice device = 0;
  if (result == CUDA_SUCCESS && hooked.driver().cuCtxGetDevice(&device) == CUDA_SUCCESS) {
    hooked.model().placement.allow(device);
    (void)hooked.unlocked([&] {
      hooked.model().arena.allow(device);
      return CUDA_SUCCESS;
    });
  }
  return result;
}

}  // namespace gpusnap::handle
