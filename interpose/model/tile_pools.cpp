#include "interpose/model/tile_pools.h"

#include <algorithm>
#include <string>
#include <utility>

namespace gpusnap {

namespace {
constexpr uint64_t kTileBytes = TileMap::kTileBytes;
// In elements of 16 bytes.
constexpr unsigned kTileSide = 64;
// Windows are as many tiles wide, which is 2 MiB a row, and as many high as textures may be on all
// devices: 1 GiB.
constexpr unsigned kColumns = 32;
constexpr uint64_t kRowBytes = kColumns * kTileBytes;
constexpr uint64_t kMostRows = 512;
constexpr uint64_t kWindowBytes = kMostRows * kRowBytes;
constexpr size_t kMostInfos = 1024;  // in a call

Status status_of(const Driver& driver, const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return {};
  return {result == CUDA_ERROR_OUT_OF_MEMORY ? Code::kNoSpace : Code::kUnsupported,
          std::string(what) + ": " + error_name(driver, result)};
}

CUarrayMapInfo tile_info(CUarray array, uint64_t column, uint64_t row, unsigned side, int device) {
  CUarrayMapInfo info{};
  info.resourceType = CU_RESOURCE_TYPE_ARRAY;
  info.resource.array = array;
  info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  info.subresource.sparseLevel = {.level = 0,
                                  .layer = 0,
                                  .offsetX = static_cast<unsigned>(column) * side,
                                  .offsetY = static_cast<unsigned>(row) * side,
                                  .offsetZ = 0,
                                  .extentWidth = side,
                                  .extentHeight = side,
                                  .extentDepth = 1};
  info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  info.deviceBitMask = 1u << device;
  return info;
}

void map_to(CUarrayMapInfo& info, CUmemGenericAllocationHandle handle, uint64_t offset) {
  info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  info.memHandle.memHandle = handle;
  info.offset = offset;
}

// An array of elements of one or four channels, whose tiles are squares.
CUDA_ARRAY3D_DESCRIPTOR square_tiles(size_t width, size_t height, unsigned channels) {
  return {.Width = width,
          .Height = height,
          .Depth = 0,
          .Format = CU_AD_FORMAT_UNSIGNED_INT32,
          .NumChannels = channels,
          .Flags = CUDA_ARRAY3D_SPARSE};
}

CUresult make_sparse(const Driver& driver, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned side,
                     CUarray* array) {
  const CUresult made = driver.cuArray3DCreate_v2(array, &shape);
  if (made != CUDA_SUCCESS) return made;
  CUDA_ARRAY_SPARSE_PROPERTIES found{};
  const CUresult asked = driver.cuArrayGetSparseProperties(&found, *array);
  const bool fits = found.tileExtent.width == side && found.tileExtent.height == side &&
                    found.tileExtent.depth == 1 && found.miptailSize == 0;
  if (asked == CUDA_SUCCESS && fits) return CUDA_SUCCESS;
  (void)driver.cuArrayDestroy(*array);
  return asked == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : asked;
}

using Tile = std::vector<uint32_t>;

Tile pattern(uint32_t seed) {
  Tile words(kTileBytes / sizeof(uint32_t));
  for (uint32_t& word : words) word = seed = seed * 1664525 + 1013904223;
  return words;
}

// The first tile of an array whose rows of a tile are that long.
CUresult move_tile(const Driver& driver, bool in, CUarray array, uint64_t row_bytes, Tile& tile,
                   CUstream stream) {
  CUDA_MEMCPY3D copy{};
  copy.WidthInBytes = copy.srcPitch = copy.dstPitch = row_bytes;
  copy.Height = copy.srcHeight = copy.dstHeight = kTileBytes / row_bytes;
  copy.Depth = 1;
  (in ? copy.srcMemoryType : copy.dstMemoryType) = CU_MEMORYTYPE_HOST;
  (in ? copy.dstMemoryType : copy.srcMemoryType) = CU_MEMORYTYPE_ARRAY;
  (in ? copy.dstArray : copy.srcArray) = array;
  if (in) {
    copy.srcHost = tile.data();
  } else {
    copy.dstHost = tile.data();
  }
  const CUresult result = driver.cuMemcpy3DAsync_v2(&copy, stream);
  const CUresult done = driver.cuStreamSynchronize(stream);
  return result == CUDA_SUCCESS ? done : result;
}
}  // namespace

CUDA_ARRAY3D_DESCRIPTOR TilePools::window_shape(uint64_t size, size_t number) {
  const uint64_t rows = std::min(kMostRows, (size - number * kWindowBytes) / kRowBytes);
  return square_tiles(size_t{kColumns} * kTileSide, rows * kTileSide, 4);
}

Status TilePools::open(CUmemGenericAllocationHandle handle, uint64_t size, int device,
                       CUcontext context, std::vector<CUarray>* windows) const {
  if (driver_.cuMemMapArrayAsync == nullptr || driver_.cuArrayGetSparseProperties == nullptr ||
      driver_.cuArray3DCreate_v2 == nullptr || driver_.cuArrayDestroy == nullptr ||
      driver_.cuStreamDestroy_v2 == nullptr || driver_.cuMemcpy3DAsync_v2 == nullptr) {
    return {Code::kUnsupported, "this driver has no sparse arrays"};
  }
  if (size == 0 || size % kRowBytes != 0) {
    return {Code::kUnsupported, std::to_string(size) + " bytes are no multiple of 2 MiB"};
  }
  const CurrentContext current(driver_, context);
  const RelaxedCapture relaxed(driver_);
  CUstream stream = nullptr;
  Status status = status_of(driver_, "making a stream",
                            driver_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (!status.ok()) return status;
  for (uint64_t offset = 0; offset < size && status.ok(); offset += kWindowBytes) {
    status = open_window(handle, offset, window_shape(size, offset / kWindowBytes), device, stream,
                         windows);
  }
  if (status.ok()) status = try_window(handle, windows->front(), device, stream);
  (void)driver_.cuStreamDestroy_v2(stream);
  if (!status.ok()) close(context, std::exchange(*windows, {}));
  return status;
}

Status TilePools::open_window(CUmemGenericAllocationHandle handle, uint64_t offset,
                              const CUDA_ARRAY3D_DESCRIPTOR& shape, int device, CUstream stream,
                              std::vector<CUarray>* windows) const {
  CUarray window = nullptr;
  CUresult result = make_sparse(driver_, shape, kTileSide, &window);
  if (result != CUDA_SUCCESS) {
    return status_of(driver_, "making a sparse array for a checkpoint", result);
  }
  windows->push_back(window);
  // Tile by tile: nobody documents the order of those of a box.
  const uint64_t count = kColumns * shape.Height / kTileSide;
  std::vector<CUarrayMapInfo> infos;
  for (uint64_t tile = 0; tile < count && result == CUDA_SUCCESS; ++tile) {
    infos.push_back(tile_info(window, tile % kColumns, tile / kColumns, kTileSide, device));
    map_to(infos.back(), handle, offset + tile * kTileBytes);
    if (infos.size() < kMostInfos && tile + 1 < count) continue;
    result = driver_.cuMemMapArrayAsync(infos.data(), static_cast<unsigned>(infos.size()), stream);
    infos.clear();
  }
  const CUresult done = driver_.cuStreamSynchronize(stream);
  return status_of(driver_, "mapping tiles for a checkpoint",
                   result == CUDA_SUCCESS ? done : result);
}

// As a checkpoint and its restore do: what is written through an array of another kind, as the
// program's may be, is read through the window, overwritten, and put back.
Status TilePools::try_window(CUmemGenericAllocationHandle handle, CUarray window, int device,
                             CUstream stream) const {
  constexpr unsigned kProbeSide = 2 * kTileSide;  // of elements of 4 bytes
  constexpr uint64_t kRow = kTileSide * 16, kProbeRow = uint64_t{kProbeSide} * 4;
  CUarray probe = nullptr;
  CUresult result =
      make_sparse(driver_, square_tiles(kProbeSide, kProbeSide, 1), kProbeSide, &probe);
  if (result != CUDA_SUCCESS) return status_of(driver_, "making a sparse array", result);
  CUarrayMapInfo info = tile_info(probe, 0, 0, kProbeSide, device);
  map_to(info, handle, 0);
  Tile before(kTileBytes / sizeof(uint32_t)), saved = before, lost = before, found = before;
  Tile written = pattern(1), scribbled = pattern(2);
  const auto move = [&](bool in, CUarray array, uint64_t row, Tile& tile) {
    if (result == CUDA_SUCCESS) result = move_tile(driver_, in, array, row, tile, stream);
  };
  result = driver_.cuMemMapArrayAsync(&info, 1, stream);
  move(false, window, kRow, before);
  move(true, probe, kProbeRow, written);
  move(false, window, kRow, saved);
  move(true, window, kRow, scribbled);
  move(false, probe, kProbeRow, lost);
  move(true, window, kRow, saved);
  move(false, probe, kProbeRow, found);
  move(true, window, kRow, before);
  (void)driver_.cuArrayDestroy(probe);
  if (result != CUDA_SUCCESS) return status_of(driver_, "trying tiles", result);
  if (lost != written && found == written) return {};
  return {Code::kUnsupported, "this driver does not show the same memory in two sparse arrays"};
}

void TilePools::close(CUcontext context, const std::vector<CUarray>& windows) const {
  const CurrentContext current(driver_, context);
  const RelaxedCapture relaxed(driver_);
  for (CUarray window : windows) (void)driver_.cuArrayDestroy(window);
}

void TilePools::add(CUmemGenericAllocationHandle handle, CUcontext context,
                    std::vector<CUarray> windows) {
  const uint64_t number = ++count_;
  pools_[number] = {number, handle, true, context, std::move(windows)};
}

TilePool* TilePools::find(CUmemGenericAllocationHandle handle) {
  // The newest: another thread may be about to release one whose handle the driver has given again.
  for (auto at = pools_.rbegin(); at != pools_.rend(); ++at) {
    if (at->second.held && at->second.handle == handle) return &at->second;
  }
  return nullptr;
}

TilePool* TilePools::numbered(uint64_t number) {
  const auto found = pools_.find(number);
  return found == pools_.end() ? nullptr : &found->second;
}

std::vector<TilePool> TilePools::take_ended() {
  std::vector<TilePool> ended;
  for (const auto& [number, pool] : pools_) {
    if (!pool.held && tiles.tiles_of(number) == 0) ended.push_back(pool);
  }
  for (const TilePool& pool : ended) pools_.erase(pool.number);
  return ended;
}

std::vector<TilePool> TilePools::take_all() {
  std::vector<TilePool> all;
  for (auto& [number, pool] : pools_) all.push_back(std::move(pool));
  pools_.clear();
  return all;
}

bool TilePools::forget_context(CUcontext context) {
  tiles.remove_context(reinterpret_cast<uint64_t>(context));
  bool left = false;
  std::erase_if(pools_, [&](const auto& entry) {
    const TilePool& pool = entry.second;
    if (pool.context != context) return false;
    left = left || pool.held || tiles.tiles_of(pool.number) != 0;
    return true;
  });
  return left;
}

}  // namespace gpusnap
