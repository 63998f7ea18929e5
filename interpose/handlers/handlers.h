// The handlers of hooked calls, by the kind that hooks.table gives them. A handler gets the call
// and its arguments, and calls the real function when and as it must. The templates here take any
// call of their kind; all other handlers are functions, declared from the table in
// handlers_generated.h and defined beside this file.
#pragma once

#include <unistd.h>

#include <string>

#include "interpose/cuda/handlers_generated.h"
#include "interpose/handlers/hooked_call.h"
#include "interpose/hook/hook.h"

namespace gpusnap::handle {

// Activation itself is the wrapper's business.
template <class R, class... A>
R init(const Call<R(A...)>& call, A... args) {
  return call.real(args...);
}

template <class... A>
CUresult execute(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  (hooked.check(args), ...);
  return hooked.record_or_repeat([&] { return call.real(args...); });
}

// Gets, shares or writes device memory in a way that is not followed.
template <class... A>
CUresult unsupported(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  (hooked.note_stream(args), ...);
  return hooked.record_or_refuse(name_of(call.hook.id), [&] { return call.real(args...); });
}

// The driver's own checkpoints are of other processes, which is their business. A process that is
// about to stop itself loses ours first: while it is locked we could not even give them up.
template <class... A>
CUresult driver_checkpoint(const Call<CUresult(int, A...)>& call, int pid, A... args) {
  if (pid != getpid()) return call.real(pid, args...);
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(pid, args...);
  hooked.refuse(std::string(name_of(call.hook.id)) + " of the program itself");
  return hooked.unlocked([&] { return call.real(pid, args...); });
}

template <class... A>
CUresult capture_begin(const Call<CUresult(CUstream, A...)>& call, CUstream stream, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(stream, args...);
  const CUstream meant = hooked.stream(stream);
  (hooked.check(args), ...);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(stream, args...); });
  if (result == CUDA_SUCCESS) hooked.model().contexts.begin_capture(meant);
  return result;
}

// graph.cpp
CUresult graph_instantiated(HookedCall& hooked, CUresult result, CUgraphExec exec, CUgraph graph,
                            HostNodes& hosts, uint64_t flags);
// A graph whose memory has been put where it was has one executable graph at most, as the driver's
// own has; nor is it copied.
bool is_taken(HookedCall& hooked, CUgraph graph);

inline uint64_t flags_of(unsigned long long flags) {
  return flags;
}
inline uint64_t flags_of(const CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return params == nullptr ? 0 : params->flags;
}
inline uint64_t flags_of(const CUgraphNode*, const char*, size_t) {
  return 0;
}

template <class... A>
CUresult graph_instantiate(const Call<CUresult(CUgraphExec*, CUgraph, A...)>& call,
                           CUgraphExec* exec, CUgraph graph, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(exec, graph, args...);
  HostNodes hosts(hooked.driver(), hooked.host_callbacks());
  const bool taken = is_taken(hooked, graph);
  const CUresult result = hooked.record_or_repeat([&] {
    return taken ? CUDA_ERROR_NOT_SUPPORTED
                 : hosts.replaced(graph, [&] { return call.real(exec, graph, args...); });
  });
  return graph_instantiated(hooked, result, result == CUDA_SUCCESS ? *exec : nullptr, graph, hosts,
                            flags_of(args...));
}

// Changes that the driver does not allow where a graph has memory: what failed fails again.
template <class... A>
CUresult graph_edit(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  (hooked.check(args), ...);
  return hooked.record_or_repeat([&] { return call.real(args...); });
}
// graph.cpp
CUresult graph_edit(const Call<decltype(cuGraphClone)>& call, CUgraph*, CUgraph);
CUresult graph_edit(const Call<decltype(cuGraphAddChildGraphNode)>& call, CUgraphNode*, CUgraph,
                    const CUgraphNode*, size_t, CUgraph);

// Adds the bytes that a set writes, by its arguments after the address.
template <class Value>
void add_set(WriteSet& writes, CUdeviceptr to, Value, size_t count, CUstream = nullptr) {
  writes.add_box(to, sizeof(Value), count, sizeof(Value), 1, 0);
}
template <class Value>
void add_set(WriteSet& writes, CUdeviceptr to, size_t pitch, Value, size_t width, size_t height,
             CUstream = nullptr) {
  writes.add_box(to, width * sizeof(Value), height, pitch, 1, 0);
}

// Memory that the host sees is set when the call returns, unless the call names a stream.
template <class... A>
CUresult memset(const Call<CUresult(CUdeviceptr, A...)>& call, CUdeviceptr to, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(to, args...);
  hooked.key.add(hooked.model().known(to));
  (hooked.check(args), ...);
  if (hooked.asks_writes()) add_set(hooked.writes, to, args...);
  auto real = [&] { return call.real(to, args...); };
  constexpr bool kAsync = (std::same_as<A, CUstream> || ...);
  if (!kAsync && hooked.model().host_memory.contains(to, 1)) {
    hooked.device_may_write(HookedCall::DeviceWrites::kBeforeReturn);
    return hooked.record_sync(false, real);
  }
  hooked.device_may_write();
  return hooked.record_or_skip(real);
}

template <class... A>
CUresult sync_context(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  const ProgramWork work = hooked.work_to_wait_for(args...);
  const CUresult result = hooked.record_sync(true, [&] {
    // The driver tells what went wrong.
    return work.finish(hooked.driver()) ? CUDA_SUCCESS : call.real(args...);
  });
  if (work.legacy != nullptr) hooked.model().contexts.give_mark(work.legacy);
  return result;
}

template <class... A>
CUresult sync_stream(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  return hooked.record_sync(false, [&] { return call.real(args...); });
}

template <class... A>
CUresult sync_event(const Call<CUresult(A...)>& call, A... args) {
  return sync_stream(call, args...);
}

template <class... A>
CUresult query_stream(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  return hooked.record_poll([&] { return call.real(args...); });
}

template <class... A>
CUresult query_event(const Call<CUresult(A...)>& call, A... args) {
  return query_stream(call, args...);
}

// context.cpp
CUresult context(const Call<CUresult(CUcontext*, CUdevice)>& call, CUcontext*, CUdevice);
CUresult context(const Call<CUresult(CUdevice)>& call, CUdevice);
CUresult context(const Call<CUresult(CUcontext)>& call, CUcontext);
template <class... A>
CUresult context(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  (hooked.check(args), ...);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(args...); });
  hooked.contexts().note_current();
  return result;
}

inline constexpr const char* kOutsideOfJob = "outside of an MPI job";

// Their handles are the driver's own: what is shared is an order, and a cut finds all of it passed.
template <class... A>
CUresult share_event(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  const auto real = [&] { return call.real(args...); };
  if (hooked.may_share()) return hooked.record_or_repeat(real);
  return hooked.record_or_refuse(std::string(name_of(call.hook.id)) + " " + kOutsideOfJob, real);
}

}  // namespace gpusnap::handle
