// Stream-ordered allocation and its pools.

#include <utility>
#include <vector>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/node_work.h"

namespace simcuda {
namespace {

// body(Driver&, const std::shared_ptr<Pool>&)
template <class Body>
CUresult with_pool(CUmemoryPool handle, Body&& body) {
  return in_driver([&](Driver& state) {
    auto pool = state.pools.find(handle);
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    return static_cast<CUresult>(body(state, pool));
  });
}

// body(Driver&) for a device that exists.
template <class Body>
CUresult on_device(CUdevice device, Body&& body) {
  return in_driver([&](Driver& state) {
    if (!state.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    return static_cast<CUresult>(body(state));
  });
}

CUresult allocate_from(Driver& state, Pool& pool, Stream& stream, size_t size,
                       CUdeviceptr* address) {
  uint64_t placed = 0;
  if (state.faults.strike(FaultPoint::kAllocation)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = state.pools.allocate(pool, stream, size, &placed);
  if (result != CUDA_SUCCESS) return result;
  ++state.stats.allocations;
  *address = placed;
  return CUDA_SUCCESS;
}

// In a capture it is a node of the graph, whose memory comes from no pool.
CUresult describe_alloc(Driver& state, const Pool& pool, const Stream& stream, size_t size,
                        CUdeviceptr* address, Work* work) {
  std::vector<CUmemAccessDesc> accesses;
  for (int device = 0; device < state.settings.devices; ++device) {
    const CUmemAccess_flags flags =
        (pool.writers >> device & 1u) != 0   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        : (pool.readers >> device & 1u) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                             : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
    accesses.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags});
  }
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, pool.device};
  params.accessDescs = accesses.data();
  params.accessDescCount = accesses.size();
  params.bytesize = size;
  CUresult result = alloc_work(state, state.captures.graph_of(stream), &params, work);
  if (result == CUDA_SUCCESS) *address = params.dptr;
  return result;
}

bool is_pool_place(const CUmemLocation* location, CUmemAllocationType type) {
  return location != nullptr && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
         type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

// pool_of(Driver&, Context&): where from; null: no such pool.
template <class PoolOf>
CUresult take_memory(CUstream handle, size_t size, CUdeviceptr* address, PoolOf&& pool_of) {
  auto describe = [&](Driver& state, Context& context, const Stream& stream, Work* work) {
    const auto pool = pool_of(state, context);
    if (address == nullptr || !pool) return CUDA_ERROR_INVALID_VALUE;
    return describe_alloc(state, *pool, stream, size, address, work);
  };
  return queue_or_capture(handle, describe, [&](Driver& state, Context& context, Stream& stream) {
    const auto pool = pool_of(state, context);
    if (address == nullptr || !pool) return CUDA_ERROR_INVALID_VALUE;
    return allocate_from(state, *pool, stream, size, address);
  });
}

}  // namespace
}  // namespace simcuda

using simcuda::Context;
using simcuda::Driver;
using simcuda::in_driver;
using simcuda::on_device;
using simcuda::Stream;
using simcuda::with_pool;
using simcuda::Work;

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream handle) {
  return simcuda::take_memory(handle, size, address, [](Driver& state, Context& context) {
    return state.pools.current(context.device());
  });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t size, CUmemoryPool handle,
                                 CUstream stream_handle) {
  return simcuda::take_memory(stream_handle, size, address,
                              [&](Driver& state, Context&) { return state.pools.find(handle); });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  auto describe = [&](Driver& state, Context&, const Stream& stream, Work* work) {
    return simcuda::free_work(state, state.captures.graph_of(stream), address, work);
  };
  return simcuda::queue_or_capture(handle, describe, [&](Driver& state, Context&, Stream& stream) {
    if (address == 0) return CUDA_SUCCESS;
    if (auto freed = simcuda::free_graph_memory(state, address, &stream)) return *freed;
    CUresult result = state.pools.give_back(address, stream);
    if (result == CUDA_SUCCESS) ++state.stats.frees;
    return result;
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  return in_driver([&](Driver& state) {
    if (pool == nullptr || properties == nullptr ||
        !simcuda::is_pool_place(&properties->location, properties->allocType)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (!state.is_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
      return CUDA_ERROR_NOT_SUPPORTED;  // nothing is shared with other processes
    }
    const unsigned usage = properties->usage;
    if ((usage & ~unsigned{CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS}) != 0) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    const auto made = state.pools.create(properties->location.id, properties->maxSize, usage);
    *pool = made->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return in_driver([&](Driver& state) { return state.pools.destroy(pool); });
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  return with_pool(handle, [&](Driver& state, const auto& pool) {
    state.pools.trim(*pool, keep);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return with_pool(handle, [&](Driver& state, const auto& pool) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return state.pools.set_attribute(*pool, attribute, value);
  });
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  return with_pool(handle, [&](Driver& state, const auto& pool) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return state.pools.get_attribute(*pool, attribute, value);
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* accesses, size_t count) {
  return with_pool(handle, [&](Driver& state, const auto& pool) {
    if (accesses == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      const CUmemAccessDesc& access = accesses[i];
      if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
      if (!state.is_device(access.location.id)) return CUDA_ERROR_INVALID_DEVICE;
      const bool read = access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      // A pool's own device always has access.
      if (!read && access.location.id == pool->device) return CUDA_ERROR_INVALID_VALUE;
      state.pools.set_access(*pool, access.location.id, read,
                             access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                            CUmemLocation* location) {
  return with_pool(handle, [&](Driver& state, const auto& pool) {
    if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !state.is_device(location->id)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = state.pools.access(*pool, location->id);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
  return on_device(device, [&](Driver& state) {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool = state.pools.default_of(device)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return on_device(device, [&](Driver& state) {
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pool = state.pools.current(device)->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  return on_device(device, [&](Driver& state) {
    auto pool = state.pools.find(handle);
    if (!pool || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
    state.pools.set_current(device, std::move(pool));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                CUmemAllocationType type) {
  if (!simcuda::is_pool_place(location, type)) return CUDA_ERROR_INVALID_VALUE;
  return cuDeviceGetDefaultMemPool(pool, location->id);
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  if (!simcuda::is_pool_place(location, type)) return CUDA_ERROR_INVALID_VALUE;
  return cuDeviceGetMemPool(pool, location->id);
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  if (!simcuda::is_pool_place(location, type)) return CUDA_ERROR_INVALID_VALUE;
  return cuDeviceSetMemPool(location->id, pool);
}
