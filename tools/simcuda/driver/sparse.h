// Sparse arrays: made without memory, which programs map into them tile by tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/simcuda/driver/backing.h"
#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/memory.h"
#include "tools/simcuda/images.h"

namespace simcuda {

inline constexpr uint64_t kTileBytes = 65536;

// The host's view of one: a place for each tile of each level, level by level, and behind them for
// the levels that are smaller than a tile, the tail, where these lie as other arrays do. Where
// nothing is mapped there is junk, which keeps what is written to it until something is mapped.
class SparseArray {
 public:
  // `levels`: from the largest on; each is told where it lies. Null when there is no room.
  static std::shared_ptr<SparseArray> make(std::vector<Image>* levels);

  std::byte* data() const { return space_.data(); }
  // As of a mipmapped array.
  CUDA_ARRAY_SPARSE_PROPERTIES properties() const;
  // Which tiles are meant, in the order in which they take memory. False: there are no such.
  bool find(const CUarrayMapInfo& info, std::vector<uint64_t>* tiles) const;
  // Thread-safe. Memory lives as long as it is mapped. False: the host has no room for it.
  bool map(uint64_t tile, std::shared_ptr<const Physical> memory, uint64_t offset);
  bool unmap(uint64_t tile);

 private:
  struct Level {
    uint64_t first = 0;                          // tile
    uint32_t width = 0, height = 0, depth = 0;   // elements
    uint32_t columns = 0, rows = 0, planes = 0;  // of tiles
  };
  bool find_box(const CUarrayMapInfo& info, std::vector<uint64_t>* tiles) const;

  uint32_t tile_[3] = {};  // elements
  bool layered_ = false;
  std::vector<Level> levels_;  // without those of the tail
  uint64_t tail_ = 0, tail_tiles_ = 0;
  Backing space_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Physical>> mapped_;  // by tile
};

}  // namespace simcuda
