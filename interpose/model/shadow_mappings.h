// Mappings of our own of the physical memory that the program makes by virtual memory management.
// The program may map it anywhere, at several places, or nowhere, and for whom it likes; through
// these it can always be saved and loaded.
//
// The session's lock is held, and released while the driver is called, which is what the callers'
// `outside` does: outside([&] { ... return CUresult; }).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interpose/hook/driver.h"
#include "interpose/model/mapped_memory.h"
#include "tiers/status.h"
#include "tracker/address_arena.h"

namespace gpusnap {

class ShadowMappings {
 public:
  explicit ShadowMappings(const Driver& driver) : driver_(driver) {}

  using Place = AddressArena::Place;

  // Where `bytes` can be mapped. `wanted`: there, if it can be had, as a recording had it.
  template <class Outside>
  Result<Place> find_place(uint64_t bytes, const Place* wanted, Outside&& outside) {
    if (wanted != nullptr) {
      if (!arena_.has_chunk(wanted->chunk)) {
        (void)add_chunk(wanted->chunk_bytes, wanted->chunk, outside);
      }
      if (const auto place = arena_.take_at(wanted->address, bytes)) return *place;
    }
    auto place = arena_.take(bytes);
    if (!place) {
      const Status status = add_chunk(std::max(bytes, kChunk), 0, outside);
      if (!status.ok()) return status;
      // Another thread may have come first.
      place = arena_.take(bytes);
    }
    if (place) return *place;
    return Status(Code::kUnsupported, std::to_string(bytes) + " bytes of addresses are not there");
  }
  // For the memory's own device, readable and writable. Calls the driver alone.
  CUresult map(uint64_t address, uint64_t bytes, CUmemGenericAllocationHandle handle,
               int device) const;
  void unmap(uint64_t address, uint64_t bytes) const { (void)driver_.cuMemUnmap(address, bytes); }
  // The range is no longer mapped.
  void give_back(uint64_t address, uint64_t bytes) { arena_.give_back(address, bytes); }
  // Nothing is mapped any more, or ever again: the addresses that the driver is to be given back.
  std::vector<std::pair<uint64_t, uint64_t>> take_chunks();

 private:
  // Large enough that there are few, and address space is plenty.
  static constexpr uint64_t kChunk = uint64_t{32} << 30;

  // `at`: there or nowhere; 0: anywhere.
  template <class Outside>
  Status add_chunk(uint64_t bytes, uint64_t at, Outside&& outside) {
    CUdeviceptr address = 0;
    const CUresult result = outside([&] {
      const CUresult reserved = driver_.cuMemAddressReserve(&address, bytes, 0, at, 0);
      if (reserved != CUDA_SUCCESS || at == 0 || address == at) return reserved;
      (void)driver_.cuMemAddressFree(address, bytes);
      return CUDA_ERROR_INVALID_VALUE;
    });
    if (result != CUDA_SUCCESS) {
      return {Code::kUnsupported,
              std::to_string(bytes) +
                  " bytes of addresses cannot be reserved: " + error_name(driver_, result)};
    }
    arena_.add_chunk(address, bytes);
    return {};
  }

  const Driver& driver_;
  AddressArena arena_;
};

}  // namespace gpusnap
