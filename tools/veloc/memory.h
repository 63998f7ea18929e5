// SPDX-License-Identifier: Apache-2.0
//
// Memory of the host and of a device, and copies between them: the history's only way to CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tiers/status.h"

namespace gpusnap::veloc {

// Copies for one thread, on a stream of its own.
class Copier {
 public:
  virtual ~Copier() = default;
  // Copies begin after all that the program has given to the default stream so far.
  virtual Status follow_program() = 0;
  // May return before the bytes have moved.
  virtual Status copy(void* to, const void* from, uint64_t bytes) = 0;
  // All copies that were begun are done at return.
  virtual Status finish() = 0;
};

// Thread-safe.
class Memory {
 public:
  virtual ~Memory() = default;
  // Whether there is a device. All that follows works without one, too.
  virtual bool has_device() const = 0;
  virtual bool is_on_device(const void* memory) const = 0;
  virtual uint64_t device_bytes() const = 0;  // of the device, in all; 0 without one
  virtual Result<std::unique_ptr<Copier>> copier() = 0;
  virtual Result<std::byte*> allocate_on_device(uint64_t bytes) = 0;
  virtual void free_on_device(std::byte* memory) = 0;
  // Makes copies between this host memory and the device fast. It is never needed.
  virtual Status pin(std::byte* memory, uint64_t bytes) = 0;
  virtual void unpin(std::byte* memory) = 0;
};

// The device of the calling thread's current CUDA context; a memory without a device if the process
// has not loaded a driver or the thread has no context.
std::unique_ptr<Memory> memory_of_this_thread();
// A memory without a device.
std::unique_ptr<Memory> host_memory();

}  // namespace gpusnap::veloc
