// SPDX-License-Identifier: Apache-2.0
#include "tracker/block_allocator.h"

#include <iterator>

namespace gpusnap {

namespace {
uint64_t rounded_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
}  // namespace

BlockAllocator::BlockAllocator(uint64_t address, uint64_t bytes) {
  add_gap(address, bytes);
}

void BlockAllocator::add_gap(uint64_t address, uint64_t bytes) {
  if (bytes == 0) return;
  gaps_.emplace(address, bytes);
  by_size_.emplace(bytes, address);
}

void BlockAllocator::remove_gap(Gaps::iterator gap) {
  by_size_.erase({gap->second, gap->first});
  gaps_.erase(gap);
}

void BlockAllocator::cut_out(Gaps::iterator gap, uint64_t address, uint64_t bytes) {
  const uint64_t begin = gap->first, end = begin + gap->second;
  remove_gap(gap);
  add_gap(begin, address - begin);
  add_gap(address + bytes, end - (address + bytes));
  blocks_.emplace(address, bytes);
}

std::optional<uint64_t> BlockAllocator::take(uint64_t bytes) {
  if (bytes == 0 || bytes > UINT64_MAX - kUnit) return std::nullopt;
  const uint64_t align = bytes >= kLarge ? kGranule : kUnit;
  const uint64_t whole = rounded_up(bytes, kUnit);
  for (auto at = by_size_.lower_bound({whole, 0}); at != by_size_.end(); ++at) {
    const auto [size, begin] = *at;
    const uint64_t address = rounded_up(begin, align);
    if (address - begin > size - whole) continue;
    cut_out(gaps_.find(begin), address, whole);
    return address;
  }
  return std::nullopt;
}

bool BlockAllocator::take_at(uint64_t address, uint64_t bytes) {
  if (bytes == 0 || bytes > UINT64_MAX - kUnit || address % kUnit != 0) return false;
  const uint64_t whole = rounded_up(bytes, kUnit);
  auto gap = gaps_.upper_bound(address);
  if (gap == gaps_.begin()) return false;
  --gap;
  const uint64_t before = address - gap->first;
  if (before >= gap->second || gap->second - before < whole) return false;
  cut_out(gap, address, whole);
  return true;
}

bool BlockAllocator::give_back(uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  uint64_t begin = address, end = address + block->second;
  blocks_.erase(block);
  const auto after = gaps_.find(end);
  if (after != gaps_.end()) {
    end += after->second;
    remove_gap(after);
  }
  const auto next = gaps_.lower_bound(begin);
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      remove_gap(before);
    }
  }
  add_gap(begin, end - begin);
  return true;
}

}  // namespace gpusnap
