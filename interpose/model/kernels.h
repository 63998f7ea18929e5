// The memory that the program's kernels may write, by the program's handles of them. A kernel is
// looked at when the program first asks for a handle of it.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "interpose/hook/driver.h"
#include "interpose/services/program.h"
#include "tracker/image.h"
#include "tracker/joined_ranges.h"
#include "tracker/kernel_writes.h"
#include "tracker/memory_map.h"
#include "tracker/write_set.h"

namespace gpusnap {

class Kernels {
 public:
  // `host_begins`: see digest_arguments().
  explicit Kernels(const Driver& driver, uint64_t host_begins = host_addresses_begin())
      : driver_(driver), host_begins_(host_begins) {}

  // `module`: the number of a module or library; numbers are not used again.
  void add_code(uint64_t module, const ImageContents& image);
  void remove_code(uint64_t module);
  void add(const void* handle, uint64_t module, std::string_view name);
  void alias(const void* handle, const void* known);
  void forget(const void* handle) { handles_.erase(handle); }
  // Where a variable of the module lies; variables without an address are in no snapshot.
  void place_global(uint64_t module, const std::string& name, uint64_t address, uint64_t size);
  void forget_globals(uint64_t module);

  // Adds what a launch of `handle` with these arguments (of cuLaunchKernel) may write, and whose
  // guess that is where it is not proven. Allocates nothing.
  void add_writes(const void* handle, void** params, void** extra, const MemoryMap& memory,
                  WriteSet& writes) const;
  // digest_arguments() of a launch of `handle`.
  uint64_t digest(const void* handle, void** params, void** extra, const MemoryMap& memory) const;
  // The kernel behind a handle; null: not known.
  const KernelWrites* find(const void* handle) const;
  // By WriteSet::guesses(): the same number for all handles of a kernel.
  const std::string& name(uint32_t kernel) const { return kernels_[kernel].writes.name; }
  const KernelWrites& of_guess(uint32_t kernel) const { return kernels_[kernel].writes; }

 private:
  struct Code {
    ImageContents image;  // until a kernel is asked for
    std::optional<KernelCode> kernels;
    // Address and size by name: one in each context in which the module is.
    std::multimap<std::string, std::pair<uint64_t, uint64_t>> globals;
    JoinedRanges data;  // all of them
  };
  struct Kernel {
    uint64_t module = 0;
    KernelWrites writes;
  };
  uint32_t device_arch() const;

  const Driver& driver_;
  const uint64_t host_begins_;
  std::map<uint64_t, Code> code_;  // by module
  std::deque<Kernel> kernels_;     // by number
  std::map<std::pair<uint64_t, std::string>, uint32_t> numbers_;
  std::unordered_map<const void*, uint32_t> handles_;
};

}  // namespace gpusnap
