// SPDX-License-Identifier: Apache-2.0
// The heap of a context, from which its kernels take memory by malloc().
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace simcuda {

// First fit, in multiples of 16 bytes. Gives addresses only: the bytes are the owner's.
// Thread-safe.
class KernelHeap {
 public:
  // At [address, address + bytes) of the device, both multiples of 16.
  KernelHeap(uint64_t address, uint64_t bytes) { holes_[address] = bytes; }

  // 0 where nothing is asked for or there is no room, as malloc() has it.
  uint64_t allocate(uint64_t bytes);
  // False: no block begins there. 0 is none and is taken.
  bool free(uint64_t address);
  // Blocks that kernels have not freed.
  size_t blocks() const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> holes_;   // address -> bytes
  std::map<uint64_t, uint64_t> blocks_;  // address -> bytes
};

}  // namespace simcuda
