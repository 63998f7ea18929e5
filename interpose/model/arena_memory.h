// SPDX-License-Identifier: Apache-2.0
//
// Physical memory under the blocks of an arena (device_arena.h), in pieces of whole granules, at
// most three for a block: one that the block fills alone, and a granule at either end that it
// shares with others, so that a small block never keeps a large piece. Pieces that no block uses
// any more stay mapped, up to a bound: the next blocks are likely to be there.
//
// One thread at a time. Every function but the observers calls the driver: no lock may be held.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "interpose/model/mapped_memory.h"

namespace gpusnap {

class ArenaMemory {
 public:
  // The addresses are reserved. The driver outlives it.
  ArenaMemory(const Driver& driver, int device) : driver_(driver), device_(device) {}
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  // Backs a block. Unused pieces go where memory is short. After a failure nothing is used more.
  CUresult use(uint64_t address, uint64_t size);
  // The block has ended, and the device no longer uses it.
  void give_back(uint64_t address, uint64_t size);
  // Unmaps unused pieces until they are no more than `keep` bytes. Whether there were any.
  bool release_unused(uint64_t keep = 0);
  // Kernels of `device` may use all of it from now on.
  void allow(int device);
  // Unmaps everything, in use or not.
  void end();

  uint64_t unused() const { return unused_bytes_.load(std::memory_order_relaxed); }
  // The pieces that a block lies in, in order.
  std::vector<MappedMemory> pieces(uint64_t address, uint64_t size) const;

 private:
  struct Piece {
    MappedMemory memory;
    uint32_t users = 0;
  };
  using Pieces = std::map<uint64_t, Piece>;  // by address

  CUresult back(uint64_t begin, uint64_t end);
  CUresult map_piece(uint64_t begin, uint64_t end);
  Pieces::iterator first_touching(uint64_t address);
  Pieces::iterator unmap(Pieces::iterator piece);  // the next one

  const Driver& driver_;
  const int device_;
  std::set<int> peers_;  // that were allowed
  Pieces pieces_;
  std::set<uint64_t> unused_;  // addresses of the pieces without users
  std::atomic<uint64_t> unused_bytes_{0};
};

}  // namespace gpusnap
