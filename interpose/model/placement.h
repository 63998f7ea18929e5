// Puts device memory at the addresses that a checkpoint recorded, by the driver's virtual memory
// management, where the program's own allocation came back at another address.
//
// One thread at a time; the context of the range must be current.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "interpose/model/mapped_memory.h"
#include "tiers/status.h"

namespace gpusnap {

class AddressPlacement {
 public:
  explicit AddressPlacement(const Driver& driver) : driver_(driver) {}

  // Makes [address, address + size) readable and writable device memory. kUnsupported with the
  // reason when that range cannot be had; nothing is changed then.
  Status place(uint64_t address, uint64_t size);
  // Memory placed from now on can be shared with other processes, if the driver can do that.
  void make_shareable() { shareable_ = true; }
  // The mapped memory that the allocation at this address lies in, in order.
  std::vector<MappedMemory> pieces(uint64_t address) const;
  // Kernels of `device` may use all placed memory from now on, as peer access lets them use the
  // driver's own allocations. For a program that asked for less, more changes nothing.
  void allow(int device);
  // Whether an allocation at this address was placed here.
  bool owns(uint64_t address) const { return placed_.contains(address); }
  // Ends a placed allocation. The caller has made sure that the device no longer uses it. Returns
  // what is to be unmapped then: by the caller, who must hold no lock, since the driver waits.
  [[nodiscard]] std::vector<MappedMemory> free(uint64_t address);

 private:
  // A mapped stretch of whole granules. Small allocations share one.
  struct Block {
    MappedMemory memory;
    uint32_t users = 0;
  };
  std::map<uint64_t, Block>::iterator first_block_touching(uint64_t address);
  void let_peer_use(const MappedMemory& memory, int device);

  const Driver& driver_;
  uint64_t granularity_ = 0;
  bool shareable_ = false;
  std::set<int> peers_;                  // that were allowed
  std::map<uint64_t, Block> blocks_;     // by address
  std::map<uint64_t, uint64_t> placed_;  // address -> size
};

}  // namespace gpusnap
