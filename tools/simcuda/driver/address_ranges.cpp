#include "tools/simcuda/driver/address_ranges.h"

#include <algorithm>
#include <iterator>

namespace simcuda {

bool AddressRanges::take_at(uint64_t address, uint64_t size) {
  uint64_t end = address + size;
  if (size == 0 || end < address) return false;
  auto next = taken_.lower_bound(address);
  if (next != taken_.end() && next->first < end) return false;
  if (next != taken_.begin() && std::prev(next)->second > address) return false;
  taken_.emplace(address, end);
  return true;
}

std::optional<uint64_t> AddressRanges::take(uint64_t low, uint64_t high, uint64_t size,
                                            uint64_t align) {
  auto aligned = [align](uint64_t address) { return (address + align - 1) & ~(align - 1); };
  auto next = taken_.lower_bound(low);
  uint64_t candidate = low;
  if (next != taken_.begin()) candidate = std::max(low, std::prev(next)->second);
  candidate = aligned(candidate);
  for (; next != taken_.end() && next->first < high; ++next) {
    if (candidate <= next->first && next->first - candidate >= size) break;
    candidate = aligned(std::max(candidate, next->second));
  }
  if (candidate < low || candidate >= high || high - candidate < size) return std::nullopt;
  if (!take_at(candidate, size)) return std::nullopt;
  return candidate;
}

bool AddressRanges::contains(uint64_t address) const {
  const auto next = taken_.upper_bound(address);
  return next != taken_.begin() && std::prev(next)->second > address;
}

void AddressRanges::release(uint64_t address) {
  taken_.erase(address);
}

}  // namespace simcuda
