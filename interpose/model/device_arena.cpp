// SPDX-License-Identifier: Apache-2.0
#include "interpose/model/device_arena.h"

#include <algorithm>
#include <bit>

#include "interpose/services/log.h"
#include "interpose/services/text.h"

namespace gpusnap {

namespace {
// Pieces that stay mapped although no block uses them.
constexpr uint64_t kKept = uint64_t{64} << 20;

// Twice the device's memory: large blocks find room between those that stay.
uint64_t addresses_for(const Driver& driver, int device, uint64_t most) {
  size_t memory = 0;
  if (driver.cuDeviceTotalMem_v2 == nullptr ||
      driver.cuDeviceTotalMem_v2(&memory, device) != CUDA_SUCCESS) {
    return most;
  }
  constexpr uint64_t kLeast = uint64_t{64} << 30;
  return std::min(most, std::max(kLeast, std::bit_ceil(uint64_t{memory}) * 2));
}
}  // namespace

class DeviceArena::Turn {
 public:
  explicit Turn(DeviceArena& arena) : arena_(arena) {
    std::unique_lock lock(arena_.mutex_);
    arena_.turned_.wait(lock, [&] { return !arena_.taken_; });
    arena_.taken_ = true;
  }
  ~Turn() {
    {
      const std::lock_guard lock(arena_.mutex_);
      arena_.taken_ = false;
    }
    arena_.turned_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  DeviceArena& arena_;
};

std::optional<DeviceArena::Block> DeviceArena::find(uint64_t address) const {
  if (!covers(address)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return std::nullopt;
  const Block& block = std::prev(next)->second;
  if (address - block.address >= block.size) return std::nullopt;
  return block;
}

bool DeviceArena::owns(uint64_t address) const {
  const auto block = find(address);
  return block && block->address == address;
}

uint64_t DeviceArena::asked_about(uint64_t address) const {
  if (!covers(address)) return address;
  const auto block = find(address);
  return block ? block->stand_in : kNothing;
}

std::unique_ptr<DeviceArena::Region> DeviceArena::make_region(int device) const {
  const auto granularity = mapping_granularity(driver_, device);
  if (!granularity.ok() || device >= kMostDevices ||
      BlockAllocator::kGranule % granularity.value() != 0) {
    return nullptr;
  }
  const uint64_t wanted = kFirst + static_cast<uint64_t>(device) * kStride;
  const uint64_t bytes = addresses_for(driver_, device, kStride);
  CUdeviceptr got = 0;
  if (driver_.cuMemAddressReserve(&got, bytes, 0, wanted, 0) != CUDA_SUCCESS) return nullptr;
  if (got == wanted) return std::make_unique<Region>(driver_, device, wanted, bytes);
  (void)driver_.cuMemAddressFree(got, bytes);
  log(LogLevel::kInfo, "the device addresses ", range_text(wanted, bytes),
      " cannot be had: cuMemAlloc's memory lies where the driver has it, and a restore may not get "
      "it there");
  return nullptr;
}

// With the turn.
DeviceArena::Region* DeviceArena::region_of(int device) {
  const auto found = regions_.find(device);
  if (found != regions_.end()) return found->second.get();
  auto made = make_region(device);
  for (int peer : peers_) {
    if (made != nullptr) made->memory.allow(peer);
  }
  const std::lock_guard lock(mutex_);
  return (regions_[device] = std::move(made)).get();
}

// With the turn.
CUresult DeviceArena::take(Region& region, Block& block, uint64_t at, bool& is_served) {
  const auto address = at == 0                                 ? region.blocks.take(block.size)
                       : region.blocks.take_at(at, block.size) ? std::optional(at)
                                                               : std::nullopt;
  if (!address) return CUDA_SUCCESS;
  const RelaxedCapture relaxed(driver_);
  const CUresult result = region.memory.use(*address, block.size);
  is_served = result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY;
  block.address = *address;
  if (result != CUDA_SUCCESS) (void)region.blocks.give_back(*address);
  return result;
}

std::optional<CUresult> DeviceArena::allocate(CUdeviceptr* out, uint64_t size,
                                              const MakeStandIn& make, uint64_t at) {
  Block block{.size = size};
  CUdevice device = 0;
  if (!on_ || out == nullptr || size == 0 || driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  block.device = device;
  (void)driver_.cuCtxGetCurrent(&block.context);
  {
    const Turn turn(*this);
    Region* const region = region_of(block.device);
    bool is_served = false;
    if (region == nullptr) return std::nullopt;
    const CUresult result = take(*region, block, at, is_served);
    if (!is_served) return std::nullopt;
    if (result != CUDA_SUCCESS) return result;
  }
  const CUresult made = make(&block.stand_in);
  if (made != CUDA_SUCCESS) {
    end_blocks({block});
    return made;
  }
  const std::lock_guard lock(mutex_);
  blocks_[block.address] = block;
  *out = block.address;
  return CUDA_SUCCESS;
}

void DeviceArena::end_blocks(const std::vector<Block>& ended) {
  const Turn turn(*this);
  for (const Block& block : ended) {
    const auto region = regions_.find(block.device);
    if (region == regions_.end() || region->second == nullptr) continue;
    region->second->memory.give_back(block.address, block.size);
    (void)region->second->blocks.give_back(block.address);
  }
}

CUresult DeviceArena::free(uint64_t address,
                           const std::function<CUresult(CUdeviceptr)>& free_stand_in,
                           bool may_wait) {
  const auto block = find(address);
  if (!block || block->address != address) return free_stand_in(kNothing);
  const CUresult result = free_stand_in(block->stand_in);
  if (result != CUDA_SUCCESS) return result;
  {
    const std::lock_guard lock(mutex_);
    // Another thread has freed it, too.
    if (blocks_.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  end_blocks({*block});
  if (unused(block->device) <= kKept) return result;
  // The driver has waited for the stand-in's users, and may know that there are none.
  if (may_wait) {
    const CurrentContext current(driver_, block->context);
    (void)driver_.cuCtxSynchronize();
  }
  const Turn turn(*this);
  const RelaxedCapture relaxed(driver_);
  if (Region* const region = region_of(block->device)) {
    (void)region->memory.release_unused(kKept);
  }
  return result;
}

void DeviceArena::forget_context(CUcontext context, int device, bool is_last) {
  std::vector<Block> ended;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [address, block] : blocks_) {
      if (block.context == context) ended.push_back(block);
    }
    for (const Block& block : ended) blocks_.erase(block.address);
  }
  end_blocks(ended);
  if (!is_last) return;
  // The device may have been reset: the next context finds nothing of what was there.
  const Turn turn(*this);
  std::unique_ptr<Region> region;
  {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(device);
    if (found == regions_.end()) return;
    region = std::move(found->second);
    regions_.erase(found);
  }
  if (region == nullptr) return;
  region->memory.end();
  (void)driver_.cuMemAddressFree(region->addresses.first, region->addresses.second);
}

void DeviceArena::allow(int device) {
  const Turn turn(*this);
  peers_.insert(device);
  for (const auto& [owner, region] : regions_) {
    if (region != nullptr) region->memory.allow(device);
  }
}

std::vector<MappedMemory> DeviceArena::pieces(uint64_t address) {
  const auto block = find(address);
  if (!block || block->address != address) return {};
  const Turn turn(*this);
  const auto region = regions_.find(block->device);
  if (region == regions_.end() || region->second == nullptr) return {};
  return region->second->memory.pieces(block->address, block->size);
}

uint64_t DeviceArena::unused(int device) const {
  const std::lock_guard lock(mutex_);
  const auto region = regions_.find(device);
  return region == regions_.end() || region->second == nullptr ? 0
                                                               : region->second->memory.unused();
}

bool DeviceArena::release_unused(int device) {
  const Turn turn(*this);
  const RelaxedCapture relaxed(driver_);
  const auto region = regions_.find(device);
  return region != regions_.end() && region->second != nullptr &&
         region->second->memory.release_unused();
}

}  // namespace gpusnap
