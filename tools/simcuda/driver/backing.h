// Host memory that stands behind simulated memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tools/simcuda/driver/address_ranges.h"

namespace simcuda {

// The unit in which memory is mapped and committed: also the granule of virtual memory management.
inline constexpr uint64_t kGranule = uint64_t{2} << 20;

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Device memory is never fresh zeros: what a program reads before it wrote is this pattern, the
// same in every run. `offset` is where in its granule the memory begins.
void fill_with_junk(std::byte* memory, uint64_t bytes, uint64_t offset);

// A mapping of our own, removed with the object. Empty when memory could not be had.
class Backing {
 public:
  Backing() = default;
  ~Backing() { reset(); }
  Backing(Backing&& other) noexcept;
  Backing& operator=(Backing&& other) noexcept;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  // `bytes`, a multiple of kGranule, that hold junk. Pages take memory once they are written.
  static Backing junk(uint64_t bytes);
  // Address space without memory, for mappings to be placed in.
  static Backing reserved(uint64_t bytes);

  // All of a file of another process, writable.
  static Backing of_file(int fd, uint64_t bytes);

  // From now on it is a file without a name, which other processes may map, too: -1 where none can
  // be had. Nobody may write to it meanwhile.
  int share();

  std::byte* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }
  // Junk again from `offset` on, whatever is mapped there; within a granule.
  bool renew(uint64_t offset, uint64_t bytes) const;

 private:
  Backing(std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  void reset();

  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  int fd_ = -1;  // of share()
};

// Memory that may be mapped several times: a file without a name.
class PhysicalMemory {
 public:
  // Holds junk. Empty when memory could not be had. `bytes` is a multiple of kGranule.
  // `device`: of which it is, for processes that import it.
  PhysicalMemory(uint64_t bytes, int device);
  // That of another process, whose file this is; takes it over.
  struct Imported {
    int fd;
  };
  explicit PhysicalMemory(Imported imported) : fd_(imported.fd) {}
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  explicit operator bool() const { return fd_ >= 0; }
  // Another descriptor of the file, for who is to share it; -1: none can be had.
  int share() const;
  // The device of memory whose file this is; nothing: it is no such file.
  static std::optional<int> device_of(int fd);
  // Maps `bytes` over reserved address space; unmap() makes that reserved again.
  bool map(std::byte* at, uint64_t bytes, uint64_t offset = 0) const;
  static bool unmap(std::byte* at, uint64_t bytes);

 private:
  int fd_ = -1;
};

// Pinned and managed memory: zeroed, at addresses that host and device share. They come from a
// region of their own that nothing else of the process uses, so that they repeat from run to run.
// Not thread-safe; the owner serialises.
class HostRegion {
 public:
  explicit HostRegion(uint64_t seed);
  // Null when memory could not be had.
  std::byte* allocate(uint64_t bytes);
  void free(std::byte* memory, uint64_t bytes);

 private:
  uint64_t low_;
  AddressRanges ranges_;
};

// A number that two different seeds are unlikely to share; 0 stays 0.
uint64_t scramble(uint64_t seed);

}  // namespace simcuda
