#include "interpose/model/placement.h"

#include <algorithm>
#include <string>
#include <vector>

#include "interpose/services/text.h"

namespace gpusnap {

Status AddressPlacement::place(uint64_t address, uint64_t size) {
  CUdevice device = 0;
  (void)driver_.cuCtxGetDevice(&device);
  auto granularity = mapping_granularity(driver_, device);
  if (!granularity.ok()) return granularity.status();
  granularity_ = granularity.value();
  const uint64_t begin = address / granularity_ * granularity_;
  const uint64_t end = (address + size + granularity_ - 1) / granularity_ * granularity_;

  // Granules that an earlier allocation brought are shared; the gaps between them are mapped.
  std::vector<uint64_t> made;
  Status status;
  for (uint64_t at = begin; at < end && status.ok();) {
    auto next = blocks_.upper_bound(at);
    if (next != blocks_.begin()) {
      auto here = std::prev(next);
      if (at < here->first + here->second.memory.size) {
        if (here->second.memory.device != device) {
          status = {Code::kUnsupported, "device memory " + range_text(address, size) +
                                            " lies in one granule with memory of another device"};
          break;
        }
        at = here->first + here->second.memory.size;
        continue;
      }
    }
    const uint64_t stop = next == blocks_.end() ? end : std::min(end, next->first);
    auto mapped = map_memory(driver_, device, stop - at, at, shareable_);
    if (mapped.ok()) {
      blocks_[at] = {mapped.value(), 0};
      for (int peer : peers_) let_peer_use(mapped.value(), peer);
      made.push_back(at);
    } else {
      status = mapped.status();
    }
    at = stop;
  }
  if (!status.ok()) {
    for (uint64_t at : made) {
      unmap_memory(driver_, blocks_.at(at).memory);
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

std::vector<MappedMemory> AddressPlacement::pieces(uint64_t address) const {
  std::vector<MappedMemory> found;
  const auto placed = placed_.find(address);
  if (placed == placed_.end()) return found;
  for (const auto& [start, block] : blocks_) {
    const bool touches = start < address + placed->second && start + block.memory.size > address;
    if (touches) found.push_back(block.memory);
  }
  return found;
}

void AddressPlacement::allow(int device) {
  if (!peers_.insert(device).second) return;
  for (const auto& [address, block] : blocks_) let_peer_use(block.memory, device);
}

// Where the devices cannot reach each other, the program never asked for it.
void AddressPlacement::let_peer_use(const MappedMemory& memory, int device) {
  if (memory.device == device) return;
  (void)allow_device(driver_, memory, device);
}

std::vector<MappedMemory> AddressPlacement::free(uint64_t address) {
  std::vector<MappedMemory> unused;
  auto it = placed_.find(address);
  if (it == placed_.end()) return unused;
  const uint64_t end = address + it->second;
  placed_.erase(it);
  for (auto block = first_block_touching(address); block != blocks_.end() && block->first < end;) {
    if (--block->second.users == 0) {
      unused.push_back(block->second.memory);
      block = blocks_.erase(block);
    } else {
      ++block;
    }
  }
  return unused;
}

std::map<uint64_t, AddressPlacement::Block>::iterator AddressPlacement::first_block_touching(
    uint64_t address) {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return it;
  --it;
  return it->first + it->second.memory.size > address ? it : std::next(it);
}

}  // namespace gpusnap
