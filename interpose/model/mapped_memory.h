// Device memory by the driver's virtual memory management: at an address that we choose, or out of
// the way of all that the program's own calls give.
#pragma once

#include <cstdint>
#include <vector>

#include "interpose/hook/driver.h"
#include "tiers/status.h"

namespace gpusnap {

struct MappedMemory {
  CUdeviceptr address = 0;  // 0: none
  uint64_t size = 0;        // bytes
  CUmemGenericAllocationHandle handle = 0;
  int device = 0;
  uint64_t addresses = 0;  // bytes that are reserved there; 0: as many as are mapped
};

// Sizes and addresses are multiples of this. kUnsupported where the driver cannot map memory.
Result<uint64_t> mapping_granularity(const Driver& driver, int device);
// Readable and writable by `device`: at `address`, where it can be used for all that memory of
// cuMemAlloc can, or where that is 0 out of the way, if the driver lets us choose. kUnsupported
// names the range and why it cannot be had; nothing is changed then.
// `shareable`: other processes may be given it, where the driver can do that.
Result<MappedMemory> map_memory(const Driver& driver, int device, uint64_t size, uint64_t address,
                                bool shareable = false);
// Out of the way, and reachable for storage and network adapters, where the driver can do that.
Result<MappedMemory> map_memory_for_adapters(const Driver& driver, int device, uint64_t size);
// The same of physical memory that is there already, at its address; the handle stays the caller's
// where it fails.
Status map_at(const Driver& driver, const MappedMemory& memory);
// Into addresses that are reserved already: physical memory in the place of cuMemAlloc's, of which
// it can do as much as the driver lets it. `memory` gets the handle. After a failure everything is
// as it was.
CUresult map_for_program(const Driver& driver, MappedMemory& memory);
// The opposite; the addresses stay reserved.
void unmap_physical(const Driver& driver, const MappedMemory& memory);
// Readable and writable by this device, too.
CUresult allow_device(const Driver& driver, const MappedMemory& memory, int device);
// The device no longer uses it.
void unmap_memory(const Driver& driver, const MappedMemory& memory);

// A range of addresses that is backed by memory from its beginning on, part by part.
struct GrowingMemory {
  CUdeviceptr address = 0;  // 0: none
  uint64_t reserved = 0;    // bytes that there may be
  uint64_t size = 0;        // bytes that are there
  std::vector<MappedMemory> parts;
  int device = 0;
  uint64_t addresses = 0;  // bytes that are reserved, no less
};
// Addresses alone. As map_memory().
Result<GrowingMemory> reserve_memory(const Driver& driver, int device, uint64_t size);
// The next so many bytes, or what is left. After a failure everything is as it was.
// `shareable`: as map_memory().
CUresult grow_memory(const Driver& driver, GrowingMemory& memory, uint64_t bytes,
                     bool shareable = false);
// Physical memory that is there already, as the next bytes; the handle stays the caller's where it
// fails.
CUresult append_memory(const Driver& driver, GrowingMemory& memory,
                       CUmemGenericAllocationHandle handle, uint64_t bytes);
void unmap_memory(const Driver& driver, const GrowingMemory& memory);

}  // namespace gpusnap
