// Handlers for tests: each counts the call under its hook and passes it on.
#pragma once

#include "interpose/hook/hook.h"

namespace gpusnap {

void note_handled(HookId id, const char* kind);

namespace handle {

// The formatter breaks such a list differently each time.
// clang-format off
#define GPUSNAP_KINDS(X) \
  X(init) X(unsupported) X(context) X(execute) X(launch) X(memset) X(mem_alloc) \
  X(mem_alloc_pitch) X(mem_alloc_managed) X(mem_free) X(mem_get_info) X(mem_get_range) \
  X(pointer_get) X(pointer_set) X(host_alloc) \
  X(host_free) X(host_register) X(host_unregister) X(host_pointer) X(copy_in) X(copy_back) \
  X(copy_on) X(copy_any) X(copy_2d) X(copy_3d) X(sync_context) X(sync_stream) X(sync_event) \
  X(query_stream) X(query_event) X(event_elapsed) X(module_load) X(module_unload) \
  X(module_get_function) X(module_get_global) X(library_load) X(library_unload) X(library_get) \
  X(kernel_get_function) X(stream_create) X(stream_destroy) X(mem_alloc_async) X(mem_free_async) \
  X(pool_get) X(pool_set) X(pool_destroy) X(pool_access) X(peer_access) X(copy_peer) X(capture_begin) X(capture_end) \
  X(graph_instantiate) X(graph_update) X(graph_set_node) X(graph_exec_destroy) X(graph_launch) \
  X(host_function) X(stream_callback) X(wait_value) X(write_value) X(batch_memory_ops) X(copy_batch) \
  X(prefetch) X(discard) X(legacy_shape) X(legacy_parameters) X(legacy_launch) X(enumerate_code) \
  X(get_module) X(array_create) X(array_level) X(array_destroy) X(object_create) X(object_destroy) X(copy_array) \
  X(graph_add_memory) X(graph_add_node) X(graph_describe) X(graph_edit) X(graph_destroy) \
  X(graph_memory_get) X(address_reserve) X(address_free) X(physical_create) X(physical_release) \
  X(physical_retain) X(physical_map) X(physical_unmap) X(map_tiles) X(driver_checkpoint) X(decompress) \
  X(log_register) X(log_dump) X(share_get) X(share_open) X(share_close) X(share_event)
// clang-format on
#define X(kind)                                    \
  template <class F, class... A>                   \
  auto kind(const Call<F>& call, A... arguments) { \
    note_handled(call.hook.id, #kind);             \
    return call.real(arguments...);                \
  }
GPUSNAP_KINDS(X)
#undef X
#undef GPUSNAP_KINDS

}  // namespace handle
}  // namespace gpusnap
