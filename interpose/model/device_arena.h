// SPDX-License-Identifier: Apache-2.0
//
// Device memory of cuMemAlloc at addresses that depend on the program's own calls alone: in a range
// of addresses for each device that is far from everything else and the same in every process.
//
// The driver has a small allocation of its own for each block, the stand-in: it is made and freed
// when the block is, so that these calls fail and wait as the driver's do, and it answers what is
// asked about the block.
//
// Any thread. allocate(), free() and what else says so call the driver, or wait for a thread that
// does: the caller holds no lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "interpose/hook/driver.h"
#include "interpose/model/arena_memory.h"
#include "tracker/block_allocator.h"

namespace gpusnap {

class DeviceArena {
 public:
  // The driver outlives it.
  explicit DeviceArena(const Driver& driver) : driver_(driver) {}
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  // This process's: knows its blocks whatever has become of the session. Null before any session.
  static DeviceArena* of_process() { return of_process_.load(std::memory_order_acquire); }
  void become_of_process() { of_process_.store(this, std::memory_order_release); }
  // In a forked child: another thread may have been in it.
  static void abandon_after_fork() { of_process_.store(nullptr, std::memory_order_release); }

  // Before any thread allocates: allocations are served from now on.
  void begin() { on_ = true; }
  bool is_on() const { return on_; }

  static constexpr size_t kStandInBytes = 1;
  struct Block {
    uint64_t address = 0;
    uint64_t size = 0;  // as asked for
    CUdeviceptr stand_in = 0;
    int device = 0;
    CUcontext context = nullptr;
  };
  // Whether the address belongs to an arena of any device, in use or not.
  static bool covers(uint64_t address) { return address >= kFirst && address < kEnd; }
  // An address of the range that nothing is ever mapped at.
  static constexpr uint64_t kNothing = uint64_t{0x4f00} << 32;
  // The block that holds the address.
  std::optional<Block> find(uint64_t address) const;
  // Whether a block begins there.
  bool owns(uint64_t address) const;
  // For a call about the address: the stand-in of its block; itself, where it is none of ours.
  uint64_t asked_about(uint64_t address) const;

  using MakeStandIn = std::function<CUresult(CUdeviceptr*)>;
  // Serves an allocation in the current context. `at`: exactly there, as a recording had it; 0:
  // anywhere. Nothing: it cannot be served here, and is the driver's to make. Calls the driver.
  std::optional<CUresult> allocate(CUdeviceptr* out, uint64_t size, const MakeStandIn& make,
                                   uint64_t at = 0);
  // Ends the block that begins there, once `free_stand_in` has freed its stand-in. `may_wait`: for
  // the device, before memory is unmapped. Calls the driver.
  CUresult free(uint64_t address, const std::function<CUresult(CUdeviceptr)>& free_stand_in,
                bool may_wait);
  // Waits for the stream. Calls the driver.
  CUresult synchronise(CUstream stream) const { return driver_.cuStreamSynchronize(stream); }
  // The context has ended, and its blocks with it. `is_last`: of its device. Calls the driver.
  void forget_context(CUcontext context, int device, bool is_last);
  // Kernels of `device` may use all blocks from now on, as peer access lets them use the driver's
  // own allocations. For a program that asked for less, more changes nothing. Calls the driver.
  void allow(int device);
  // The physical memory under the block that begins there. Waits.
  std::vector<MappedMemory> pieces(uint64_t address);

  // Bytes that are mapped and in no block's granules.
  uint64_t unused(int device) const;
  // Gives those back to the driver. Whether there were any. Calls the driver.
  bool release_unused(int device);

 private:
  // Where neither a kernel nor a driver maps anything by itself, nor we anything else.
  static constexpr uint64_t kFirst = uint64_t{0x4000} << 32;
  static constexpr uint64_t kStride = uint64_t{1} << 39;  // for each device
  static constexpr int kMostDevices = 30;
  static constexpr uint64_t kEnd = uint64_t{0x5000} << 32;
  static_assert(kFirst + kMostDevices * kStride <= kNothing);

  struct Region {
    Region(const Driver& driver, int device, uint64_t address, uint64_t bytes)
        : addresses{address, bytes}, blocks(address, bytes), memory(driver, device) {}
    std::pair<uint64_t, uint64_t> addresses;
    BlockAllocator blocks;
    ArenaMemory memory;
  };
  // One thread at a time changes regions. The mutex is not held meanwhile.
  class Turn;

  Region* region_of(int device);
  std::unique_ptr<Region> make_region(int device) const;
  CUresult take(Region& region, Block& block, uint64_t at, bool& is_served);
  void end_blocks(const std::vector<Block>& ended);

  static constinit inline std::atomic<DeviceArena*> of_process_{nullptr};

  const Driver& driver_;
  bool on_ = false;
  mutable std::mutex mutex_;
  std::condition_variable turned_;
  bool taken_ = false;                // the turn
  std::map<uint64_t, Block> blocks_;  // by address; with the mutex
  std::set<int> peers_;               // devices that were allowed; with the turn
  // Null: its addresses cannot be had. Changed with the mutex and the turn.
  std::map<int, std::unique_ptr<Region>> regions_;
};

}  // namespace gpusnap
