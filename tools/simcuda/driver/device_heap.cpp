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
  return bytes <= kSmall ? allocate_small(bytes, use) : allocate_run(bytes);
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
  if (!commit(kGranule)) return std::nullopt;
  Granule fresh{use, std::make_shared<Backing>(Backing::junk(kGranule)), {{0, kGranule}}, {}};
  auto base = *fresh.backing ? ranges_.take(low_, high_, 2 * kGranule, kGranule) : std::nullopt;
  if (!base) {
    uncommit(kGranule);
    return std::nullopt;
  }
  auto& granule = granules_.emplace(*base, std::move(fresh)).first->second;
  return carve(*base, granule, bytes);
}

std::optional<DeviceHeap::Block> DeviceHeap::allocate_run(uint64_t bytes) {
  uint64_t mapped = round_up(bytes, kGranule);
  if (!commit(mapped)) return std::nullopt;
  Run run{std::make_shared<Backing>(Backing::junk(mapped)), mapped};
  auto base = *run.backing ? ranges_.take(low_, high_, mapped + kGranule, kGranule) : std::nullopt;
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
    ranges_.release(address);
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
  if (granule.blocks.empty()) {
    uncommit(kGranule);
    ranges_.release(owner->first);
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
