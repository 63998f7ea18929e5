// Memory: allocated, freed, registered, and asked about.

#include <array>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "tools/simcuda/driver/device_properties.h"
#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/node_work.h"

namespace simcuda {
namespace {

constexpr uint64_t kPitchAlign = 512;

// Pages are pinned one after the other, whoever asks.
void take_time_to_pin(uint64_t bytes, uint64_t rate) {
  if (rate == 0) return;
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::this_thread::sleep_for(
      std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(rate)));
}

constexpr unsigned bit(MemoryType type) {
  return 1u << static_cast<unsigned>(type);
}

CUresult allocate(Driver& state, Context& context, MemoryType type, uint64_t size, unsigned flags,
                  uint64_t* address) {
  if (CUresult bad = state.captures.check_unsafe(); bad != CUDA_SUCCESS) return bad;
  Allocation wanted;
  wanted.size = size;
  wanted.type = type;
  wanted.device = context.device();
  wanted.context = context.handle();
  wanted.flags = flags;
  bool pinned = type == MemoryType::kPinned;
  if (state.faults.strike(pinned ? FaultPoint::kPinned : FaultPoint::kAllocation)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUresult result = state.memory.allocate(std::move(wanted), address);
  if (result == CUDA_SUCCESS && !pinned) ++state.stats.allocations;
  return result;
}

CUresult allocate_device(CUdeviceptr* address, MemoryType type, size_t size, unsigned flags) {
  return in_context([&](Driver& state, Context& context) {
    uint64_t placed = 0;
    if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = allocate(state, context, type, size, flags, &placed);
    if (result == CUDA_SUCCESS) *address = placed;
    return result;
  });
}

CUresult allocate_pinned(void** memory, size_t size, unsigned flags) {
  return in_context([&](Driver& state, Context& context) {
    uint64_t placed = 0;
    if (memory == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = allocate(state, context, MemoryType::kPinned, size, flags, &placed);
    if (result == CUDA_SUCCESS) *memory = reinterpret_cast<void*>(placed);
    return result;
  });
}

// The error of the context that memory was made in; of memory that belongs to none, no error.
CUresult owner_error(const std::shared_ptr<Context>& owner) {
  return owner ? owner->error() : CUDA_SUCCESS;
}

// Frees go by the address: any context may be current, or none. They wait for all that is queued,
// as the driver's own do.
CUresult free_memory(uint64_t address, unsigned types, CUresult unknown) {
  return in_driver([&](Driver& state) {
    const auto owner = state.contexts.find(state.memory.context_of(address));
    if (CUresult error = owner_error(owner); error != CUDA_SUCCESS) return error;
    if (CUresult bad = state.captures.check_unsafe(); bad != CUDA_SUCCESS) return bad;
    if (auto freed = free_graph_memory(state, address, nullptr)) {
      state.wait_for_all();
      clean_up_graphs();
      return *freed == CUDA_SUCCESS ? owner_error(owner) : *freed;
    }
    if (state.memory.of_pool(address)) {
      state.wait_for_all();
      if (!state.pools.give_back_now(address)) return unknown;
      ++state.stats.frees;
      return owner_error(owner);
    }
    auto retired = state.memory.retire(address, types);
    if (!retired) return unknown;
    if (retired->type != MemoryType::kPinned && retired->type != MemoryType::kRegistered) {
      ++state.stats.frees;
    }
    std::vector<Allocation> all;
    all.push_back(std::move(*retired));
    state.release(all);
    return owner_error(owner);
  });
}

// A free of no memory.
CUresult free_nothing() {
  return in_driver([](Driver& state) {
    std::shared_ptr<Context> context;
    (void)state.current(&context);
    return owner_error(context);
  });
}

template <class T>
void put(void* place, T value) {
  std::memcpy(place, &value, sizeof value);  // NOLINT(bugprone-sizeof-expression): pointers too
}

// Stores one attribute of an allocation; false: there is no such attribute.
bool store_attribute(void* place, CUpointer_attribute attribute, const Allocation& found,
                     uint64_t address) {
  bool managed = found.type == MemoryType::kManaged;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      put(place, found.context);
      return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      put<unsigned>(place, found.on_host() && !managed ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      put<CUdeviceptr>(place, address);
      return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!found.on_host()) return false;
      put<uint64_t>(place, address);
      return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      put<int>(place, found.sync_operations ? 1 : 0);
      return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      put<unsigned long long>(place, found.id);
      return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      put<unsigned>(place, managed ? 1 : 0);
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      put<int>(place, found.device);
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      put<CUdeviceptr>(place, found.address);
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      put<size_t>(place, found.size);
      return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      put<int>(place, 1);
      return true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      put<unsigned>(place, found.writers != 0   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                           : found.readers != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                : CU_MEM_ACCESS_FLAGS_PROT_NONE);
      return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      put(place, found.pool);
      return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      put<unsigned long long>(place, 0);
      return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      put<int>(place,
               found.type == MemoryType::kDevice && found.pool == nullptr && !found.of_graph);
      return true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      put<int>(place, 0);
      return true;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      put<int>(place, can_decompress(found));
      return true;
    default:
      return false;
  }
}

// How many bytes an attribute takes: what is written for an address that nobody knows.
size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return 4;
    default:
      return 8;
  }
}

}  // namespace
}  // namespace simcuda

using simcuda::Allocation;
using simcuda::bit;
using simcuda::Context;
using simcuda::Driver;
using simcuda::in_context;
using simcuda::in_driver;
using simcuda::MemoryType;

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return in_context([&](Driver& state, Context& context) {
    if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *free = state.memory.available(context.device());
    *total = state.memory.capacity(context.device());
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t size) {
  return simcuda::allocate_device(address, MemoryType::kDevice, size, 0);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned element_size) {
  if (pitch == nullptr || width == 0 || height == 0 ||
      (element_size != 4 && element_size != 8 && element_size != 16)) {
    return in_context([](auto&, auto&) { return CUDA_ERROR_INVALID_VALUE; });
  }
  if (width > simcuda::kMaxPitch) return CUDA_ERROR_INVALID_VALUE;
  uint64_t rounded = simcuda::round_up(width, simcuda::kPitchAlign);
  if (height > UINT64_MAX / rounded) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = simcuda::allocate_device(address, MemoryType::kDevice, rounded * height, 0);
  if (result == CUDA_SUCCESS) *pitch = rounded;
  return result;
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t size, unsigned flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) {
    return in_context([](auto&, auto&) { return CUDA_ERROR_INVALID_VALUE; });
  }
  return simcuda::allocate_device(address, MemoryType::kManaged, size, flags);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  if (address == 0) return simcuda::free_nothing();
  return simcuda::free_memory(address, bit(MemoryType::kDevice) | bit(MemoryType::kManaged),
                              CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  return in_context([&](Driver& state, Context&) {
    auto hold = state.memory.hold();
    const Allocation* found = state.memory.find(hold, address);
    if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = found->address;
    if (size != nullptr) *size = found->size;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAllocHost_v2(void** memory, size_t size) {
  return simcuda::allocate_pinned(memory, size, CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult cuMemHostAlloc(void** memory, size_t size, unsigned flags) {
  return simcuda::allocate_pinned(memory, size, flags);
}

CUresult cuMemFreeHost(void* memory) {
  if (memory == nullptr) return simcuda::free_nothing();
  return simcuda::free_memory(reinterpret_cast<uint64_t>(memory), bit(MemoryType::kPinned),
                              CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemHostRegister_v2(void* memory, size_t size, unsigned flags) {
  return in_context([&](Driver& state, Context& context) {
    if (flags > 15) return CUDA_ERROR_INVALID_VALUE;
    if (state.faults.strike(simcuda::FaultPoint::kPinned)) return CUDA_ERROR_OUT_OF_MEMORY;
    Allocation wanted;
    wanted.address = reinterpret_cast<uint64_t>(memory);
    wanted.size = size;
    wanted.host = static_cast<std::byte*>(memory);
    wanted.type = MemoryType::kRegistered;
    wanted.device = context.device();
    wanted.context = context.handle();
    wanted.flags = flags;
    wanted.readers = UINT32_MAX;
    wanted.writers = (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0 ? 0 : UINT32_MAX;
    simcuda::take_time_to_pin(size, state.settings.engines.pinning);
    return state.memory.register_host(std::move(wanted));
  });
}

CUresult cuMemHostUnregister(void* memory) {
  if (memory == nullptr) return in_driver([](Driver&) { return CUDA_ERROR_INVALID_VALUE; });
  return simcuda::free_memory(reinterpret_cast<uint64_t>(memory), bit(MemoryType::kRegistered),
                              CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory, unsigned flags) {
  return in_context([&](Driver& state, Context&) {
    if (address == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    auto hold = state.memory.hold();
    const Allocation* found = state.memory.find(hold, reinterpret_cast<uint64_t>(memory));
    if (found == nullptr || !found->on_host()) return CUDA_ERROR_INVALID_VALUE;
    *address = reinterpret_cast<uint64_t>(memory);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetFlags(unsigned* flags, void* memory) {
  return in_context([&](Driver& state, Context&) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto hold = state.memory.hold();
    const Allocation* found = state.memory.find(hold, reinterpret_cast<uint64_t>(memory));
    if (found == nullptr || found->type != MemoryType::kPinned) return CUDA_ERROR_INVALID_VALUE;
    // With one address space all pinned memory is mapped, whether that was asked for or not.
    *flags = found->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return in_driver([&](Driver& state) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto hold = state.memory.hold();
    const Allocation* found = state.memory.find(hold, address);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return simcuda::store_attribute(value, attribute, *found, address) ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
  });
}

// Unlike the call for one attribute, this one tells zeros for an address that nobody knows.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  return in_driver([&](Driver& state) {
    if (count == 0 || attributes == nullptr || values == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto hold = state.memory.hold();
    const Allocation* found = state.memory.find(hold, address);
    for (unsigned i = 0; i < count; ++i) {
      if (values[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      if (found != nullptr && simcuda::store_attribute(values[i], attributes[i], *found, address)) {
        continue;
      }
      std::memset(values[i], 0, simcuda::attribute_bytes(attributes[i]));
      if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
        simcuda::put<int>(values[i], CU_DEVICE_INVALID);
      }
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  return in_driver([&](Driver& state) {
    if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto hold = state.memory.hold();
    Allocation* found = state.memory.find(hold, address);
    if (found == nullptr || found->type == MemoryType::kManaged) return CUDA_ERROR_INVALID_VALUE;
    unsigned wanted = 0;
    std::memcpy(&wanted, value, sizeof wanted);
    found->sync_operations = wanted != 0;
    return CUDA_SUCCESS;
  });
}
