// Sparse arrays. A replay makes their memory and maps it as the recording did; what that holds is
// saved and loaded through arrays of our own (tile_pools.h).

#include "interpose/handlers/sparse.h"

#include <span>
#include <utility>

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/memory_calls.h"
#include "interpose/handlers/places.h"

namespace gpusnap::handle {

namespace {
template <class Array, class Ask>
void note_tiles(HookedCall& hooked, Array array, Ask&& ask) {
  const uint32_t number = hooked.model().arrays.number_of(array);
  const auto context = reinterpret_cast<uint64_t>(hooked.model().contexts.current());
  CUDA_ARRAY_SPARSE_PROPERTIES found{};
  const CUresult result = hooked.unlocked([&] { return ask(&found); });
  if (result != CUDA_SUCCESS) return hooked.refuse("a sparse array of which no tiles are told");
  const auto& tile = found.tileExtent;
  hooked.model().tile_pools.tiles.add(number, {tile.width, tile.height, tile.depth}, context);
}

uint32_t array_number(DeviceModel& model, const CUarrayMapInfo& info) {
  return info.resourceType == CU_RESOURCE_TYPE_ARRAY ? model.arrays.number_of(info.resource.array)
                                                     : model.arrays.number_of(info.resource.mipmap);
}

uint64_t pool_number(DeviceModel& model, const CUarrayMapInfo& info) {
  if (info.memOperationType != CU_MEM_OPERATION_TYPE_MAP) return 0;
  const TilePool* pool = model.tile_pools.find(info.memHandle.memHandle);
  return pool == nullptr ? 0 : pool->number;
}

bool is_tail(const CUarrayMapInfo& info) {
  return info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
}

void add_info(DeviceModel& model, const CUarrayMapInfo& info, uint64_t& hash) {
  mix(hash, {array_number(model, info), pool_number(model, info), info.offset,
             static_cast<uint64_t>(info.subresourceType),
             static_cast<uint64_t>(info.memOperationType), info.deviceBitMask});
  if (is_tail(info)) {
    const auto& tail = info.subresource.miptail;
    return mix(hash, {tail.layer, tail.offset, tail.size});
  }
  const auto& box = info.subresource.sparseLevel;
  mix(hash, {box.level, box.layer, box.offsetX, box.offsetY, box.offsetZ, box.extentWidth,
             box.extentHeight, box.extentDepth});
}

// False: it is not known what was mapped where.
bool note_info(DeviceModel& model, const CUarrayMapInfo& info) {
  TileMap& tiles = model.tile_pools.tiles;
  const uint32_t array = array_number(model, info);
  const uint64_t pool = pool_number(model, info);
  if (!tiles.has(array)) return false;
  if (pool == 0 && info.memOperationType != CU_MEM_OPERATION_TYPE_UNMAP) return false;
  if (is_tail(info)) {
    const auto& tail = info.subresource.miptail;
    tiles.map_tail(array, tail.layer, tail.offset, tail.size, pool);
    return true;
  }
  const auto& box = info.subresource.sparseLevel;
  tiles.map(array,
            {box.level,
             box.layer,
             box.offsetX,
             box.offsetY,
             box.offsetZ,
             {box.extentWidth, box.extentHeight, box.extentDepth}},
            pool);
  return true;
}

void add_pool(DeviceModel& model, CUmemGenericAllocationHandle handle, size_t size,
              CUcontext context, std::vector<CUarray> windows) {
  for (size_t i = 0; i < windows.size(); ++i) {
    CUDA_ARRAY3D_DESCRIPTOR shape = TilePools::window_shape(size, i);
    shape.Flags = 0;  // it holds what it shows
    model.arrays.add(windows[i], shape, context);
  }
  model.tile_pools.add(handle, context, std::move(windows));
}
}  // namespace

bool is_for_tiles(const CUmemAllocationProp& properties) {
  return (properties.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) != 0;
}

CUresult create_tile_pool(HookedCall& hooked, const Call<decltype(cuMemCreate)>& call,
                          CUmemGenericAllocationHandle* out, size_t size,
                          const CUmemAllocationProp& properties, unsigned long long flags) {
  hooked.key.add(static_cast<uint64_t>(properties.allocFlags.usage));
  const auto real = [&] {
    return with_room(hooked.room(), [&] { return call.real(out, size, &properties, flags); });
  };
  if (properties.allocFlags.compressionType != 0) {
    return hooked.record_or_refuse("cuMemCreate of compressed memory for tiles", real);
  }
  CUresult result = CUDA_SUCCESS;
  if (hooked.replaying()) {
    result = hooked.match_next_entry();
    if (result == CUDA_SUCCESS) hooked.repeat(real);
  } else {
    result = hooked.call_driver_in_order(MemoryOrder::Kind::kQuick, real);
    if (result != CUDA_SUCCESS) hooked.record(result);
  }
  if (result != CUDA_SUCCESS) return result;

  hooked.contexts().note_current();
  const int device = properties.location.id;
  const CUcontext context = hooked.model().contexts.on_device(device);
  std::vector<CUarray> windows;
  Status status(Code::kUnsupported, "there is no context on its device");
  if (context != nullptr) {
    (void)hooked.unlocked([&] {
      return with_room(hooked.room(), [&] {
        status = hooked.model().tile_pools.open(*out, size, device, context, &windows);
        return status.code() == Code::kNoSpace ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
      });
    });
  }
  // Another thread may have ended the recording.
  if (hooked.is_off()) {
    if (status.ok()) hooked.model().tile_pools.close(context, windows);
    return result;
  }
  if (!status.ok()) {
    hooked.refuse("cuMemCreate of memory for tiles (" + status.message() + ")");
    return result;
  }
  if (!hooked.replaying()) hooked.record(result);
  add_pool(hooked.model(), *out, size, context, std::move(windows));
  return result;
}

CUresult release_tile_pool(HookedCall& hooked, const Call<decltype(cuMemRelease)>& call,
                           CUmemGenericAllocationHandle handle, uint64_t number) {
  hooked.key.add(number);
  hooked.writes.add_nothing();  // what it holds is in our copies
  const CUresult result = hooked.record_or_repeat_in_order([&] { return call.real(handle); });
  TilePool* const pool = hooked.model().tile_pools.numbered(number);
  if (result != CUDA_SUCCESS || pool == nullptr) return result;
  pool->held = false;
  end_tile_pools(hooked);
  return result;
}

void note_sparse(HookedCall& hooked, CUarray array) {
  const auto ask = hooked.driver().cuArrayGetSparseProperties;
  note_tiles(hooked, array, [=](auto* found) {
    return ask == nullptr ? CUDA_ERROR_NOT_SUPPORTED : ask(found, array);
  });
}

void note_sparse(HookedCall& hooked, CUmipmappedArray array) {
  const auto ask = hooked.driver().cuMipmappedArrayGetSparseProperties;
  note_tiles(hooked, array, [=](auto* found) {
    return ask == nullptr ? CUDA_ERROR_NOT_SUPPORTED : ask(found, array);
  });
}

void end_tile_pools(HookedCall& hooked) {
  const std::vector<TilePool> ended = hooked.model().tile_pools.take_ended();
  if (ended.empty()) return;
  for (const TilePool& pool : ended) {
    for (CUarray window : pool.windows) hooked.model().arrays.remove(window);
  }
  (void)hooked.unlocked([&] {
    for (const TilePool& pool : ended) hooked.model().tile_pools.close(pool.context, pool.windows);
    return CUDA_SUCCESS;
  });
}

// Within a cut the device is idle, so all that was mapped is mapped.
CUresult map_tiles(const Call<decltype(cuMemMapArrayAsync)>& call, CUarrayMapInfo* given,
                   unsigned count, CUstream stream) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(given, count, stream);
  (void)hooked.stream(stream);
  const std::span<const CUarrayMapInfo> infos(given, given == nullptr ? 0 : count);
  uint64_t hash = 0;
  for (const CUarrayMapInfo& info : infos) add_info(hooked.model(), info, hash);
  hooked.key.add(uint64_t{count}, hash);
  const bool captured = hooked.captured();
  const CUresult result = hooked.record_or_repeat([&] { return call.real(given, count, stream); });
  if (hooked.is_off()) return result;
  const std::string name = name_of(hooked.hook());
  if (result != CUDA_SUCCESS) {
    if (infos.size() > 1) hooked.refuse(name + " that failed, of which some may be done,");
    return result;
  }
  if (captured) {
    hooked.refuse(name + " on a captured stream");
    return result;
  }
  for (const CUarrayMapInfo& info : infos) {
    if (note_info(hooked.model(), info)) continue;
    hooked.refuse(name + " of an array or memory that is not followed");
    return result;
  }
  end_tile_pools(hooked);
  return result;
}

}  // namespace gpusnap::handle
