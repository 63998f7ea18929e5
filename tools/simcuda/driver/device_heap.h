// The memory of one device: where in its address space an allocation goes, and its bytes.
//
// As on a real device, memory is committed in granules of 2 MiB; small allocations share granules,
// large ones have their own. Between any two lies a gap, so that an overrun meets nobody's memory.
// Not thread-safe; the owner serialises.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "tools/simcuda/driver/address_space.h"
#include "tools/simcuda/driver/backing.h"

namespace simcuda {

class DeviceHeap {
 public:
  struct Block {
    uint64_t address = 0;
    std::byte* host = nullptr;
    std::shared_ptr<const void> bytes;  // keeps what is at `host`, also after free()
  };
  // Variables of modules, memory of pools and of graphs have granules of their own: loading a
  // module moves no allocation, and what a pool gives back leaves a hole that nothing else keeps
  // mapped.
  enum class Use : uint8_t { kData, kVariables, kPool, kGraph };

  // Takes addresses of `space`, which others share; at most `capacity` bytes of memory.
  DeviceHeap(AddressSpace& space, int device, uint64_t capacity)
      : space_(space), device_(device), capacity_(capacity) {}

  // Junk-filled, at a multiple of 512. None when the device or the host is out of memory.
  std::optional<Block> allocate(uint64_t bytes, Use use);
  // Gives back what allocate() returned.
  void free(uint64_t address);

  // The file in which the allocation lies from now on, for other processes to map: all of it, and
  // where in it the allocation begins. None where it cannot be had. Nobody may write to what
  // shares a granule with it meanwhile.
  struct Shared {
    int fd = -1;
    uint64_t bytes = 0;
    uint64_t offset = 0;
  };
  std::optional<Shared> share(uint64_t address);

  // Committed memory that is not in an allocation of this heap (mapped by the program itself).
  bool commit(uint64_t bytes);
  void uncommit(uint64_t bytes) { committed_ -= bytes; }

  uint64_t capacity() const { return capacity_; }
  uint64_t available() const { return capacity_ - committed_; }

 private:
  struct Granule {
    Use use;
    std::shared_ptr<Backing> backing;
    std::map<uint64_t, uint64_t> holes;   // offset -> bytes
    std::map<uint64_t, uint64_t> blocks;  // offset -> bytes with the gap
  };
  struct Run {
    std::shared_ptr<Backing> backing;
    uint64_t bytes = 0;
  };

  std::optional<Block> allocate_small(uint64_t bytes, Use use);
  std::optional<Block> allocate_run(uint64_t bytes, Use use);
  std::optional<uint64_t> addresses(uint64_t bytes, Use use);
  std::map<uint64_t, Granule>::iterator add_granule(Use use);
  static std::optional<Block> carve(uint64_t base, Granule& granule, uint64_t bytes);

  AddressSpace& space_;
  int device_;
  bool has_data_ = false;  // a granule of Use::kData was ever made
  uint64_t capacity_;
  std::atomic<uint64_t> committed_{0};
  std::map<uint64_t, Granule> granules_;  // by address
  std::map<uint64_t, Run> runs_;          // by address
};

}  // namespace simcuda
