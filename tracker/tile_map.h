// Which tiles of the program's sparse arrays have memory, and which: so that it is known when some
// is mapped nowhere any more. Where in that memory a tile lies is nobody's business here.
//
// Pure logic: no CUDA, no threads. Not thread-safe; the owner serialises.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

namespace gpusnap {

class TileMap {
 public:
  struct Extent {
    uint32_t width = 0, height = 0, depth = 0;  // elements
  };
  // A box of a level: whole tiles, but where the level ends.
  struct Box {
    uint32_t level = 0, layer = 0;
    uint32_t x = 0, y = 0, z = 0;
    Extent size;
  };
  static constexpr uint64_t kTileBytes = 65536;

  // Arrays and memory are known by numbers, which are not 0. `tile`: of all levels.
  void add(uint32_t array, Extent tile, uint64_t context);
  bool has(uint32_t array) const { return arrays_.contains(array); }
  // It is gone, and what was mapped into it is mapped there no more.
  void remove(uint32_t array);
  void remove_context(uint64_t context);
  // `memory`: 0 unmaps.
  void map(uint32_t array, const Box& box, uint64_t memory);
  // Maps the levels that are smaller than a tile, by bytes.
  void map_tail(uint32_t array, uint32_t layer, uint64_t offset, uint64_t size, uint64_t memory);
  // How many tiles have this memory.
  uint64_t tiles_of(uint64_t memory) const;

 private:
  struct Place {
    uint32_t array = 0, level = 0, layer = 0;
    uint64_t x = 0, y = 0, z = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Array {
    Extent tile;
    uint64_t context = 0;
  };
  void set(const Place& place, uint64_t memory);
  void count_less(uint64_t memory);

  std::map<uint32_t, Array> arrays_;
  std::map<Place, uint64_t> mapped_;
  std::map<uint64_t, uint64_t> counts_;  // by memory
};

}  // namespace gpusnap
