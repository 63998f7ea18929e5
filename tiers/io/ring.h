// SPDX-License-Identifier: Apache-2.0
// io_uring, as much as bulk transfers need: reads, writes, and a wait for a descriptor.
//
// By system calls, not by liburing: inside the preloaded library nothing may be mapped between the
// program's own mappings, and liburing 2.3 of today's distributions maps the ring wherever the
// kernel pleases. Kernels from 6.5 on take memory that we bring, which comes from operator new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace gpusnap {

// For one thread, from its first request on: requests belong to the thread that hands them in.
// The kernel interrupts that thread to complete them, and cancels them when it ends; no thread of
// the program may be put to that.
class Ring {
 public:
  enum class Memory { kOurs, kKernels };
  static constexpr unsigned kMostEntries = 32;  // both rings of that many fit in a page

  // Room for `entries` requests at a time, 1 to kMostEntries. Empty where the kernel has no
  // io_uring or one that is too old (before 5.7), does not allow it (seccomp, sysctl), or, with
  // kOurs, cannot use memory of ours.
  static std::unique_ptr<Ring> make(unsigned entries, Memory memory);
  // Nothing may be on its way any more: the kernel would still write down its end.
  virtual ~Ring() = default;

  // Writes down a request that comes back with `tag`. There is room: no more than `entries` are
  // written down or on their way.
  virtual void write(int fd, uint64_t offset, const std::byte* data, uint32_t size,
                     uint64_t tag) = 0;
  virtual void read(int fd, uint64_t offset, std::byte* data, uint32_t size, uint64_t tag) = 0;
  virtual void wait_readable(int fd, uint64_t tag) = 0;
  // Hands in what was written down and waits until some request has ended. 0, or the error; what
  // was written down may then still be there.
  virtual int submit_and_wait() = 0;
  // Called for each request that has ended, with its bytes or the negative error. The ring forgets
  // the request.
  using Ended = std::function<void(uint64_t tag, int32_t result)>;
  virtual void reap(const Ended& ended) = 0;
  // Takes back what was written down and never handed in.
  virtual void take_back(const std::function<void(uint64_t tag)>& taken) = 0;
};

}  // namespace gpusnap
