#include "interpose/placement.h"

#include <algorithm>
#include <string>
#include <vector>

#include "interpose/text.h"

namespace gpusnap {

namespace {
CUmemAllocationProp device_memory(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}
}  // namespace

Status Placement::place(uint64_t address, uint64_t size) {
  CUdevice device = 0;
  CUresult result = driver_.cuCtxGetDevice(&device);
  const CUmemAllocationProp properties = device_memory(device);
  size_t granularity = 0;
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemGetAllocationGranularity(&granularity, &properties,
                                                   CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  }
  if (result != CUDA_SUCCESS || granularity == 0) {
    return {Code::kUnsupported,
            std::string("the driver cannot place memory at chosen addresses: ") +
                error_name(driver_, result)};
  }
  granularity_ = granularity;
  const uint64_t begin = address / granularity_ * granularity_;
  const uint64_t end = (address + size + granularity_ - 1) / granularity_ * granularity_;

  // Granules that an earlier allocation brought are shared; the gaps between them are mapped.
  std::vector<uint64_t> made;
  Status status;
  for (uint64_t at = begin; at < end && status.ok();) {
    auto next = blocks_.upper_bound(at);
    if (next != blocks_.begin()) {
      auto here = std::prev(next);
      if (at < here->first + here->second.size) {
        if (here->second.device != device) {
          status = {Code::kUnsupported, "device memory " + range_text(address, size) +
                                            " lies in one granule with memory of another device"};
          break;
        }
        at = here->first + here->second.size;
        continue;
      }
    }
    const uint64_t stop = next == blocks_.end() ? end : std::min(end, next->first);
    status = map_block(at, stop - at, device);
    if (status.ok()) made.push_back(at);
    at = stop;
  }
  if (!status.ok()) {
    for (uint64_t at : made) {
      unmap_block(at, blocks_.at(at));
      blocks_.erase(at);
    }
    return status;
  }
  for (auto it = first_block_touching(address); it != blocks_.end() && it->first < end; ++it) {
    it->second.users++;
  }
  placed_[address] = size;
  return {};
}

Status Placement::map_block(uint64_t address, uint64_t size, int device) {
  const std::string range = "device memory " + range_text(address, size);
  CUdeviceptr got = 0;
  CUresult result = driver_.cuMemAddressReserve(&got, size, 0, address, 0);
  if (result == CUDA_SUCCESS && got != address) {
    (void)driver_.cuMemAddressFree(got, size);
    return {Code::kUnsupported, range + " is taken in this process"};
  }
  if (result != CUDA_SUCCESS) {
    return {Code::kUnsupported, range + " cannot be reserved: " + error_name(driver_, result)};
  }
  Block block{size, 0, device, 0};
  const CUmemAllocationProp properties = device_memory(device);
  result = driver_.cuMemCreate(&block.handle, size, &properties, 0);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemMap(address, size, 0, block.handle, 0);
    if (result == CUDA_SUCCESS) {
      CUmemAccessDesc access{};
      access.location = properties.location;
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      result = driver_.cuMemSetAccess(address, size, &access, 1);
      if (result != CUDA_SUCCESS) (void)driver_.cuMemUnmap(address, size);
    }
    if (result != CUDA_SUCCESS) (void)driver_.cuMemRelease(block.handle);
  }
  if (result != CUDA_SUCCESS) {
    (void)driver_.cuMemAddressFree(address, size);
    return {Code::kUnsupported, range + " cannot be mapped: " + error_name(driver_, result)};
  }
  blocks_[address] = block;
  for (int peer : peers_) let_peer_use(address, block, peer);
  return {};
}

void Placement::allow(int device) {
  if (!peers_.insert(device).second) return;
  for (const auto& [address, block] : blocks_) let_peer_use(address, block, device);
}

// Where the devices cannot reach each other, the program never asked for it.
void Placement::let_peer_use(uint64_t address, const Block& block, int device) {
  if (block.device == device) return;
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  (void)driver_.cuMemSetAccess(address, block.size, &access, 1);
}

void Placement::unmap_block(uint64_t address, const Block& block) {
  (void)driver_.cuMemUnmap(address, block.size);
  (void)driver_.cuMemRelease(block.handle);
  (void)driver_.cuMemAddressFree(address, block.size);
}

void Placement::free(uint64_t address) {
  auto it = placed_.find(address);
  if (it == placed_.end()) return;
  const uint64_t end = address + it->second;
  placed_.erase(it);
  for (auto block = first_block_touching(address); block != blocks_.end() && block->first < end;) {
    if (--block->second.users == 0) {
      unmap_block(block->first, block->second);
      block = blocks_.erase(block);
    } else {
      ++block;
    }
  }
}

std::map<uint64_t, Placement::Block>::iterator Placement::first_block_touching(uint64_t address) {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return it;
  --it;
  return it->first + it->second.size > address ? it : std::next(it);
}

}  // namespace gpusnap
