// SPDX-License-Identifier: Apache-2.0
//
// Managed memory on a device, as NVIDIA's driver keeps it: blocks of 2 MiB in a list by the time of
// their migration (nvidia-uvm/uvm_pmm_gpu.c). A read does not change the list. A block is in one
// place, so whatever leaves the device is copied to the host, even if it has not been written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <unordered_map>

#include "tiers/history/planner.h"

namespace gpusnap::shots {

using history::Version;

inline constexpr uint64_t kBlock = uint64_t{2} << 20;  // bytes

inline size_t blocks_of(uint64_t bytes) {
  return static_cast<size_t>((bytes + kBlock - 1) / kBlock);
}

// Blocks of one checkpoint that migrated at the same time.
struct BlockRun {
  Version version = 0;
  size_t blocks = 0;
};

// The room for managed memory on one device. Pure logic; not thread-safe.
class DeviceBlocks {
 public:
  explicit DeviceBlocks(size_t capacity) : capacity_(capacity) {}

  size_t capacity() const { return capacity_; }
  size_t free() const { return capacity_ - used_; }
  size_t peak() const { return peak_; }
  // Blocks of the checkpoint that are on the device and stay there.
  size_t resident(Version version) const;

  // Room for blocks that will come. At most free().
  void reserve(size_t blocks);
  // Blocks have come into room that was reserved. They are the last to leave.
  void add(BlockRun run);
  // As if the checkpoint had just come: a prefetch of what is there.
  void touch(Version version);
  // cudaMemAdviseSetPreferredLocation, the host: the checkpoint leaves before all others.
  void prefer_host(Version version) { prefers_host_.insert(version); }
  bool prefers_host(Version version) const { return prefers_host_.contains(version); }

  // The checkpoint whose blocks leave next: one that prefers the host.
  std::optional<Version> next_advised() const;
  // Likewise, if room is needed: what came first, without checkpoints that `is_kept` is true for.
  std::optional<Version> next_oldest(const std::function<bool(Version)>& is_kept) const;
  // Up to `most` blocks of the checkpoint leave, at least one. At least one is resident. Their room
  // is taken until release().
  BlockRun take(Version version, size_t most);
  void release(size_t blocks) { used_ -= blocks; }

 private:
  const size_t capacity_;
  size_t used_ = 0, peak_ = 0;
  std::list<BlockRun> runs_;  // the next to leave first
  std::unordered_map<Version, size_t> resident_;
  std::set<Version> prefers_host_;
};

// The pages of host memory behind managed memory. The driver allocates and maps them when a block
// first comes to the host. They stay with the block while it is on the device (`cpu.allocated` in
// nvidia-uvm/uvm_va_block.h). Pure logic; not thread-safe.
class HostPages {
 public:
  // `rate`: bytes per second at which pages are allocated and mapped ahead of their use, from the
  // start of the program; 0: they have been before.
  HostPages(size_t capacity, double rate) : capacity_(capacity), rate_(rate) {}

  size_t capacity() const { return capacity_; }
  size_t free() const { return capacity_ - used_; }
  size_t peak() const { return peak_; }
  // `blocks`: at most free(). The time since the start, in nanoseconds, at which they are mapped.
  int64_t reserve(size_t blocks);
  void release(size_t blocks) { used_ -= blocks; }

 private:
  const size_t capacity_;
  const double rate_;
  size_t used_ = 0, peak_ = 0;
};

}  // namespace gpusnap::shots
