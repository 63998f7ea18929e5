// Functions of the host in streams (session_callbacks.cpp says what becomes of them).

#include <memory>

#include "interpose/handlers/handlers.h"

namespace gpusnap::handle {

CUresult host_function(const Call<CUresult(CUstream, CUhostFn, void*)>& call, CUstream stream,
                       CUhostFn function, void* user) {
  Step step(call);
  if (step.off()) return call.real(stream, function, user);
  Session& session = step.session();
  (void)step.stream(stream);
  // In a capture it becomes a node; graphs with such nodes are not followed.
  if (function == nullptr || step.captured()) {
    return step.made_again([&] { return call.real(stream, function, user); });
  }
  if (step.replaying()) {
    const CUresult recorded = step.expect();
    if (recorded == CUDA_SUCCESS) session.remember_callback(function, user);
    return recorded;
  }
  auto callback = std::make_unique<HostCallback>();
  callback->session = &session;
  callback->function = function;
  callback->user = user;
  // From the call on it is the driver's thread's, which waits until the call has been journaled.
  const CUresult result =
      step.made([&] { return call.real(stream, run_host_callback, callback.get()); });
  step.record(result);
  if (result == CUDA_SUCCESS) session.callback_launched(*callback.release());
  return result;
}

}  // namespace gpusnap::handle
