// Devices and what they say about themselves.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "tools/simcuda/driver/device_properties.h"
#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

constexpr int kFirstBus = 1;

// body(Driver&) for a device that exists.
template <class Body>
CUresult on_device(CUdevice device, Body&& body) {
  return in_driver([&](Driver& state) {
    if (!state.is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    return static_cast<CUresult>(body(state));
  });
}

}  // namespace

DeviceProperties device_properties(int arch) {
  DeviceProperties properties;
  properties.shared_per_block_optin = arch >= 90   ? 227 << 10
                                      : arch >= 86 ? 99 << 10
                                      : arch >= 80 ? 163 << 10
                                                   : 64 << 10;
  properties.shared_per_multiprocessor =
      properties.shared_per_block_optin + (arch >= 80 ? 1024 : 0);
  properties.threads_per_multiprocessor = arch == 75                 ? 1024
                                          : arch == 86 || arch == 89 ? 1536
                                                                     : 2048;
  properties.blocks_per_multiprocessor = arch == 75 ? 16 : arch == 86 ? 16 : arch == 89 ? 24 : 32;
  return properties;
}

namespace {

std::optional<int> attribute_of(const Driver& state, CUdevice_attribute attribute,
                                CUdevice device) {
  const DeviceProperties properties = device_properties(state.settings.arch);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return kMaxThreadsPerBlock;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return kMaxBlockZ;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return kMaxGridX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return kMaxGridYZ;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return kSharedPerBlock;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return properties.shared_per_block_optin;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return properties.shared_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return state.settings.arch >= 80 ? 1024 : 0;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return kMaxPitch;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1'000'000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 2'000'000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 256;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 4 << 20;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return kMultiprocessors;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return properties.threads_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return properties.blocks_per_multiprocessor;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return state.settings.arch / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return state.settings.arch % 10;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return kFirstBus + device;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 2;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
      return 2;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
      return device;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      return -1;
    case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK:
      return kDecompressAlgorithms;
    case CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH:
      return kMostToDecompress;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
      return 1;
    default:
      // Everything else that there is to ask about is a thing that this device does not have.
      if (attribute > 0 && attribute <= CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID + 15) return 0;
      return std::nullopt;
  }
}

}  // namespace
}  // namespace simcuda

using simcuda::Driver;
using simcuda::in_driver;
using simcuda::on_device;

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return in_driver([&](Driver& state) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!state.is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return in_driver([&](Driver& state) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = state.settings.devices;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int capacity, CUdevice device) {
  return on_device(device, [&](Driver&) {
    if (name == nullptr || capacity <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, static_cast<size_t>(capacity), "simcuda software GPU");
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return on_device(device, [&](Driver&) {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(uuid->bytes, "simcuda-device-\0", sizeof uuid->bytes);
    uuid->bytes[15] = static_cast<char>('0' + device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return cuDeviceGetUuid(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return on_device(device, [&](Driver& state) {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = state.memory.capacity(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return on_device(device, [&](Driver& state) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto found = simcuda::attribute_of(state, attribute, device);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    *value = *found;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  return on_device(device, [&](Driver& state) {
    if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *major = state.settings.arch / 10;
    *minor = state.settings.arch % 10;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* bus_id, int capacity, CUdevice device) {
  return on_device(device, [&](Driver&) {
    if (bus_id == nullptr || capacity <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(bus_id, static_cast<size_t>(capacity), "0000:%02X:00.0",
                  static_cast<unsigned>(simcuda::kFirstBus + device));
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* bus_id) {
  return in_driver([&](Driver& state) {
    if (device == nullptr || bus_id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned slot = 0;
    // [domain:]bus:device[.function]
    if (std::sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
      domain = 0;
      if (std::sscanf(bus_id, "%x:%x", &bus, &slot) != 2) return CUDA_ERROR_INVALID_VALUE;
    }
    int ordinal = static_cast<int>(bus) - simcuda::kFirstBus;
    if (domain != 0 || slot != 0 || !state.is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return on_device(device, [&](Driver& state) {
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!state.is_device(peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && state.settings.engines.links.has({device, peer}) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice source,
                                 CUdevice destination) {
  return on_device(source, [&](Driver& state) {
    if (value == nullptr || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attribute > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (!state.is_device(destination) || source == destination) return CUDA_ERROR_INVALID_DEVICE;
    const simcuda::Links& links = state.settings.engines.links;
    if (attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK) {
      *value = links.rank({source, destination});
    } else {
      const bool is_supported = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                                attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
      *value = is_supported && links.has({source, destination}) ? 1 : 0;
    }
    return CUDA_SUCCESS;
  });
}
