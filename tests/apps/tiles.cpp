// Tiles of memory that wander through sparse arrays: from one place to another, into a level of a
// mipmapped array, twice into one array, and for some steps nowhere; one is its tail. Pools of them
// come, and are released while they are mapped. Nothing but the tiles carries state from step to
// step.
#include "tiles.h"

#include <memory>
#include <optional>

#include "app.h"
#include "tiles_ptx.h"

namespace app {

constexpr uint64_t kTileBytes = kTileCells * sizeof(unsigned);
constexpr size_t kPoolBytes = 2 << 20;
constexpr unsigned kPlaces = 4;  // of a sheet, which is so many tiles wide
constexpr unsigned kEdge = 40;   // elements of each row in the last one
constexpr unsigned kTailSide = kTileSide / 2;
// Two pools, one for each tile that has moved, the one that is left behind, and some of others'.
constexpr size_t kMostMemory = 12 * kPoolBytes;

class Pool {
 public:
  Pool() {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    CHECK(cuMemCreate(&handle_, kPoolBytes, &properties, 0));
  }
  ~Pool() { release(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  void release() {
    if (handle_ != 0) CHECK(cuMemRelease(handle_));
    handle_ = 0;
  }
  CUmemGenericAllocationHandle handle() const { return handle_; }

 private:
  CUmemGenericAllocationHandle handle_ = 0;
};

// The cells lie in rows of kTileSide, whatever the tile is mapped into.
struct Tile {
  std::shared_ptr<Pool> pool;
  uint64_t offset = 0;
  std::vector<unsigned> cells = std::vector<unsigned>(kTileCells, 0);
};

CUsurfObject surface_of(CUarray array) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUsurfObject surface = 0;
  CHECK(cuSurfObjectCreate(&surface, &resource));
  return surface;
}

CUarrayMapInfo info_of(const Tile* tile) {
  CUarrayMapInfo info{};
  info.memOperationType = tile == nullptr ? CU_MEM_OPERATION_TYPE_UNMAP : CU_MEM_OPERATION_TYPE_MAP;
  info.deviceBitMask = 1;
  if (tile == nullptr) return info;
  info.memHandle.memHandle = tile->pool->handle();
  info.offset = tile->offset;
  return info;
}

struct Box {
  CUarray array;
  CUsurfObject surface;
  unsigned left, width, height;
};

// A sparse array of one row of tiles, the last of which is cut off.
class Sheet {
 public:
  Sheet() {
    const CUDA_ARRAY3D_DESCRIPTOR shape{(kPlaces - 1) * kTileSide + kEdge,
                                        kTileSide,
                                        0,
                                        CU_AD_FORMAT_UNSIGNED_INT32,
                                        1,
                                        CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_SURFACE_LDST};
    CHECK(cuArray3DCreate_v2(&array_, &shape));
    surface_ = surface_of(array_);
  }
  ~Sheet() {
    CHECK(cuSurfObjectDestroy(surface_));
    CHECK(cuArrayDestroy(array_));
  }
  Sheet(const Sheet&) = delete;
  Sheet& operator=(const Sheet&) = delete;

  Box box(unsigned place) const {
    const unsigned width = place + 1 == kPlaces ? kEdge : kTileSide;
    return {array_, surface_, place * kTileSide, width, kTileSide};
  }
  // Null: unmaps.
  CUarrayMapInfo info(unsigned place, const Tile* tile) const {
    CUarrayMapInfo info = info_of(tile);
    const Box where = box(place);
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array_;
    info.subresource.sparseLevel = {0, 0, where.left, 0, 0, where.width, where.height, 1};
    return info;
  }

 private:
  CUarray array_ = nullptr;
  CUsurfObject surface_ = 0;
};

// A level of one tile, and a tail.
class Pyramid {
 public:
  Pyramid() {
    const CUDA_ARRAY3D_DESCRIPTOR shape{kTileSide, kTileSide,
                                        0,         CU_AD_FORMAT_UNSIGNED_INT32,
                                        1,         CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_SURFACE_LDST};
    CHECK(cuMipmappedArrayCreate(&array_, &shape, 3));
    CUDA_ARRAY_SPARSE_PROPERTIES known{};
    CHECK(cuMipmappedArrayGetSparseProperties(&known, array_));
    if (known.miptailFirstLevel != 1 || known.miptailSize != kTileBytes ||
        known.tileExtent.width != kTileSide || known.tileExtent.height != kTileSide) {
      fail("tiles", "this device has tiles of another shape");
    }
    for (unsigned level = 0; level < 2; ++level) {
      CHECK(cuMipmappedArrayGetLevel(&levels_[level], array_, level));
      surfaces_[level] = surface_of(levels_[level]);
    }
  }
  ~Pyramid() {
    for (CUsurfObject surface : surfaces_) CHECK(cuSurfObjectDestroy(surface));
    CHECK(cuMipmappedArrayDestroy(array_));
  }
  Pyramid(const Pyramid&) = delete;
  Pyramid& operator=(const Pyramid&) = delete;

  Box base() const { return {levels_[0], surfaces_[0], 0, kTileSide, kTileSide}; }
  Box tail() const { return {levels_[1], surfaces_[1], 0, kTailSide, kTailSide}; }
  CUarrayMapInfo base_info(const Tile* tile) const {
    CUarrayMapInfo info = info_of(tile);
    info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    info.resource.mipmap = array_;
    info.subresource.sparseLevel = {0, 0, 0, 0, 0, kTileSide, kTileSide, 1};
    return info;
  }
  CUarrayMapInfo tail_info(const Tile* tile) const {
    CUarrayMapInfo info = info_of(tile);
    info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    info.resource.mipmap = array_;
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    info.subresource.miptail.size = kTileBytes;
    return info;
  }

 private:
  CUmipmappedArray array_ = nullptr;
  CUarray levels_[2] = {};
  CUsurfObject surfaces_[2] = {};
};

class Tiles {
 public:
  Tiles() : module_(kTilesPtx), wear_(module_.function("wear")) {
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    sheet_ = std::make_unique<Sheet>();
    tail_ = take_tile();
    map({pyramid_.tail_info(&tail_)});
    fill(tail_, pyramid_.tail());
    for (unsigned i = 0; i < 5; ++i) {
      Tile tile = take_tile();
      map({sheet_->info(0, &tile)});
      fill(tile, sheet_->box(0));
      tiles_.push_back(std::move(tile));
    }
    map({sheet_->info(0, nullptr)});
  }
  ~Tiles() {
    sheet_.reset();
    CHECK(cuStreamDestroy_v2(stream_));
  }

  // In each step other tiles are mapped elsewhere; what is not is mapped nowhere.
  void step(unsigned step) {
    if (step % 9 == 4) replace_tile();
    if (step % 11 == 7) sheet_ = std::make_unique<Sheet>();
    std::rotate(tiles_.begin(), tiles_.begin() + 1 + step % 2, tiles_.end());
    map({sheet_->info(0, &tiles_[0]), sheet_->info(1, &tiles_[1]),
         sheet_->info(kPlaces - 1, &tiles_[2]), pyramid_.base_info(&tiles_[3])});
    wear(tiles_[0], sheet_->box(0), step);
    wear(tiles_[1], sheet_->box(1), step + 1);
    wear(tiles_[2], sheet_->box(kPlaces - 1), step + 2);
    wear(tiles_[3], pyramid_.base(), step + 3);
    wear(tail_, pyramid_.tail(), step + 4);
    // The same memory at a second place, in the order of the stream.
    map({sheet_->info(2, &tiles_[0])});
    wear(tiles_[0], sheet_->box(2), step + 5);
    if (step % 3 == 0) map({sheet_->info(0, nullptr), sheet_->info(1, nullptr)});
    if (step % 4 == 1) map({pyramid_.base_info(nullptr), pyramid_.tail_info(nullptr)});
    CHECK(cuStreamSynchronize(stream_));
    if (step % 4 == 1) map({pyramid_.tail_info(&tail_)});
  }

  std::vector<unsigned> on_host() const {
    std::vector<unsigned> cells;
    for (const Tile& tile : tiles_) cells.insert(cells.end(), tile.cells.begin(), tile.cells.end());
    const Box box = pyramid_.tail();
    for (unsigned y = 0; y < box.height; ++y) {
      const auto row = tail_.cells.begin() + y * kTileSide;
      cells.insert(cells.end(), row, row + box.width);
    }
    if (leaving_) cells.insert(cells.end(), leaving_->cells.begin(), leaving_->cells.end());
    return cells;
  }
  std::vector<unsigned> on_device() {
    std::vector<unsigned> cells;
    for (const Tile& tile : tiles_) {
      map({sheet_->info(0, &tile)});
      read(sheet_->box(0), cells);
    }
    read(pyramid_.tail(), cells);
    if (leaving_) read(refuge_.box(1), cells);
    return cells;
  }

 private:
  // Each from another place of a pool, of which there are two at a time.
  Tile take_tile() {
    if (pools_.size() < 2) pools_.push_back(std::make_shared<Pool>());
    Tile tile;
    tile.pool = pools_[taken_ % 2];
    tile.offset = taken_++ * 5 % (kPoolBytes / kTileBytes) * kTileBytes;
    return tile;
  }
  // One goes with its pool, perhaps. Another stays where it is mapped, whose pool has been released
  // and goes when the next one takes its place.
  void replace_tile() {
    auto pool = std::make_shared<Pool>();
    Tile moved;
    moved.pool = pool;
    moved.offset = 3 * kTileBytes;
    moved.cells = tiles_[4].cells;
    map({sheet_->info(0, &tiles_[4]), sheet_->info(1, &moved)});
    copy(sheet_->box(0), sheet_->box(1));
    tiles_[4] = std::move(moved);
    if (leaving_) {
      std::vector<unsigned> found;
      read(refuge_.box(1), found);
      must_equal("a tile of a pool that was released", found, leaving_->cells);
    }
    leaving_.emplace();
    leaving_->pool = std::make_shared<Pool>();
    map({refuge_.info(1, &*leaving_)});
    fill(*leaving_, refuge_.box(1));
    leaving_->pool->release();
  }
  void map(std::vector<CUarrayMapInfo> infos) {
    CHECK(cuMemMapArrayAsync(infos.data(), static_cast<unsigned>(infos.size()), stream_));
  }
  void fill(Tile& tile, const Box& box) {
    for (unsigned& cell : tile.cells) cell = random_.next();
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = tile.cells.data();
    copy.srcPitch = kTileSide * sizeof(unsigned);
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = box.array;
    copy.dstXInBytes = box.left * sizeof(unsigned);
    copy.WidthInBytes = box.width * sizeof(unsigned);
    copy.Height = box.height;
    CHECK(cuMemcpy2DAsync_v2(&copy, stream_));
    CHECK(cuStreamSynchronize(stream_));
  }
  void copy(const Box& from, const Box& to) {
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = from.array;
    copy.srcXInBytes = from.left * sizeof(unsigned);
    copy.dstArray = to.array;
    copy.dstXInBytes = to.left * sizeof(unsigned);
    copy.WidthInBytes = from.width * sizeof(unsigned);
    copy.Height = from.height;
    CHECK(cuMemcpy2DAsync_v2(&copy, stream_));
  }
  // A quarter of its rows.
  void wear(Tile& tile, const Box& box, unsigned salt) {
    const unsigned rows = box.height / 4, first = salt % 4 * rows;
    const Shape shape{
        .blocks = (box.width + 31) / 32, .threads = 32, .block_rows = rows / 8, .thread_rows = 8};
    launch(wear_, shape, stream_, box.surface, box.left, first, box.width, salt);
    for (unsigned y = first; y < first + rows; ++y) {
      for (unsigned x = 0; x < box.width; ++x) {
        unsigned& cell = tile.cells[y * kTileSide + x];
        cell = worn(cell, x, y, salt);
      }
    }
  }
  void read(const Box& box, std::vector<unsigned>& cells) {
    const size_t before = cells.size();
    cells.resize(before + size_t{box.width} * box.height);
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = box.array;
    copy.srcXInBytes = box.left * sizeof(unsigned);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = cells.data() + before;
    copy.WidthInBytes = copy.dstPitch = box.width * sizeof(unsigned);
    copy.Height = box.height;
    CHECK(cuMemcpy2DAsync_v2(&copy, stream_));
    CHECK(cuStreamSynchronize(stream_));
  }

  Module module_;
  CUfunction wear_;
  CUstream stream_ = nullptr;
  Random random_{17};
  std::vector<std::shared_ptr<Pool>> pools_;
  unsigned taken_ = 0;
  std::unique_ptr<Sheet> sheet_;
  Sheet refuge_;
  Pyramid pyramid_;
  Tile tail_;
  std::vector<Tile> tiles_;
  std::optional<Tile> leaving_;
};

size_t memory_in_use() {
  size_t left = 0, total = 0;
  CHECK(cuMemGetInfo_v2(&left, &total));
  return total - left;
}

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  const size_t before = memory_in_use();
  Tiles tiles;
  for (int step = 1; step <= steps; ++step) {
    tiles.step(static_cast<unsigned>(step));
    if (step % 8 != 0 && step != steps) continue;
    const std::vector<unsigned> found = tiles.on_device();
    std::printf("step %d: tiles %016" PRIx64 "\n", step, digest(found));
    if (memory_in_use() > before + kMostMemory) fail("tiles", "pools that ended are still there");
    must_equal("tiles", found, tiles.on_host());
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 200));
}
