// Addresses that we have reserved, in a few large chunks, and give to mappings of ours: side by
// side where they are asked for one after the other, and out of the way of what the program
// reserves.
//
// Pure logic: no CUDA, no threads. Not thread-safe; the owner serialises.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace gpusnap {

class AddressArena {
 public:
  struct Place {
    uint64_t address = 0;
    uint64_t chunk = 0, chunk_bytes = 0;  // in which it lies
  };

  void add_chunk(uint64_t address, uint64_t bytes);
  bool has_chunk(uint64_t address) const { return chunks_.contains(address); }
  // `bytes` in a row, the lowest that are free; none: no chunk has so many.
  std::optional<Place> take(uint64_t bytes);
  // Exactly these; none: not all of them are free.
  std::optional<Place> take_at(uint64_t address, uint64_t bytes);
  // All that a take() gave; nothing happens where there are no chunks any more.
  void give_back(uint64_t address, uint64_t bytes);
  // Address -> size.
  const std::map<uint64_t, uint64_t>& chunks() const { return chunks_; }

 private:
  using Gaps = std::map<uint64_t, uint64_t>;  // address -> size
  Place place(uint64_t address) const;
  Place cut_out(Gaps::iterator gap, uint64_t address, uint64_t bytes);

  std::map<uint64_t, uint64_t> chunks_;
  Gaps gaps_;  // none reaches from one chunk into another
};

}  // namespace gpusnap
