// What memory of the program the device can write: allocations, module globals, and memory that
// host and device both see. Ranges never overlap.
//
// Pure logic: no CUDA, no threads, no I/O. Not thread-safe but for may_be_saved(); the owner
// serialises.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gpusnap {

enum class MemoryKind : uint8_t {
  kDevice = 0,   // cuMemAlloc and its like: saved by snapshots
  kGlobal = 1,   // a __device__ or __constant__ variable: saved by snapshots
  kManaged = 2,  // seen by both sides: host state, journaled, never loaded
  kPinned = 3,   // host memory that the device can address: likewise
  kArray = 4,    // our copy of an array, as it was at the last cut: saved by snapshots
};

// An allocation's identity over runs: where it was made, the how-manieth there, how large.
struct Identity {
  uint64_t call_site = 0;  // hash of the call stack as build-id + offset
  uint32_t ordinal = 0;    // counted per call site
  auto operator<=>(const Identity&) const = default;
};

constexpr bool is_saved(MemoryKind kind) {
  return kind == MemoryKind::kDevice || kind == MemoryKind::kGlobal || kind == MemoryKind::kArray;
}

struct MemoryRange {
  uint64_t address = 0;
  uint64_t size = 0;  // bytes, as the program asked
  MemoryKind kind = MemoryKind::kDevice;
  Identity identity;
  uint64_t context = 0;  // the driver's handle of the owning context
  uint64_t module = 0;   // kGlobal: the ordinal of its module or library, counted from 0 by loads
  std::string name;      // kGlobal: the symbol
  bool of_pool = false;  // kDevice: stream-ordered memory, which does not end with its context
  // No two ranges of a run have the same, also not at the same address; given by the map.
  uint64_t life = 0;
  uint64_t end() const { return address + size; }
};

class MemoryMap {
 public:
  // False when the range is empty, wraps, or overlaps one that is there.
  bool insert(MemoryRange range);
  // A restored run goes on with the lives that its checkpoint had: that of the range at `address`.
  void continue_life(uint64_t address, uint64_t life);
  // Removes the range that starts at `address`; false when there is none.
  bool erase(uint64_t address);
  // Removes the globals of one module.
  void erase_module(uint64_t module);

  // False: no range that snapshots save has ever held `address`. Any thread; costs next to nothing.
  bool may_be_saved(uint64_t address) const {
    return address >= lowest_.load(std::memory_order_relaxed) &&
           address < highest_.load(std::memory_order_relaxed);
  }
  // The same of any of so many bytes.
  bool may_be_saved(uint64_t address, uint64_t bytes) const {
    return address + bytes > lowest_.load(std::memory_order_relaxed) &&
           address < highest_.load(std::memory_order_relaxed);
  }
  // The range that holds `address`, or null. Pointers stay valid until that range is erased.
  const MemoryRange* find(uint64_t address) const;
  // The range that starts at `address`, or null.
  const MemoryRange* at(uint64_t address) const;

  // All allocations of device memory.
  std::map<Identity, const MemoryRange*> by_identity() const;

  // How many ranges there have been: no more is there now than when it was the same.
  uint64_t lives() const { return next_life_; }
  // In order of address.
  const std::map<uint64_t, MemoryRange>& ranges() const { return ranges_; }
  uint64_t bytes_of(MemoryKind kind) const;

 private:
  std::map<uint64_t, MemoryRange> ranges_;  // by address
  uint64_t next_life_ = 1;
  // Of all that was ever saved.
  std::atomic<uint64_t> lowest_{UINT64_MAX};
  std::atomic<uint64_t> highest_{0};
};

}  // namespace gpusnap
