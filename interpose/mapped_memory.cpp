#include "interpose/mapped_memory.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "interpose/text.h"

namespace gpusnap {

namespace {
// Who maps memory in the place of the program's own: it may be decompressed into.
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
CUresult back(const Driver& driver, MappedMemory& memory, unsigned short usage,
              bool shareable = false) {
  CUmemAllocationProp properties = device_memory(memory.device);
  properties.allocFlags.usage = usage;
  if (shareable) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUresult result = driver.cuMemCreate(&memory.handle, memory.size, &properties, 0);
  // Sharing it may never be asked for.
  if (shareable && result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) {
    return back(driver, memory, usage);
  }
  if (result != CUDA_SUCCESS) return result;
  result = map_physical(driver, memory);
  if (result != CUDA_SUCCESS) (void)driver.cuMemRelease(memory.handle);
  return result;
}

// Far above what the driver gives by itself, which for most programs is less than this.
constexpr uint64_t kOutOfTheWay = uint64_t{1} << 40;

// An address that no call of the program is given unless it asks for it, different each time. What
// is ours must not lie where a recording had memory of the program's: with several threads it is
// made a moment earlier or later in a replay. 0: no idea.
CUdeviceptr out_of_the_way(const Driver& driver, uint64_t size) {
  static std::atomic<CUdeviceptr> next{0};  // the address space is one for the process
  if (next == 0) {
    CUdeviceptr usual = 0;
    if (driver.cuMemAddressReserve(&usual, size, 0, 0, 0) != CUDA_SUCCESS) return 0;
    (void)driver.cuMemAddressFree(usual, size);
    CUdeviceptr none = 0;
    (void)next.compare_exchange_strong(none, usual + kOutOfTheWay);
  }
  return next.fetch_add(size);
}

// At `address` or, where that is 0, out of the way.
Status reserve_at(const Driver& driver, MappedMemory& memory, uint64_t address) {
  const std::string range = address == 0 ? std::to_string(memory.size) + " bytes"
                                         : "device memory " + range_text(address, memory.size);
  const CUdeviceptr hint = address == 0 ? out_of_the_way(driver, memory.size) : address;
  CUresult result = driver.cuMemAddressReserve(&memory.address, memory.size, 0, hint, 0);
  if (result != CUDA_SUCCESS && address == 0) {
    result = driver.cuMemAddressReserve(&memory.address, memory.size, 0, 0, 0);  // then anywhere
  }
  if (result != CUDA_SUCCESS) {
    return {Code::kUnsupported, range + " cannot be reserved: " + error_name(driver, result)};
  }
  if (address == 0 || memory.address == address) return {};
  (void)driver.cuMemAddressFree(memory.address, memory.size);
  return {Code::kUnsupported, range + " is taken in this process"};
}

// Gives the addresses back.
Status not_mapped(const Driver& driver, const MappedMemory& memory, CUresult result) {
  (void)driver.cuMemAddressFree(memory.address, memory.size);
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
  MappedMemory memory{0, size, 0, device};
  if (const Status reserved = reserve_at(driver, memory, address); !reserved.ok()) return reserved;
  const CUresult result =
      back(driver, memory, address != 0 ? usage_of_own(driver, device) : 0, shareable);
  if (result != CUDA_SUCCESS) return not_mapped(driver, memory, result);
  return memory;
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
  (void)driver.cuMemUnmap(memory.address, memory.size);
  (void)driver.cuMemRelease(memory.handle);
  (void)driver.cuMemAddressFree(memory.address, memory.size);
}

Result<GrowingMemory> reserve_memory(const Driver& driver, int device, uint64_t size) {
  GrowingMemory memory;
  memory.reserved = size;
  memory.device = device;
  const CUresult result = driver.cuMemAddressReserve(&memory.address, size, 0, 0, 0);
  if (result == CUDA_SUCCESS) return memory;
  return Status(Code::kUnsupported,
                std::to_string(size) + " bytes cannot be reserved: " + error_name(driver, result));
}

CUresult grow_memory(const Driver& driver, GrowingMemory& memory, uint64_t bytes) {
  const uint64_t more = std::min(bytes, memory.reserved - memory.size);
  if (more == 0) return CUDA_SUCCESS;
  MappedMemory part{memory.address + memory.size, more, 0, memory.device};
  memory.parts.reserve(memory.parts.size() + 1);
  const CUresult result = back(driver, part, 0);
  if (result != CUDA_SUCCESS) return result;
  memory.parts.push_back(part);
  memory.size += more;
  return CUDA_SUCCESS;
}

void unmap_memory(const Driver& driver, const GrowingMemory& memory) {
  if (memory.address == 0) return;
  for (const MappedMemory& part : memory.parts) {
    (void)driver.cuMemUnmap(part.address, part.size);
    (void)driver.cuMemRelease(part.handle);
  }
  (void)driver.cuMemAddressFree(memory.address, memory.reserved);
}

}  // namespace gpusnap
