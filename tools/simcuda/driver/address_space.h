// SPDX-License-Identifier: Apache-2.0
//
// The addresses of device memory: a range that no host memory uses, the same in every run; or, as
// drivers of hardware have them, the process's own address space, in which host memory may be in
// the way (SIMCUDA_ADDRESSES).
//
// Not thread-safe; the owner serialises.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "tools/simcuda/driver/address_ranges.h"
#include "tools/simcuda/driver/settings.h"

namespace simcuda {

class AddressSpace {
 public:
  // The seed moves device memory; of the process's own address space only what drivers themselves
  // have in the first page, see first_offset().
  explicit AddressSpace(const Settings& settings);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // `size` bytes, a multiple of kGranule, at such a multiple, for memory that the device's driver
  // gives.
  std::optional<uint64_t> take(int device, uint64_t size);
  // The same for pools, and for reservations without a hint, which lie in one region.
  std::optional<uint64_t> take_in_region(int device, uint64_t size, uint64_t align);
  // A reservation with a hint: false where that cannot be had.
  bool take_at(uint64_t address, uint64_t size, uint64_t align);
  // Gives back the range that starts at `address`.
  void release(uint64_t address);

  // No host pointer lies here, allocated or not.
  bool is_device_address(uint64_t address) const;
  bool is_of_host() const { return of_host_; }
  // Bytes of its first page for small allocations that the driver itself uses.
  uint64_t first_offset() const { return first_offset_; }

 private:
  uint64_t device_low(int device) const;
  bool map_at(uint64_t address, uint64_t size);
  std::optional<uint64_t> map_anywhere(uint64_t size, uint64_t align);

  const bool of_host_;
  const bool hints_;
  const uint64_t high_;
  const uint64_t shift_;
  const uint64_t first_offset_;
  uint64_t next_in_region_;
  AddressRanges ranges_;
  std::map<uint64_t, uint64_t> mapped_;  // ranges that the process cannot use: start -> bytes
};

}  // namespace simcuda
