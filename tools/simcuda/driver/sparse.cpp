#include "tools/simcuda/driver/sparse.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace simcuda {
namespace {

// The standard shapes of Vulkan and Direct3D: 64 KiB, halved along one dimension after the other as
// elements grow.
void tile_extent(const Image& image, uint32_t (&extent)[3]) {
  const bool flat = image.dimensions == 2;
  const uint32_t flat_first[3] = {256, 256, 1}, deep_first[3] = {64, 32, 32};
  std::ranges::copy(flat ? flat_first : deep_first, extent);
  // Which dimension goes with each doubling.
  const int flat_order[4] = {1, 0, 1, 0}, deep_order[4] = {0, 2, 1, 0};
  for (int i = 0; i < std::countr_zero(image.format.bytes()); ++i) {
    extent[(flat ? flat_order : deep_order)[i]] /= 2;
  }
}

bool spans_a_tile(const Image& image, const uint32_t (&extent)[3]) {
  return image.width >= extent[0] && image.height >= extent[1] && image.depth >= extent[2];
}

// Whether [at, at + size) are whole tiles, but for those that end with the level.
bool covers_tiles(uint32_t at, uint32_t size, uint32_t tile, uint32_t whole) {
  return at < whole && size != 0 && at % tile == 0 &&
         uint64_t{at} + size <= pieces(whole, tile) * tile &&
         (size % tile == 0 || at + size == whole);
}

}  // namespace

std::shared_ptr<SparseArray> SparseArray::make(std::vector<Image>* levels) {
  auto made = std::make_shared<SparseArray>();
  tile_extent(levels->front(), made->tile_);
  made->layered_ = levels->front().layered;
  const auto& tile = made->tile_;
  uint64_t tail_bytes = 0;
  std::vector<uint64_t> places;  // in tiles or, in the tail, in bytes
  for (Image& image : *levels) {
    if (!spans_a_tile(image, tile)) {
      places.push_back(tail_bytes);
      tail_bytes += image.slice * image.depth;
      continue;
    }
    image.tile = {tile[0] * image.format.bytes(), tile[1], tile[2]};
    const Level level{made->tail_,
                      image.width,
                      image.height,
                      image.depth,
                      static_cast<uint32_t>(pieces(image.width, tile[0])),
                      static_cast<uint32_t>(pieces(image.height, tile[1])),
                      static_cast<uint32_t>(pieces(image.depth, tile[2]))};
    places.push_back(made->tail_);
    made->tail_ += uint64_t{level.columns} * level.rows * level.planes;
    made->levels_.push_back(level);
  }
  made->tail_tiles_ = pieces(tail_bytes, kTileBytes);
  const uint64_t tiles = made->tail_ + made->tail_tiles_;
  made->mapped_.resize(tiles);
  made->space_ = Backing::junk(round_up(tiles * kTileBytes, kGranule));
  if (!made->space_) return nullptr;
  for (size_t i = 0; i < levels->size(); ++i) {
    const bool in_tail = (*levels)[i].tile.row == 0;
    (*levels)[i].host =
        made->data() + (in_tail ? made->tail_ * kTileBytes + places[i] : places[i] * kTileBytes);
  }
  return made;
}

CUDA_ARRAY_SPARSE_PROPERTIES SparseArray::properties() const {
  CUDA_ARRAY_SPARSE_PROPERTIES properties{};
  properties.tileExtent = {tile_[0], tile_[1], tile_[2]};
  properties.miptailFirstLevel = static_cast<unsigned>(levels_.size());
  properties.miptailSize = tail_tiles_ * kTileBytes;
  if (layered_ && tail_tiles_ != 0) properties.flags = CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL;
  return properties;
}

bool SparseArray::find(const CUarrayMapInfo& info, std::vector<uint64_t>* tiles) const {
  if (info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL) {
    return find_box(info, tiles);
  }
  const auto& tail = info.subresource.miptail;
  if (info.subresourceType != CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL || tail.layer != 0 ||
      tail.size == 0 || tail.offset % kTileBytes != 0 || tail.size % kTileBytes != 0 ||
      tail.offset / kTileBytes > tail_tiles_ ||
      tail.size / kTileBytes > tail_tiles_ - tail.offset / kTileBytes) {
    return false;
  }
  for (uint64_t i = 0; i < tail.size / kTileBytes; ++i) {
    tiles->push_back(tail_ + tail.offset / kTileBytes + i);
  }
  return true;
}

bool SparseArray::find_box(const CUarrayMapInfo& info, std::vector<uint64_t>* tiles) const {
  const auto& box = info.subresource.sparseLevel;
  if (box.level >= levels_.size()) return false;
  const Level& level = levels_[box.level];
  if (!covers_tiles(box.offsetX, box.extentWidth, tile_[0], level.width) ||
      !covers_tiles(box.offsetY, box.extentHeight, tile_[1], level.height) ||
      !covers_tiles(box.offsetZ, box.extentDepth, tile_[2], layered_ ? 1 : level.depth) ||
      box.layer >= (layered_ ? level.planes : 1)) {
    return false;
  }
  const uint64_t first[3] = {box.offsetX / tile_[0], box.offsetY / tile_[1],
                             box.offsetZ / tile_[2] + box.layer};
  const uint64_t count[3] = {pieces(box.extentWidth, tile_[0]), pieces(box.extentHeight, tile_[1]),
                             pieces(box.extentDepth, tile_[2])};
  for (uint64_t z = first[2]; z < first[2] + count[2]; ++z) {
    for (uint64_t y = first[1]; y < first[1] + count[1]; ++y) {
      for (uint64_t x = first[0]; x < first[0] + count[0]; ++x) {
        tiles->push_back(level.first + (z * level.rows + y) * level.columns + x);
      }
    }
  }
  return true;
}

bool SparseArray::map(uint64_t tile, std::shared_ptr<const Physical> memory, uint64_t offset) {
  std::lock_guard lock(mutex_);
  if (!memory->memory.map(data() + tile * kTileBytes, kTileBytes, offset)) return false;
  mapped_[tile] = std::move(memory);
  return true;
}

bool SparseArray::unmap(uint64_t tile) {
  std::lock_guard lock(mutex_);
  if (!space_.renew(tile * kTileBytes, kTileBytes)) return false;
  mapped_[tile] = nullptr;
  return true;
}

}  // namespace simcuda
