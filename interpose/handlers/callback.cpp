// Functions of the host in streams (host_callbacks.h says what becomes of them).

#include <memory>

#include "interpose/handlers/handlers.h"

namespace gpusnap::handle {

namespace {
// `real(HostCallback*)` makes the call with what is to run in the place of the function.
template <class Real>
CUresult follow_function(HookedCall& hooked, const HostFunction& function, Real&& real) {
  if (hooked.replaying()) {
    const CUresult recorded = hooked.match_next_entry();
    if (recorded == CUDA_SUCCESS) hooked.host_callbacks().remember(function);
    return recorded;
  }
  auto callback = std::make_unique<HostCallback>();
  callback->callbacks = &hooked.host_callbacks();
  callback->function = function;
  // From the call on it is the driver's thread's, which waits until the call has been journaled.
  const CUresult result = hooked.call_driver([&] { return real(callback.get()); });
  // Changes that the host has made by now cannot be in doubt when the function begins.
  if (hooked.host_updates().function_runs()) {
    hooked.record(result);
  } else {
    hooked.record_visible(result, false, nullptr);
  }
  if (result == CUDA_SUCCESS) hooked.host_callbacks().launched(*callback.release());
  return result;
}
}  // namespace

CUresult host_function(const Call<CUresult(CUstream, CUhostFn, void*)>& call, CUstream stream,
                       CUhostFn function, void* user) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(stream, function, user);
  (void)hooked.stream(stream);
  // In a capture it becomes a node (graph_callback.h).
  if (function == nullptr || hooked.captured()) {
    return hooked.record_or_repeat([&] { return call.real(stream, function, user); });
  }
  const HostFunction followed{.plain = function, .user = user};
  return follow_function(hooked, followed, [&](HostCallback* callback) {
    return call.real(stream, run_host_callback, callback);
  });
}

// Captured streams take none.
CUresult stream_callback(const Call<decltype(cuStreamAddCallback)>& call, CUstream stream,
                         CUstreamCallback function, void* user, unsigned flags) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(stream, function, user, flags);
  (void)hooked.stream(stream);
  hooked.key.add(flags);
  if (function == nullptr || hooked.captured()) {
    return hooked.record_or_repeat([&] { return call.real(stream, function, user, flags); });
  }
  const HostFunction followed{.callback = function, .stream = stream, .user = user};
  return follow_function(hooked, followed, [&](HostCallback* callback) {
    return call.real(stream, run_stream_callback, callback, flags);
  });
}

}  // namespace gpusnap::handle
