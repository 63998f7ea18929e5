// The handlers of hooked calls, by the kind that hooks.table gives them. A handler gets the call
// and its arguments, and calls the real function when and as it must.
#pragma once

#include <unistd.h>

#include <string>

#include "interpose/hook.h"
#include "interpose/hooked_call.h"

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
  hooked.session().refuse(std::string(name_of(call.hook.id)) + " of the program itself");
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

// handlers_graph.cpp
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
  HostNodes hosts(hooked.session().driver(), hooked.session().host_callbacks());
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
CUresult graph_edit(const Call<decltype(cuGraphClone)>& call, CUgraph*, CUgraph);
CUresult graph_edit(const Call<decltype(cuGraphAddChildGraphNode)>& call, CUgraphNode*, CUgraph,
                    const CUgraphNode*, size_t, CUgraph);
CUresult graph_destroy(const Call<decltype(cuGraphDestroy)>& call, CUgraph);

// handlers_graph_memory.cpp
CUresult graph_add_memory(const Call<decltype(cuGraphAddMemAllocNode)>& call, CUgraphNode*, CUgraph,
                          const CUgraphNode*, size_t, CUDA_MEM_ALLOC_NODE_PARAMS*);
CUresult graph_add_memory(const Call<decltype(cuGraphAddMemFreeNode)>& call, CUgraphNode*, CUgraph,
                          const CUgraphNode*, size_t, CUdeviceptr);
CUresult graph_add_node(const Call<decltype(cuGraphAddNode)>& call, CUgraphNode*, CUgraph,
                        const CUgraphNode*, size_t, CUgraphNodeParams*);
CUresult graph_add_node(const Call<decltype(cuGraphAddNode_v2)>& call, CUgraphNode*, CUgraph,
                        const CUgraphNode*, const CUgraphEdgeData*, size_t, CUgraphNodeParams*);
CUresult graph_describe(const Call<decltype(cuGraphNodeGetType)>& call, CUgraphNode,
                        CUgraphNodeType*);
CUresult graph_describe(const Call<decltype(cuGraphMemAllocNodeGetParams)>& call, CUgraphNode,
                        CUDA_MEM_ALLOC_NODE_PARAMS*);
CUresult graph_describe(const Call<decltype(cuGraphMemFreeNodeGetParams)>& call, CUgraphNode,
                        CUdeviceptr*);
CUresult graph_memory_get(const Call<decltype(cuDeviceGetGraphMemAttribute)>& call, CUdevice,
                          CUgraphMem_attribute, void*);

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
  const ProgramWork work = hooked.session().work_to_wait_for(args...);
  const CUresult result = hooked.record_sync(true, [&] {
    // The driver tells what went wrong.
    return work.finish(hooked.session().driver()) ? CUDA_SUCCESS : call.real(args...);
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

// handlers_context.cpp
CUresult context(const Call<CUresult(CUcontext*, CUdevice)>& call, CUcontext*, CUdevice);
CUresult context(const Call<CUresult(CUdevice)>& call, CUdevice);
CUresult context(const Call<CUresult(CUcontext)>& call, CUcontext);
template <class... A>
CUresult context(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  (hooked.check(args), ...);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(args...); });
  hooked.session().note_context();
  return result;
}
CUresult stream_create(const Call<CUresult(CUstream*, unsigned)>& call, CUstream*, unsigned);
CUresult stream_create(const Call<CUresult(CUstream*, unsigned, int)>& call, CUstream*, unsigned,
                       int);
CUresult stream_destroy(const Call<CUresult(CUstream)>& call, CUstream);
CUresult event_elapsed(const Call<CUresult(float*, CUevent, CUevent)>& call, float*, CUevent,
                       CUevent);

// handlers_code.cpp
CUresult module_load(const Call<CUresult(CUmodule*, const char*)>& call, CUmodule*, const char*);
CUresult module_load(const Call<CUresult(CUmodule*, const void*)>& call, CUmodule*, const void*);
CUresult module_load(
    const Call<CUresult(CUmodule*, const void*, unsigned, CUjit_option*, void**)>& call, CUmodule*,
    const void*, unsigned, CUjit_option*, void**);
CUresult module_unload(const Call<CUresult(CUmodule)>& call, CUmodule);
CUresult module_get_function(const Call<CUresult(CUfunction*, CUmodule, const char*)>& call,
                             CUfunction*, CUmodule, const char*);
CUresult module_get_global(const Call<CUresult(CUdeviceptr*, size_t*, CUmodule, const char*)>& call,
                           CUdeviceptr*, size_t*, CUmodule, const char*);
CUresult library_load(const Call<CUresult(CUlibrary*, const void*, CUjit_option*, void**, unsigned,
                                          CUlibraryOption*, void**, unsigned)>& call,
                      CUlibrary*, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*,
                      void**, unsigned);
CUresult library_load(const Call<CUresult(CUlibrary*, const char*, CUjit_option*, void**, unsigned,
                                          CUlibraryOption*, void**, unsigned)>& call,
                      CUlibrary*, const char*, CUjit_option*, void**, unsigned, CUlibraryOption*,
                      void**, unsigned);
CUresult library_unload(const Call<CUresult(CUlibrary)>& call, CUlibrary);
CUresult library_get(const Call<CUresult(CUkernel*, CUlibrary, const char*)>& call, CUkernel*,
                     CUlibrary, const char*);
CUresult library_get(const Call<CUresult(CUmodule*, CUlibrary)>& call, CUmodule*, CUlibrary);
CUresult library_get(const Call<decltype(cuLibraryGetUnifiedFunction)>& call, void**, CUlibrary,
                     const char*);
CUresult library_get(const Call<CUresult(CUdeviceptr*, size_t*, CUlibrary, const char*)>& call,
                     CUdeviceptr*, size_t*, CUlibrary, const char*);
CUresult kernel_get_function(const Call<CUresult(CUfunction*, CUkernel)>& call, CUfunction*,
                             CUkernel);
CUresult launch(const Call<decltype(cuLaunchKernel)>& call, CUfunction, unsigned, unsigned,
                unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**);
CUresult launch(const Call<decltype(cuLaunchKernelEx)>& call, const CUlaunchConfig*, CUfunction,
                void**, void**);
CUresult launch(const Call<decltype(cuLaunchCooperativeKernel)>& call, CUfunction, unsigned,
                unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**);

CUresult enumerate_code(const Call<decltype(cuModuleEnumerateFunctions)>& call, CUfunction*,
                        unsigned, CUmodule);
CUresult enumerate_code(const Call<decltype(cuLibraryEnumerateKernels)>& call, CUkernel*, unsigned,
                        CUlibrary);
CUresult get_module(const Call<CUresult(CUmodule*, CUfunction)>& call, CUmodule*, CUfunction);

// legacy.cpp
CUresult legacy_shape(const Call<decltype(cuFuncSetBlockShape)>& call, CUfunction, int, int, int);
CUresult legacy_shape(const Call<decltype(cuFuncSetSharedSize)>& call, CUfunction, unsigned);
CUresult legacy_parameters(const Call<decltype(cuParamSetSize)>& call, CUfunction, unsigned);
CUresult legacy_parameters(const Call<decltype(cuParamSeti)>& call, CUfunction, int, unsigned);
CUresult legacy_parameters(const Call<decltype(cuParamSetf)>& call, CUfunction, int, float);
CUresult legacy_parameters(const Call<decltype(cuParamSetv)>& call, CUfunction, int, void*,
                           unsigned);
CUresult legacy_launch(const Call<CUresult(CUfunction)>& call, CUfunction);
CUresult legacy_launch(const Call<CUresult(CUfunction, int, int)>& call, CUfunction, int, int);
CUresult legacy_launch(const Call<CUresult(CUfunction, int, int, CUstream)>& call, CUfunction, int,
                       int, CUstream);

// handlers_memory.cpp
CUresult mem_alloc(const Call<CUresult(CUdeviceptr*, size_t)>& call, CUdeviceptr*, size_t);
CUresult mem_alloc_pitch(
    const Call<CUresult(CUdeviceptr*, size_t*, size_t, size_t, unsigned)>& call, CUdeviceptr*,
    size_t*, size_t, size_t, unsigned);
CUresult mem_alloc_managed(const Call<CUresult(CUdeviceptr*, size_t, unsigned)>& call, CUdeviceptr*,
                           size_t, unsigned);
CUresult mem_free(const Call<CUresult(CUdeviceptr)>& call, CUdeviceptr);
CUresult mem_get_info(const Call<CUresult(size_t*, size_t*)>& call, size_t*, size_t*);
CUresult mem_get_range(const Call<CUresult(CUdeviceptr*, size_t*, CUdeviceptr)>& call, CUdeviceptr*,
                       size_t*, CUdeviceptr);
CUresult host_alloc(const Call<CUresult(void**, size_t)>& call, void**, size_t);
CUresult host_alloc(const Call<CUresult(void**, size_t, unsigned)>& call, void**, size_t, unsigned);
CUresult host_free(const Call<CUresult(void*)>& call, void*);
CUresult host_register(const Call<CUresult(void*, size_t, unsigned)>& call, void*, size_t,
                       unsigned);
CUresult host_unregister(const Call<CUresult(void*)>& call, void*);
CUresult host_pointer(const Call<CUresult(CUdeviceptr*, void*, unsigned)>& call, CUdeviceptr*,
                      void*, unsigned);

// handlers/pointer.cpp
CUresult pointer_get(const Call<decltype(cuPointerGetAttribute)>& call, void*, CUpointer_attribute,
                     CUdeviceptr);
CUresult pointer_get(const Call<decltype(cuPointerGetAttributes)>& call, unsigned,
                     CUpointer_attribute*, void**, CUdeviceptr);
CUresult pointer_set(const Call<decltype(cuPointerSetAttribute)>& call, const void*,
                     CUpointer_attribute, CUdeviceptr);

// handlers_copy.cpp
CUresult copy_in(const Call<CUresult(CUdeviceptr, const void*, size_t)>& call, CUdeviceptr,
                 const void*, size_t);
CUresult copy_in(const Call<CUresult(CUdeviceptr, const void*, size_t, CUstream)>& call,
                 CUdeviceptr, const void*, size_t, CUstream);
CUresult copy_back(const Call<CUresult(void*, CUdeviceptr, size_t)>& call, void*, CUdeviceptr,
                   size_t);
CUresult copy_back(const Call<CUresult(void*, CUdeviceptr, size_t, CUstream)>& call, void*,
                   CUdeviceptr, size_t, CUstream);
CUresult copy_on(const Call<CUresult(CUdeviceptr, CUdeviceptr, size_t)>& call, CUdeviceptr,
                 CUdeviceptr, size_t);
CUresult copy_on(const Call<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)>& call,
                 CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult copy_any(const Call<CUresult(CUdeviceptr, CUdeviceptr, size_t)>& call, CUdeviceptr,
                  CUdeviceptr, size_t);
CUresult copy_any(const Call<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)>& call,
                  CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult copy_2d(const Call<CUresult(const CUDA_MEMCPY2D*)>& call, const CUDA_MEMCPY2D*);
CUresult copy_2d(const Call<CUresult(const CUDA_MEMCPY2D*, CUstream)>& call, const CUDA_MEMCPY2D*,
                 CUstream);
CUresult copy_3d(const Call<CUresult(const CUDA_MEMCPY3D*)>& call, const CUDA_MEMCPY3D*);
CUresult copy_3d(const Call<CUresult(const CUDA_MEMCPY3D*, CUstream)>& call, const CUDA_MEMCPY3D*,
                 CUstream);

CUresult copy_3d(const Call<CUresult(const CUDA_MEMCPY3D_PEER*)>& call, const CUDA_MEMCPY3D_PEER*);
CUresult copy_3d(const Call<CUresult(const CUDA_MEMCPY3D_PEER*, CUstream)>& call,
                 const CUDA_MEMCPY3D_PEER*, CUstream);
CUresult copy_peer(
    const Call<CUresult(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t)>& call, CUdeviceptr,
    CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult copy_peer(
    const Call<CUresult(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)>& call,
    CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);

// batch.cpp
CUresult copy_batch(const Call<decltype(cuMemcpyBatchAsync)>& call, CUdeviceptr*, CUdeviceptr*,
                    size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t, size_t*, CUstream);
CUresult copy_batch(const Call<decltype(cuMemcpyBatchAsync_v2)>& call, CUdeviceptr*, CUdeviceptr*,
                    size_t*, size_t, CUmemcpyAttributes*, size_t*, size_t, CUstream);
CUresult copy_batch(const Call<decltype(cuMemcpy3DBatchAsync)>& call, size_t,
                    CUDA_MEMCPY3D_BATCH_OP*, size_t*, unsigned long long, CUstream);
CUresult copy_batch(const Call<decltype(cuMemcpy3DBatchAsync_v2)>& call, size_t,
                    CUDA_MEMCPY3D_BATCH_OP*, unsigned long long, CUstream);
CUresult decompress(const Call<decltype(cuMemBatchDecompressAsync)>& call, CUmemDecompressParams*,
                    size_t, unsigned, size_t*, CUstream);

// logs.cpp
CUresult log_register(const Call<decltype(cuLogsRegisterCallback)>& call, CUlogsCallback, void*,
                      CUlogsCallbackHandle*);
CUresult log_dump(const Call<decltype(cuLogsDumpToMemory)>& call, CUlogIterator*, char*, size_t*,
                  unsigned);

// managed.cpp
CUresult prefetch(const Call<decltype(cuMemPrefetchAsync)>& call, CUdeviceptr, size_t, CUdevice,
                  CUstream);
CUresult prefetch(const Call<decltype(cuMemPrefetchAsync_v2)>& call, CUdeviceptr, size_t,
                  CUmemLocation, unsigned, CUstream);
CUresult prefetch(const Call<decltype(cuMemPrefetchBatchAsync)>& call, CUdeviceptr*, size_t*,
                  size_t, CUmemLocation*, size_t*, size_t, unsigned long long, CUstream);
CUresult discard(const Call<decltype(cuMemDiscardBatchAsync)>& call, CUdeviceptr*, size_t*, size_t,
                 unsigned long long, CUstream);
CUresult discard(const Call<decltype(cuMemDiscardAndPrefetchBatchAsync)>& call, CUdeviceptr*,
                 size_t*, size_t, CUmemLocation*, size_t*, size_t, unsigned long long, CUstream);
// handlers/array.cpp
CUresult array_create(const Call<decltype(cuArrayCreate_v2)>& call, CUarray*,
                      const CUDA_ARRAY_DESCRIPTOR*);
CUresult array_create(const Call<decltype(cuArray3DCreate_v2)>& call, CUarray*,
                      const CUDA_ARRAY3D_DESCRIPTOR*);
CUresult array_create(const Call<decltype(cuMipmappedArrayCreate)>& call, CUmipmappedArray*,
                      const CUDA_ARRAY3D_DESCRIPTOR*, unsigned);
CUresult array_level(const Call<decltype(cuMipmappedArrayGetLevel)>& call, CUarray*,
                     CUmipmappedArray, unsigned);
CUresult array_destroy(const Call<CUresult(CUarray)>& call, CUarray);
CUresult array_destroy(const Call<CUresult(CUmipmappedArray)>& call, CUmipmappedArray);
CUresult object_create(const Call<decltype(cuTexObjectCreate)>& call, CUtexObject*,
                       const CUDA_RESOURCE_DESC*, const CUDA_TEXTURE_DESC*,
                       const CUDA_RESOURCE_VIEW_DESC*);
CUresult object_create(const Call<decltype(cuSurfObjectCreate)>& call, CUsurfObject*,
                       const CUDA_RESOURCE_DESC*);
// Surfaces likewise: their handles are of the same type.
CUresult object_destroy(const Call<decltype(cuTexObjectDestroy)>& call, unsigned long long);
CUresult copy_array(const Call<decltype(cuMemcpyDtoA_v2)>& call, CUarray, size_t, CUdeviceptr,
                    size_t);
CUresult copy_array(const Call<decltype(cuMemcpyAtoD_v2)>& call, CUdeviceptr, CUarray, size_t,
                    size_t);
CUresult copy_array(const Call<decltype(cuMemcpyHtoA_v2)>& call, CUarray, size_t, const void*,
                    size_t);
CUresult copy_array(const Call<decltype(cuMemcpyAtoH_v2)>& call, void*, CUarray, size_t, size_t);
CUresult copy_array(const Call<decltype(cuMemcpyAtoA_v2)>& call, CUarray, size_t, CUarray, size_t,
                    size_t);
CUresult copy_array(const Call<decltype(cuMemcpyHtoAAsync_v2)>& call, CUarray, size_t, const void*,
                    size_t, CUstream);
CUresult copy_array(const Call<decltype(cuMemcpyAtoHAsync_v2)>& call, void*, CUarray, size_t,
                    size_t, CUstream);

// handlers_pool.cpp
CUresult mem_alloc_async(const Call<CUresult(CUdeviceptr*, size_t, CUstream)>& call, CUdeviceptr*,
                         size_t, CUstream);
CUresult mem_alloc_async(const Call<CUresult(CUdeviceptr*, size_t, CUmemoryPool, CUstream)>& call,
                         CUdeviceptr*, size_t, CUmemoryPool, CUstream);
CUresult mem_free_async(const Call<CUresult(CUdeviceptr, CUstream)>& call, CUdeviceptr, CUstream);
CUresult pool_set(const Call<CUresult(CUmemoryPool, CUmemPool_attribute, void*)>& call,
                  CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
CUresult pool_destroy(const Call<CUresult(CUmemoryPool)>& call, CUmemoryPool pool);
CUresult pool_get(const Call<CUresult(CUmemoryPool, CUmemPool_attribute, void*)>& call,
                  CUmemoryPool, CUmemPool_attribute, void*);

CUresult pool_access(const Call<CUresult(CUmemoryPool, const CUmemAccessDesc*, size_t)>& call,
                     CUmemoryPool, const CUmemAccessDesc*, size_t);

// handlers_virtual_memory.cpp
CUresult address_reserve(const Call<decltype(cuMemAddressReserve)>& call, CUdeviceptr*, size_t,
                         size_t, CUdeviceptr, unsigned long long);
CUresult address_free(const Call<decltype(cuMemAddressFree)>& call, CUdeviceptr, size_t);
CUresult physical_create(const Call<decltype(cuMemCreate)>& call, CUmemGenericAllocationHandle*,
                         size_t, const CUmemAllocationProp*, unsigned long long);
CUresult physical_release(const Call<decltype(cuMemRelease)>& call, CUmemGenericAllocationHandle);
CUresult physical_retain(const Call<decltype(cuMemRetainAllocationHandle)>& call,
                         CUmemGenericAllocationHandle*, void*);
CUresult physical_map(const Call<decltype(cuMemMap)>& call, CUdeviceptr, size_t, size_t,
                      CUmemGenericAllocationHandle, unsigned long long);
CUresult physical_unmap(const Call<decltype(cuMemUnmap)>& call, CUdeviceptr, size_t);

// sharing.cpp
inline constexpr const char* kOutsideOfJob = "outside of an MPI job";
CUresult share_get(const Call<decltype(cuIpcGetMemHandle)>& call, CUipcMemHandle*, CUdeviceptr);
CUresult share_open(const Call<CUresult(CUdeviceptr*, CUipcMemHandle, unsigned)>& call,
                    CUdeviceptr*, CUipcMemHandle, unsigned);
CUresult share_close(const Call<decltype(cuIpcCloseMemHandle)>& call, CUdeviceptr);
// Their handles are the driver's own: what is shared is an order, and a cut finds all of it passed.
template <class... A>
CUresult share_event(const Call<CUresult(A...)>& call, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  const auto real = [&] { return call.real(args...); };
  if (hooked.session().may_share()) return hooked.record_or_repeat(real);
  return hooked.record_or_refuse(std::string(name_of(call.hook.id)) + " " + kOutsideOfJob, real);
}

// handlers/sparse.cpp
CUresult map_tiles(const Call<decltype(cuMemMapArrayAsync)>& call, CUarrayMapInfo*, unsigned,
                   CUstream);

// handlers_context.cpp
CUresult peer_access(const Call<CUresult(CUcontext, unsigned)>& call, CUcontext, unsigned);

// handlers_callback.cpp
CUresult host_function(const Call<CUresult(CUstream, CUhostFn, void*)>& call, CUstream, CUhostFn,
                       void*);
CUresult stream_callback(const Call<decltype(cuStreamAddCallback)>& call, CUstream,
                         CUstreamCallback, void*, unsigned);

// stream_memory.cpp
CUresult wait_value(const Call<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned)>& call,
                    CUstream, CUdeviceptr, cuuint32_t, unsigned);
CUresult wait_value(const Call<CUresult(CUstream, CUdeviceptr, cuuint64_t, unsigned)>& call,
                    CUstream, CUdeviceptr, cuuint64_t, unsigned);
CUresult write_value(const Call<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned)>& call,
                     CUstream, CUdeviceptr, cuuint32_t, unsigned);
CUresult write_value(const Call<CUresult(CUstream, CUdeviceptr, cuuint64_t, unsigned)>& call,
                     CUstream, CUdeviceptr, cuuint64_t, unsigned);
CUresult batch_memory_ops(const Call<decltype(cuStreamBatchMemOp_v2)>& call, CUstream, unsigned,
                          CUstreamBatchMemOpParams*, unsigned);

// handlers_graph.cpp
CUresult capture_end(const Call<CUresult(CUstream, CUgraph*)>& call, CUstream, CUgraph*);
CUresult graph_update(const Call<decltype(cuGraphExecUpdate)>& call, CUgraphExec, CUgraph,
                      CUgraphNode*, CUgraphExecUpdateResult*);
CUresult graph_update(const Call<decltype(cuGraphExecUpdate_v2)>& call, CUgraphExec, CUgraph,
                      CUgraphExecUpdateResultInfo*);
CUresult graph_set_node(const Call<decltype(cuGraphExecKernelNodeSetParams)>& call, CUgraphExec,
                        CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*);
CUresult graph_set_node(const Call<decltype(cuGraphExecKernelNodeSetParams_v2)>& call, CUgraphExec,
                        CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v2*);
CUresult graph_set_node(const Call<decltype(cuGraphExecMemcpyNodeSetParams)>& call, CUgraphExec,
                        CUgraphNode, const CUDA_MEMCPY3D*, CUcontext);
CUresult graph_set_node(const Call<decltype(cuGraphExecBatchMemOpNodeSetParams)>& call, CUgraphExec,
                        CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1*);
CUresult graph_set_node(const Call<decltype(cuGraphExecMemsetNodeSetParams)>& call, CUgraphExec,
                        CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*, CUcontext);
CUresult graph_set_node(const Call<decltype(cuGraphExecEventRecordNodeSetEvent)>& call, CUgraphExec,
                        CUgraphNode, CUevent);
CUresult graph_set_node(const Call<decltype(cuGraphExecChildGraphNodeSetParams)>& call, CUgraphExec,
                        CUgraphNode, CUgraph);
CUresult graph_set_node(const Call<decltype(cuGraphExecHostNodeSetParams)>& call, CUgraphExec,
                        CUgraphNode, const CUDA_HOST_NODE_PARAMS*);
CUresult graph_set_node(const Call<decltype(cuGraphExecNodeSetParams)>& call, CUgraphExec,
                        CUgraphNode, CUgraphNodeParams*);
CUresult graph_set_node(const Call<decltype(cuGraphNodeSetEnabled)>& call, CUgraphExec, CUgraphNode,
                        unsigned);
CUresult graph_exec_destroy(const Call<CUresult(CUgraphExec)>& call, CUgraphExec);
CUresult graph_launch(const Call<CUresult(CUgraphExec, CUstream)>& call, CUgraphExec, CUstream);

}  // namespace gpusnap::handle
