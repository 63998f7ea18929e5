#include "tracker/tile_map.h"

#include <algorithm>
#include <vector>

namespace gpusnap {

namespace {
constexpr uint32_t kTail = UINT32_MAX;  // as a level

struct Span {
  uint64_t first = 0, end = 0;  // tiles
};

Span tiles(uint32_t from, uint32_t size, uint32_t tile) {
  return {from / tile, (uint64_t{from} + size + tile - 1) / tile};
}
}  // namespace

void TileMap::add(uint32_t array, Extent tile, uint64_t context) {
  tile.width = std::max(tile.width, 1u);
  tile.height = std::max(tile.height, 1u);
  tile.depth = std::max(tile.depth, 1u);
  arrays_[array] = {tile, context};
}

void TileMap::remove(uint32_t array) {
  arrays_.erase(array);
  auto at = mapped_.lower_bound({.array = array});
  while (at != mapped_.end() && at->first.array == array) {
    count_less(at->second);
    at = mapped_.erase(at);
  }
}

void TileMap::remove_context(uint64_t context) {
  std::vector<uint32_t> gone;
  for (const auto& [number, array] : arrays_) {
    if (array.context == context) gone.push_back(number);
  }
  for (const uint32_t number : gone) remove(number);
}

void TileMap::map(uint32_t array, const Box& box, uint64_t memory) {
  const auto found = arrays_.find(array);
  if (found == arrays_.end()) return;
  const Extent& tile = found->second.tile;
  const Span x = tiles(box.x, box.size.width, tile.width);
  const Span y = tiles(box.y, box.size.height, tile.height);
  const Span z = tiles(box.z, box.size.depth, tile.depth);
  Place place{.array = array, .level = box.level, .layer = box.layer};
  for (place.z = z.first; place.z < z.end; ++place.z) {
    for (place.y = y.first; place.y < y.end; ++place.y) {
      for (place.x = x.first; place.x < x.end; ++place.x) set(place, memory);
    }
  }
}

void TileMap::map_tail(uint32_t array, uint32_t layer, uint64_t offset, uint64_t size,
                       uint64_t memory) {
  Place place{.array = array, .level = kTail, .layer = layer};
  const uint64_t end = (offset + size + kTileBytes - 1) / kTileBytes;
  for (place.x = offset / kTileBytes; place.x < end; ++place.x) set(place, memory);
}

uint64_t TileMap::tiles_of(uint64_t memory) const {
  const auto found = counts_.find(memory);
  return found == counts_.end() ? 0 : found->second;
}

void TileMap::set(const Place& place, uint64_t memory) {
  const auto found = mapped_.find(place);
  if (found != mapped_.end()) {
    count_less(found->second);
    mapped_.erase(found);
  }
  if (memory == 0) return;
  mapped_.emplace(place, memory);
  ++counts_[memory];
}

void TileMap::count_less(uint64_t memory) {
  const auto found = counts_.find(memory);
  if (--found->second == 0) counts_.erase(found);
}

}  // namespace gpusnap
