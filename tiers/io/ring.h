// SPDX-License-Identifier: Apache-2.0
// The subset of io_uring that bulk transfers need: reads, writes, and a wait for a descriptor.
//
// It makes system calls instead of using liburing: the preloaded library must not place mappings
// between those of the program, and liburing 2.3 of today's distributions maps the ring wherever
// the kernel chooses. Kernels from 6.5 on take memory of ours, which comes from operator new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace gpusnap {

// Used by one thread, from its first request on: requests belong to the thread that submits them.
// The kernel interrupts that thread to complete them, and cancels them when it ends. It must not be
// a thread of the program.
class Ring {
 public:
  enum class Memory { kOurs, kKernels };
  static constexpr unsigned kMostEntries = 32;  // both rings of that many fit in a page

  // Makes a ring for `entries` concurrent requests, 1 to kMostEntries. Null if the kernel has no
  // io_uring or is too old (before 5.7), forbids it (seccomp, sysctl) or, with kOurs, cannot use
  // memory of ours.
  static std::unique_ptr<Ring> make(unsigned entries, Memory memory);
  // No request may be in flight: the kernel would still write its completion.
  virtual ~Ring() = default;

  // Prepares a request, which is reported with `tag` when it has ended. At most `entries` requests
  // may be prepared or in flight.
  virtual void write(int fd, uint64_t offset, const std::byte* data, uint32_t size,
                     uint64_t tag) = 0;
  virtual void read(int fd, uint64_t offset, std::byte* data, uint32_t size, uint64_t tag) = 0;
  virtual void wait_readable(int fd, uint64_t tag) = 0;
  // Submits the prepared requests and waits until a request has ended. Returns 0 or the error;
  // after an error, requests may still be prepared.
  virtual int submit_and_wait() = 0;
  // Called for each request that has ended, with its bytes or the negative error. The request is
  // removed from the ring.
  using Ended = std::function<void(uint64_t tag, int32_t result)>;
  virtual void reap(const Ended& ended) = 0;
  // Removes the prepared requests that were never submitted.
  virtual void take_back(const std::function<void(uint64_t tag)>& taken) = 0;
};

}  // namespace gpusnap
