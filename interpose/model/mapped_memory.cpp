#include "interpose/model/mapped_memory.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "interpose/services/text.h"

namespace gpusnap {

namespace {
// Usage of memory in the place of the program's own: the program may decompress into it.
unsigned short usage_of_own(const Driver& driver, int device) {
  int algorithms = 0;
  const CUresult asked = driver.cuDeviceGetAttribute(
      &algorithms, CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, device);
  return asked == CUDA_SUCCESS && algorithms != 0 ? CU_MEM_CREATE_USAGE_HW_DECOMPRESS : 0;
}

CUmemAllocationProp device_memory(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

// Into the reserved range.
CUresult map_physical(const Driver& driver, const MappedMemory& memory) {
  CUresult result = driver.cuMemMap(memory.address, memory.size, 0, memory.handle, 0);
  if (result != CUDA_SUCCESS) return result;
  result = allow_device(driver, memory, memory.device);
  if (result != CUDA_SUCCESS) (void)driver.cuMemUnmap(memory.address, memory.size);
  return result;
}

// Physical memory for the reserved range.
CUresult back(const Driver& driver, MappedMemory& memory, const CUmemAllocationProp& properties) {
  CUresult result = driver.cuMemCreate(&memory.handle, memory.size, &properties, 0);
  if (result != CUDA_SUCCESS) return result;
  result = map_physical(driver, memory);
  if (result != CUDA_SUCCESS) (void)driver.cuMemRelease(memory.handle);
  return result;
}

CUresult back(const Driver& driver, MappedMemory& memory, unsigned short usage,
              bool shareable = false) {
  CUmemAllocationProp properties = device_memory(memory.device);
  properties.allocFlags.usage = usage;
  if (shareable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const CUresult result = back(driver, memory, properties);
  // Sharing it may never be asked for.
  const bool is_refused = result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY;
  return shareable && is_refused ? back(driver, memory, usage) : result;
}

// Where neither a kernel nor a driver maps anything by itself, nor we host memory.
constexpr CUdeviceptr kFar = 0x5000'0000'0000;
// Far above what a driver gives by itself, which for most programs is less than this.
constexpr uint64_t kFurther = uint64_t{1} << 40;
// Drivers give such an address where both it and the size are multiples of this (seen with driver
// 580); less they take from what they have at hand.
constexpr uint64_t kAddressBlock = 32 << 20;

uint64_t whole_blocks(uint64_t size) {
  return (size + kAddressBlock - 1) / kAddressBlock * kAddressBlock;
}

// The first address that is ours: kFar, for a driver that gives it, else beyond what it gives by
// itself. 0: no idea.
CUdeviceptr first_of_ours(const Driver& driver) {
  CUdeviceptr given = 0;
  if (driver.cuMemAddressReserve(&given, kAddressBlock, 0, kFar, 0) != CUDA_SUCCESS) return 0;
  (void)driver.cuMemAddressFree(given, kAddressBlock);
  return given == kFar ? kFar : given + kFurther;
}

// Reserves at least `size` bytes at an address that no call of the program is given unless it asks
// for it, different each time; elsewhere if there is no other way. Our memory must not lie where
// a recording had memory of the program's: with several threads ours is made a moment earlier or
// later in a replay. `addresses`: how many.
CUresult reserve_out_of_the_way(const Driver& driver, CUdeviceptr& address, uint64_t size,
                                uint64_t& addresses) {
  static std::atomic<CUdeviceptr> next{0};  // the address space is one for the process
  addresses = whole_blocks(size);
  if (next == 0) {
    CUdeviceptr none = 0;
    (void)next.compare_exchange_strong(none, first_of_ours(driver));
  }
  const CUdeviceptr hint = next == 0 ? 0 : next.fetch_add(addresses);
  const CUresult result = driver.cuMemAddressReserve(&address, addresses, 0, hint, 0);
  if (result == CUDA_SUCCESS) return result;
  return driver.cuMemAddressReserve(&address, addresses, 0, 0, 0);
}

void give_back_addresses(const Driver& driver, const MappedMemory& memory) {
  (void)driver.cuMemAddressFree(memory.address,
                                memory.addresses == 0 ? memory.size : memory.addresses);
}

// At `address` or, where that is 0, out of the way.
Status reserve_at(const Driver& driver, MappedMemory& memory, uint64_t address) {
  const std::string range = address == 0 ? std::to_string(memory.size) + " bytes"
                                         : "device memory " + range_text(address, memory.size);
  memory.addresses = memory.size;
  const CUresult result =
      address == 0 ? reserve_out_of_the_way(driver, memory.address, memory.size, memory.addresses)
                   : driver.cuMemAddressReserve(&memory.address, memory.size, 0, address, 0);
  if (result != CUDA_SUCCESS) {
    return {Code::kUnsupported, range + " cannot be reserved: " + error_name(driver, result)};
  }
  if (address == 0 || memory.address == address) return {};
  give_back_addresses(driver, memory);
  return {Code::kUnsupported, range + " is taken in this process"};
}

// Gives the addresses back.
Status not_mapped(const Driver& driver, const MappedMemory& memory, CUresult result) {
  give_back_addresses(driver, memory);
  return {Code::kUnsupported, "device memory " + range_text(memory.address, memory.size) +
                                  " cannot be mapped: " + error_name(driver, result)};
}
}  // namespace

CUresult allow_device(const Driver& driver, const MappedMemory& memory, int device) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return driver.cuMemSetAccess(memory.address, memory.size, &access, 1);
}

Result<uint64_t> mapping_granularity(const Driver& driver, int device) {
  const CUmemAllocationProp properties = device_memory(device);
  size_t granularity = 0;
  const CUresult result = driver.cuMemGetAllocationGranularity(&granularity, &properties,
                                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result == CUDA_SUCCESS && granularity != 0) return uint64_t{granularity};
  return Status(Code::kUnsupported,
                std::string("the driver cannot place memory at chosen addresses: ") +
                    error_name(driver, result));
}

Result<MappedMemory> map_memory(const Driver& driver, int device, uint64_t size, uint64_t address,
                                bool shareable) {
  MappedMemory memory{.size = size, .device = device};
  if (const Status reserved = reserve_at(driver, memory, address); !reserved.ok()) return reserved;
  const CUresult result =
      back(driver, memory, address != 0 ? usage_of_own(driver, device) : 0, shareable);
  if (result != CUDA_SUCCESS) return not_mapped(driver, memory, result);
  return memory;
}

Result<MappedMemory> map_memory_for_adapters(const Driver& driver, int device, uint64_t size) {
  MappedMemory memory{.size = size, .device = device};
  if (const Status reserved = reserve_at(driver, memory, 0); !reserved.ok()) return reserved;
  CUmemAllocationProp properties = device_memory(device);
  properties.allocFlags.gpuDirectRDMACapable = 1;
  CUresult result = back(driver, memory, properties);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) {
    result = back(driver, memory, device_memory(device));
  }
  if (result != CUDA_SUCCESS) return not_mapped(driver, memory, result);
  return memory;
}

// Other processes may be given it, adapters reach it, and the program may decompress into it: as
// far as that is there.
CUresult map_for_program(const Driver& driver, MappedMemory& memory) {
  CUmemAllocationProp properties = device_memory(memory.device);
  properties.allocFlags.usage = usage_of_own(driver, memory.device);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.allocFlags.gpuDirectRDMACapable = 1;
  CUresult result = back(driver, memory, properties);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) return result;
  properties.allocFlags.gpuDirectRDMACapable = 0;
  result = back(driver, memory, properties);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) return result;
  return back(driver, memory, properties.allocFlags.usage);
}

void unmap_physical(const Driver& driver, const MappedMemory& memory) {
  (void)driver.cuMemUnmap(memory.address, memory.size);
  (void)driver.cuMemRelease(memory.handle);
}

Status map_at(const Driver& driver, const MappedMemory& memory) {
  MappedMemory reserved = memory;
  Status status = reserve_at(driver, reserved, memory.address);
  if (!status.ok()) return status;
  const CUresult result = map_physical(driver, memory);
  return result == CUDA_SUCCESS ? Status() : not_mapped(driver, memory, result);
}

void unmap_memory(const Driver& driver, const MappedMemory& memory) {
  if (memory.address == 0) return;
  unmap_physical(driver, memory);
  give_back_addresses(driver, memory);
}

Result<GrowingMemory> reserve_memory(const Driver& driver, int device, uint64_t size) {
  GrowingMemory memory;
  memory.device = device;
  memory.reserved = size;
  const CUresult result = reserve_out_of_the_way(driver, memory.address, size, memory.addresses);
  if (result == CUDA_SUCCESS) return memory;
  return Status(Code::kUnsupported,
                std::to_string(size) + " bytes cannot be reserved: " + error_name(driver, result));
}

CUresult grow_memory(const Driver& driver, GrowingMemory& memory, uint64_t bytes, bool shareable) {
  const uint64_t more = std::min(bytes, memory.reserved - memory.size);
  if (more == 0) return CUDA_SUCCESS;
  MappedMemory part{.address = memory.address + memory.size, .size = more, .device = memory.device};
  memory.parts.reserve(memory.parts.size() + 1);
  const CUresult result = back(driver, part, 0, shareable);
  if (result != CUDA_SUCCESS) return result;
  memory.parts.push_back(part);
  memory.size += more;
  return CUDA_SUCCESS;
}

CUresult append_memory(const Driver& driver, GrowingMemory& memory,
                       CUmemGenericAllocationHandle handle, uint64_t bytes) {
  if (bytes > memory.reserved - memory.size) return CUDA_ERROR_INVALID_VALUE;
  const MappedMemory part{.address = memory.address + memory.size,
                          .size = bytes,
                          .handle = handle,
                          .device = memory.device};
  memory.parts.reserve(memory.parts.size() + 1);
  const CUresult result = map_physical(driver, part);
  if (result != CUDA_SUCCESS) return result;
  memory.parts.push_back(part);
  memory.size += bytes;
  return CUDA_SUCCESS;
}

void unmap_memory(const Driver& driver, const GrowingMemory& memory) {
  if (memory.address == 0) return;
  for (const MappedMemory& part : memory.parts) {
    (void)driver.cuMemUnmap(part.address, part.size);
    (void)driver.cuMemRelease(part.handle);
  }
  (void)driver.cuMemAddressFree(memory.address, memory.addresses);
}

}  // namespace gpusnap
