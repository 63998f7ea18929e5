// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/shots/device_blocks.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace gpusnap::shots {

size_t DeviceBlocks::resident(Version version) const {
  const auto found = resident_.find(version);
  return found == resident_.end() ? 0 : found->second;
}

void DeviceBlocks::reserve(size_t blocks) {
  assert(blocks <= free());
  used_ += blocks;
  peak_ = std::max(peak_, used_);
}

void DeviceBlocks::add(BlockRun run) {
  runs_.push_back(run);
  resident_[run.version] += run.blocks;
}

void DeviceBlocks::touch(Version version) {
  const size_t blocks = resident(version);
  std::erase_if(runs_, [version](const BlockRun& run) { return run.version == version; });
  if (blocks != 0) runs_.push_back({version, blocks});
}

std::optional<Version> DeviceBlocks::next_advised() const {
  return next_oldest([this](Version version) { return !prefers_host(version); });
}

std::optional<Version> DeviceBlocks::next_oldest(
    const std::function<bool(Version)>& is_kept) const {
  const auto next = std::ranges::find_if_not(runs_, is_kept, &BlockRun::version);
  return next == runs_.end() ? std::nullopt : std::optional(next->version);
}

BlockRun DeviceBlocks::take(Version version, size_t most) {
  const auto first = std::ranges::find(runs_, version, &BlockRun::version);
  assert(first != runs_.end() && most != 0);
  const BlockRun taken = {version, std::min(most, first->blocks)};
  first->blocks -= taken.blocks;
  if (first->blocks == 0) runs_.erase(first);
  const auto left = resident_.find(version);
  left->second -= taken.blocks;
  if (left->second == 0) {
    resident_.erase(left);
    prefers_host_.erase(version);
  }
  return taken;
}

int64_t HostPages::reserve(size_t blocks) {
  assert(blocks <= free());
  used_ += blocks;
  peak_ = std::max(peak_, used_);
  if (rate_ == 0) return 0;
  return static_cast<int64_t>(std::ceil(static_cast<double>(used_ * kBlock) / rate_ * 1e9));
}

}  // namespace gpusnap::shots
