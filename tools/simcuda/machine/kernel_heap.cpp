// SPDX-License-Identifier: Apache-2.0
#include "tools/simcuda/machine/kernel_heap.h"

#include <algorithm>
#include <iterator>

namespace simcuda {
namespace {
constexpr uint64_t kAlignment = 16;
}  // namespace

uint64_t KernelHeap::allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > UINT64_MAX - kAlignment) return 0;
  const uint64_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::lock_guard lock(mutex_);
  const auto hole = std::find_if(holes_.begin(), holes_.end(),
                                 [&](const auto& each) { return each.second >= taken; });
  if (hole == holes_.end()) return 0;
  const auto [address, room] = *hole;
  holes_.erase(hole);
  if (room > taken) holes_[address + taken] = room - taken;
  blocks_[address] = taken;
  return address;
}

bool KernelHeap::free(uint64_t address) {
  if (address == 0) return true;
  std::lock_guard lock(mutex_);
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  auto hole = holes_.emplace(address, block->second).first;
  blocks_.erase(block);
  const auto after = std::next(hole);
  if (after != holes_.end() && hole->first + hole->second == after->first) {
    hole->second += after->second;
    holes_.erase(after);
  }
  if (hole != holes_.begin()) {
    const auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
      before->second += hole->second;
      holes_.erase(hole);
    }
  }
  return true;
}

size_t KernelHeap::blocks() const {
  std::lock_guard lock(mutex_);
  return blocks_.size();
}

}  // namespace simcuda
