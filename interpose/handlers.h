// What each kind of hooked call does, one function template a kind:
//   handle::<kind>(const Call<F>& call, arguments...)
// Called with the guard held, in a process that is followed. While nothing is recorded, each calls
// the real function.
#pragma once

#include "interpose/hook.h"

namespace gpusnap::handle {

template <class F, class... A>
auto init(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto unsupported(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto context(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto execute(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto capture(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto launch(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto memset(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto mem_alloc(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto mem_alloc_pitch(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto mem_alloc_managed(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto mem_free(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto mem_get_info(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto host_alloc(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto host_free(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto host_register(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto host_unregister(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto host_pointer(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto copy_in(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto copy_back(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto copy_on(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto copy_any(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto copy_2d(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto copy_3d(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto sync_context(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto sync_stream(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto sync_event(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto query_stream(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto query_event(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto event_elapsed(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto module_load(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto module_unload(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto module_get_function(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto module_get_global(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto library_load(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto library_unload(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto library_get(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto kernel_get_function(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto stream_create(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

template <class F, class... A>
auto stream_destroy(const Call<F>& call, A... arguments) {
  return call.real(arguments...);
}

}  // namespace gpusnap::handle
