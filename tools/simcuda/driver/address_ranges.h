// A set of non-overlapping address ranges, and the search for a free one. Always the lowest that
// fits, so that the same calls give the same addresses in every run.
//
// Not thread-safe; the owner serialises.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace simcuda {

class AddressRanges {
 public:
  // Takes [address, address + size); false when any of it is taken already, or it wraps.
  bool take_at(uint64_t address, uint64_t size);
  // Takes the lowest free range within [low, high) at a multiple of `align` (a power of two).
  std::optional<uint64_t> take(uint64_t low, uint64_t high, uint64_t size, uint64_t align);
  // Gives back the range that starts at `address`.
  void release(uint64_t address);
  // Whether the address lies in a range that is taken.
  bool contains(uint64_t address) const;

 private:
  std::map<uint64_t, uint64_t> taken_;  // start -> end
};

}  // namespace simcuda
