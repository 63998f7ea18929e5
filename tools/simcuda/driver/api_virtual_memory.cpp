// Virtual memory management: addresses, physical memory, and what maps one to the other.

#include "tools/simcuda/driver/driver.h"

using simcuda::Allocation;
using simcuda::Context;
using simcuda::Driver;
using simcuda::in_driver;
using simcuda::MemoryType;

namespace {

CUresult check_properties(const Driver& state, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!state.is_device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  return in_driver([&](Driver& state) {
    if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    uint64_t reserved = 0;
    CUresult result = state.memory.reserve(size, alignment, hint, &reserved);
    if (result == CUDA_SUCCESS) *address = reserved;
    return result;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  return in_driver([&](Driver& state) { return state.memory.unreserve(address, size); });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  return in_driver([&](Driver& state) {
    if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult bad = check_properties(state, properties); bad != CUDA_SUCCESS) return bad;
    const bool shareable =
        properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE && !shareable) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    const unsigned usage = properties->allocFlags.usage;
    constexpr unsigned kKnown = CU_MEM_CREATE_USAGE_TILE_POOL | CU_MEM_CREATE_USAGE_HW_DECOMPRESS;
    if ((usage & ~kKnown) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    if (state.faults.strike(simcuda::FaultPoint::kAllocation)) return CUDA_ERROR_OUT_OF_MEMORY;
    return state.memory.create(properties->location.id, size, usage, shareable, handle);
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return in_driver([&](Driver& state) { return state.memory.drop(handle); });
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return in_driver([&](Driver& state) {
    if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const auto& stack = simcuda::context_stack();
    return state.memory.map(address, size, handle, stack.empty() ? nullptr : stack.back());
  });
}

// Waits for what is queued, so that no copy or kernel finds its memory gone under it.
CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  return in_driver([&](Driver& state) {
    std::vector<Allocation> retired;
    CUresult result = state.memory.retire_mappings(address, size, &retired);
    state.release(retired);
    return result;
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* accesses,
                        size_t count) {
  return in_driver([&](Driver& state) {
    if (accesses == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      const CUmemAccessDesc& access = accesses[i];
      if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
      if (!state.is_device(access.location.id)) return CUDA_ERROR_INVALID_DEVICE;
      CUresult result = state.memory.set_access(address, size, access.location.id,
                                                access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE,
                                                access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  return in_driver([&](Driver& state) {
    if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !state.is_device(location->id)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto hold = state.memory.hold();
    const Allocation* found = state.memory.find(hold, address);
    if (found == nullptr || found->type != MemoryType::kMapped) return CUDA_ERROR_INVALID_VALUE;
    uint32_t bit = 1u << location->id;
    *flags = (found->writers & bit) != 0   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : (found->readers & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option) {
  return in_driver([&](Driver& state) {
    if (granularity == nullptr || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (CUresult bad = check_properties(state, properties); bad != CUDA_SUCCESS) return bad;
    *granularity = simcuda::kGranule;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  return in_driver([&](Driver& state) {
    if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
    int device = 0;
    unsigned usage = 0;
    bool shareable = false;
    CUresult result = state.memory.describe(handle, &device, &usage, &shareable);
    if (result != CUDA_SUCCESS) return result;
    *properties = {};
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    properties->allocFlags.usage = static_cast<unsigned short>(usage);
    if (shareable) properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return in_driver([&](Driver& state) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return state.memory.retain(reinterpret_cast<uint64_t>(address), handle);
  });
}
