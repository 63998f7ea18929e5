#include "tracker/memory_map.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpusnap {

bool MemoryMap::insert(MemoryRange range) {
  if (range.size == 0 || range.end() < range.address) return false;
  const auto next = ranges_.lower_bound(range.address);
  if (next != ranges_.end() && next->first < range.end()) return false;
  if (next != ranges_.begin() && std::prev(next)->second.end() > range.address) return false;
  const uint64_t address = range.address;
  range.life = next_life_++;
  if (is_saved(range.kind)) {
    lowest_.store(std::min(lowest_.load(std::memory_order_relaxed), address),
                  std::memory_order_relaxed);
    highest_.store(std::max(highest_.load(std::memory_order_relaxed), range.end()),
                   std::memory_order_relaxed);
  }
  ranges_.emplace_hint(next, address, std::move(range));
  return true;
}

void MemoryMap::continue_life(uint64_t address, uint64_t life) {
  const auto it = ranges_.find(address);
  if (it == ranges_.end()) return;
  it->second.life = life;
  next_life_ = std::max(next_life_, life + 1);
}

bool MemoryMap::erase(uint64_t address) {
  return ranges_.erase(address) != 0;
}

void MemoryMap::erase_module(uint64_t module) {
  std::erase_if(ranges_, [module](const auto& entry) {
    return entry.second.kind == MemoryKind::kGlobal && entry.second.module == module;
  });
}

const MemoryRange* MemoryMap::find(uint64_t address) const {
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return nullptr;
  const MemoryRange& range = std::prev(next)->second;
  return address < range.end() ? &range : nullptr;
}

const MemoryRange* MemoryMap::at(uint64_t address) const {
  const auto found = ranges_.find(address);
  return found != ranges_.end() ? &found->second : nullptr;
}

std::map<Identity, const MemoryRange*> MemoryMap::by_identity() const {
  std::map<Identity, const MemoryRange*> found;
  for (const auto& [address, range] : ranges_) {
    if (range.kind == MemoryKind::kDevice) found.emplace(range.identity, &range);
  }
  return found;
}

uint64_t MemoryMap::bytes_of(MemoryKind kind) const {
  uint64_t bytes = 0;
  for (const auto& [address, range] : ranges_) {
    if (range.kind == kind) bytes += range.size;
  }
  return bytes;
}

}  // namespace gpusnap
