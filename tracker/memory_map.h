// The program's memory that the device can write: allocations, module globals, and memory that host
// and device both see. Ranges never overlap.
//
// Memory of virtual memory management is a range at an address of ours, whatever the program maps
// it at, since it may be at several addresses or at none. Each place where the program has it is a
// view, a range that leads there; views lie in the spaces that the program has reserved.
//
// Pure logic: no CUDA, no threads, no I/O. Not thread-safe but for may_be_on_device(); the owner
// serialises.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tracker/write_set.h"

namespace gpusnap {

enum class MemoryKind : uint8_t {
  kDevice = 0,    // cuMemAlloc and its like: saved by snapshots
  kGlobal = 1,    // a __device__ or __constant__ variable: saved by snapshots
  kManaged = 2,   // seen by both sides, __managed__ too: host state, journaled, never loaded
  kPinned = 3,    // host memory that the device can address: likewise
  kArray = 4,     // our copy of an array, as it was at the last cut: saved by snapshots
  kPhysical = 5,  // of cuMemCreate, where we have mapped it: saved by snapshots
  kView = 6,      // where the program has mapped such memory
  kImported = 7,  // of another process, which saves it
};

// An allocation's identity over runs: where it was made, the how-manieth there, how large.
struct Identity {
  uint64_t call_site = 0;  // hash of the call stack as build-id + offset
  uint32_t ordinal = 0;    // counted per call site
  auto operator<=>(const Identity&) const = default;
};

constexpr bool is_saved(MemoryKind kind) {
  return kind == MemoryKind::kDevice || kind == MemoryKind::kGlobal || kind == MemoryKind::kArray ||
         kind == MemoryKind::kPhysical;
}
// The device's alone, as the program sees it.
constexpr bool is_on_device(MemoryKind kind) {
  return is_saved(kind) || kind == MemoryKind::kView || kind == MemoryKind::kImported;
}

struct MemoryRange {
  uint64_t address = 0;
  uint64_t size = 0;  // bytes, as the program asked
  MemoryKind kind = MemoryKind::kDevice;
  Identity identity;
  uint64_t context = 0;  // the driver's handle of the owning context
  // Variables: the ordinal of their module or library, counted from 0 by loads. kPhysical, kView:
  // the number of the memory, see PhysicalMemory.
  uint64_t module = 0;
  std::string name;      // of variables: the symbol
  bool of_pool = false;  // kDevice: stream-ordered memory, which does not end with its context
  uint64_t origin = 0;   // kView: the address in the kPhysical range that it begins with
  int device = 0;        // kPhysical: that it is on
  bool shared = false;   // kDevice: other processes may write it, too
  // No two ranges of a run have the same, also not at the same address; given by the map.
  uint64_t life = 0;
  uint64_t end() const { return address + size; }
  // Returns whether it is a module's variable.
  bool is_variable() const {
    return kind == MemoryKind::kGlobal || (kind == MemoryKind::kManaged && !name.empty());
  }
};

class MemoryMap {
 public:
  // False when the range is empty, wraps, or overlaps one that is there.
  bool insert(MemoryRange range);
  // A restored run goes on with the lives that its checkpoint had: that of the range at `address`.
  void continue_life(uint64_t address, uint64_t life);
  // Removes the range that starts at `address`; false when there is none.
  bool erase(uint64_t address);
  // Removes the variables of one module.
  void erase_module(uint64_t module);
  // Removes the views in [address, address + size): the numbers of the memory that each led to.
  std::vector<uint64_t> erase_views(uint64_t address, uint64_t size);
  void set_shared(uint64_t address);
  // 0: none at present.
  void set_context(uint64_t address, uint64_t context);

  // Addresses that the program has reserved, or gives back.
  void add_space(uint64_t address, uint64_t size) { spaces_[address] = size; }
  void remove_space(uint64_t address) { spaces_.erase(address); }

  // False: no range on the device has ever held `address`. Any thread; costs next to nothing.
  bool may_be_on_device(uint64_t address) const {
    return address >= lowest_.load(std::memory_order_relaxed) &&
           address < highest_.load(std::memory_order_relaxed);
  }
  // The same of any of so many bytes.
  bool may_be_on_device(uint64_t address, uint64_t bytes) const {
    return address + bytes > lowest_.load(std::memory_order_relaxed) &&
           address < highest_.load(std::memory_order_relaxed);
  }
  // Whether `address` is of a __device__ or __constant__ variable; costs next to nothing where the
  // program has none.
  bool is_in_variable(uint64_t address) const {
    if (address < lowest_variable_ || address >= highest_variable_) return false;
    const MemoryRange* range = find(address);
    return range != nullptr && range->kind == MemoryKind::kGlobal;
  }
  // The range that holds `address`, or null. Pointers stay valid until that range is erased.
  const MemoryRange* find(uint64_t address) const;
  // The range that starts at `address`, or null.
  const MemoryRange* at(uint64_t address) const;

  // All allocations of device memory.
  std::map<Identity, const MemoryRange*> by_identity() const;

  // Where what an address points into begins: a range or, whether memory is mapped there or not, a
  // space. Spaces without a gap between them are one, as the program sees it. None: neither.
  std::optional<uint64_t> start_of(uint64_t address) const;
  // If the set is full, makes room for one range more where it can: in place of whole ranges it has
  // what they reach now, and those are joined that have the least between them, but no memory
  // that the host sees, too: nothing would tell the host's changes of it from the device's.
  void make_room(WriteSet& writes) const;
  // In place of views, the set has what they lead to. A whole range in a space is all that is
  // mapped in that space.
  void lead(WriteSet& writes) const;

  // How many ranges there have been: no more is there now than when it was the same.
  uint64_t lives() const { return next_life_; }
  // In order of address.
  const std::map<uint64_t, MemoryRange>& ranges() const { return ranges_; }
  uint64_t bytes_of(MemoryKind kind) const;

 private:
  struct Space {
    uint64_t begin = 0, end = 0;
  };
  Space space_of(uint64_t address) const;  // empty: there is none
  Space reach_of(const WriteSet::Range& range) const;
  bool has_host_memory(Space part) const;
  void lead(Space part, WriteSet& writes) const;

  std::map<uint64_t, MemoryRange> ranges_;  // by address
  std::map<uint64_t, uint64_t> spaces_;     // address -> size
  uint64_t next_life_ = 1;
  // Bounds of all addresses that were ever on the device.
  std::atomic<uint64_t> lowest_{UINT64_MAX};
  std::atomic<uint64_t> highest_{0};
  // Bounds of all addresses that were ever a kGlobal's.
  uint64_t lowest_variable_ = UINT64_MAX;
  uint64_t highest_variable_ = 0;
};

}  // namespace gpusnap
