// Sparse arrays: what their tiles are like, and the memory that programs map into them.

#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/sparse.h"

namespace simcuda {
namespace {

// One piece of a list, of which each tile takes the next 64 KiB of the memory.
struct Piece {
  std::shared_ptr<SparseArray> array;
  std::vector<uint64_t> tiles;
  std::shared_ptr<const Physical> memory;  // null: they are unmapped
  uint64_t offset = 0;
};

std::shared_ptr<SparseArray> find_array(const Driver& state, const CUarrayMapInfo& info) {
  if (info.resourceType == CU_RESOURCE_TYPE_ARRAY) {
    const auto array = state.arrays.arrays.find(info.resource.array);
    return array ? array->sparse : nullptr;
  }
  if (info.resourceType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) return nullptr;
  const auto array = state.arrays.mipmapped.find(info.resource.mipmap);
  return array ? array->sparse : nullptr;
}

bool has_unknown(const CUarrayMapInfo& info) {
  return info.flags != 0 ||
         std::any_of(info.reserved, std::end(info.reserved), [](auto word) { return word != 0; });
}

CUresult describe(const Driver& state, const Context& context, const CUarrayMapInfo& info,
                  Piece* piece) {
  piece->array = find_array(state, info);
  if (!piece->array || has_unknown(info) || info.deviceBitMask != 1u << context.device() ||
      !piece->array->find(info, &piece->tiles)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUmemGenericAllocationHandle handle = info.memHandle.memHandle;
  if (info.memOperationType == CU_MEM_OPERATION_TYPE_UNMAP) {
    return handle == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  piece->memory = state.memory.physical(handle);
  piece->offset = info.offset;
  const bool fits = info.memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
                    info.memHandleType == CU_MEM_HANDLE_TYPE_GENERIC && piece->memory &&
                    (piece->memory->usage & CU_MEM_CREATE_USAGE_TILE_POOL) != 0 &&
                    piece->memory->device == context.device() && info.offset % kTileBytes == 0 &&
                    info.offset <= piece->memory->bytes &&
                    piece->tiles.size() <= (piece->memory->bytes - info.offset) / kTileBytes;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool carry_out(const Piece& piece) {
  uint64_t offset = piece.offset;
  for (const uint64_t tile : piece.tiles) {
    const bool done = piece.memory == nullptr ? piece.array->unmap(tile)
                                              : piece.array->map(tile, piece.memory, offset);
    if (!done) return false;
    offset += kTileBytes;
  }
  return true;
}

}  // namespace
}  // namespace simcuda

using simcuda::Context;
using simcuda::Driver;
using simcuda::in_context;
using simcuda::Stream;

CUresult cuMemMapArrayAsync(CUarrayMapInfo* infos, unsigned count, CUstream handle) {
  return simcuda::queue_in(handle, [&](Driver& state, Context& context, Stream& stream) {
    if (infos == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    std::vector<simcuda::Piece> pieces(count);
    for (unsigned i = 0; i < count; ++i) {
      const CUresult bad = simcuda::describe(state, context, infos[i], &pieces[i]);
      if (bad != CUDA_SUCCESS) return bad;
    }
    context.submit(stream, [&context, pieces = std::move(pieces)] {
      if (!std::all_of(pieces.begin(), pieces.end(), simcuda::carry_out)) {
        context.fail(CUDA_ERROR_OUT_OF_MEMORY, "the host cannot map more tiles of sparse arrays");
      }
    });
    return CUDA_SUCCESS;
  });
}

// An array that is smaller than a tile is a tail.
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* properties, CUarray handle) {
  return in_context([&](Driver& state, Context&) {
    const auto array = state.arrays.arrays.find(handle);
    if (properties == nullptr || !array || !array->sparse) return CUDA_ERROR_INVALID_VALUE;
    *properties = array->sparse->properties();
    properties->miptailFirstLevel = 0;
    properties->flags =
        properties->miptailSize == 0 ? 0 : CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL;
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* properties,
                                             CUmipmappedArray handle) {
  return in_context([&](Driver& state, Context&) {
    const auto array = state.arrays.mipmapped.find(handle);
    if (properties == nullptr || !array || !array->sparse) return CUDA_ERROR_INVALID_VALUE;
    *properties = array->sparse->properties();
    return CUDA_SUCCESS;
  });
}
