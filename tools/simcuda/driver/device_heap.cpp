#include "tools/simcuda/driver/device_heap.h"

#include <iterator>
#include <utility>

namespace simcuda {
namespace {

// As drivers do: memory without a pitch is read through textures as it is, which need this.
constexpr uint64_t kAlign = 512;
constexpr uint64_t kGap = 512;
constexpr uint64_t kSmall = uint64_t{1} << 20;  // up to here allocations share granules

}  // namespace

std::optional<DeviceHeap::Block> DeviceHeap::allocate(uint64_t bytes, Use use) {
  if (bytes > capacity_) return std::nullopt;
  return bytes <= kSmall ? allocate_small(bytes, use) : allocate_run(bytes, use);
}

// With hardware, pools lie where reservations do.
std::optional<uint64_t> DeviceHeap::addresses(uint64_t bytes, Use use) {
  const bool of_pool = use == Use::kPool || use == Use::kGraph;
  if (!space_.is_of_host() || !of_pool) return space_.take(device_, bytes);
  return space_.take_in_region(device_, bytes, kGranule);
}

std::optional<DeviceHeap::Block> DeviceHeap::carve(uint64_t base, Granule& granule,
                                                   uint64_t bytes) {
  uint64_t needed = round_up(bytes, kAlign) + kGap;
  for (auto hole = granule.holes.begin(); hole != granule.holes.end(); ++hole) {
    auto [offset, size] = *hole;
    if (size < needed) continue;
    granule.holes.erase(hole);
    if (size > needed) granule.holes.emplace(offset + needed, size - needed);
    granule.blocks.emplace(offset, needed);
    Block block{base + offset, granule.backing->data() + offset, granule.backing};
    fill_with_junk(block.host, bytes, offset);
    return block;
  }
  return std::nullopt;
}

std::optional<DeviceHeap::Block> DeviceHeap::allocate_small(uint64_t bytes, Use use) {
  for (auto& [base, granule] : granules_) {
    if (granule.use != use) continue;
    if (auto block = carve(base, granule, bytes)) return block;
  }
  const auto granule = add_granule(use);
  return granule == granules_.end() ? std::nullopt : carve(granule->first, granule->second, bytes);
}

std::map<uint64_t, DeviceHeap::Granule>::iterator DeviceHeap::add_granule(Use use) {
  if (!commit(kGranule)) return granules_.end();
  const bool is_first = use == Use::kData && !has_data_;
  const uint64_t own = is_first ? space_.first_offset() : 0;
  Granule fresh{
      use, std::make_shared<Backing>(Backing::junk(kGranule)), {{own, kGranule - own}}, {}};
  const auto base = *fresh.backing ? addresses(2 * kGranule, use) : std::nullopt;
  if (!base) {
    uncommit(kGranule);
    return granules_.end();
  }
  has_data_ = has_data_ || use == Use::kData;
  return granules_.emplace(*base, std::move(fresh)).first;
}

std::optional<DeviceHeap::Block> DeviceHeap::allocate_run(uint64_t bytes, Use use) {
  uint64_t mapped = round_up(bytes, kGranule);
  if (!commit(mapped)) return std::nullopt;
  Run run{std::make_shared<Backing>(Backing::junk(mapped)), mapped};
  const auto base = *run.backing ? addresses(mapped + kGranule, use) : std::nullopt;
  if (!base) {
    uncommit(mapped);
    return std::nullopt;
  }
  Block block{*base, run.backing->data(), run.backing};
  runs_.emplace(*base, std::move(run));
  return block;
}

void DeviceHeap::free(uint64_t address) {
  if (auto run = runs_.find(address); run != runs_.end()) {
    uncommit(run->second.bytes);
    space_.release(address);
    runs_.erase(run);
    return;
  }
  auto owner = std::prev(granules_.upper_bound(address));
  Granule& granule = owner->second;
  auto block = granule.blocks.find(address - owner->first);
  auto [offset, size] = *block;
  granule.blocks.erase(block);
  auto after = granule.holes.lower_bound(offset);
  if (after != granule.holes.end() && after->first == offset + size) {
    size += after->second;
    after = granule.holes.erase(after);
  }
  if (after != granule.holes.begin() &&
      std::prev(after)->first + std::prev(after)->second == offset) {
    std::prev(after)->second += size;
  } else {
    granule.holes.emplace(offset, size);
  }
  // With hardware, pages for small allocations stay with the driver.
  const bool stays = space_.is_of_host() && granule.use == Use::kData;
  if (granule.blocks.empty() && !stays) {
    uncommit(kGranule);
    space_.release(owner->first);
    granules_.erase(owner);
  }
}

std::optional<DeviceHeap::Shared> DeviceHeap::share(uint64_t address) {
  Shared shared;
  if (auto run = runs_.find(address); run != runs_.end()) {
    shared = {run->second.backing->share(), run->second.bytes, 0};
  } else {
    auto owner = std::prev(granules_.upper_bound(address));
    shared = {owner->second.backing->share(), kGranule, address - owner->first};
  }
  return shared.fd < 0 ? std::nullopt : std::optional(shared);
}

bool DeviceHeap::commit(uint64_t bytes) {
  if (bytes > capacity_ - committed_) return false;
  committed_ += bytes;
  return true;
}

}  // namespace simcuda
