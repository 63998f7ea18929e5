// Sparse arrays, and the memory of their tiles. The session's lock is held.
#pragma once

#include <vector>

#include "interpose/handlers/hooked_call.h"

namespace gpusnap::handle {

bool is_for_tiles(const CUmemAllocationProp& properties);
CUresult create_tile_pool(HookedCall& hooked, const Call<decltype(cuMemCreate)>& call,
                          CUmemGenericAllocationHandle* out, size_t size,
                          const CUmemAllocationProp& properties, unsigned long long flags);
CUresult release_tile_pool(HookedCall& hooked, const Call<decltype(cuMemRelease)>& call,
                           CUmemGenericAllocationHandle handle, uint64_t number);
// The program has made one.
void note_sparse(HookedCall& hooked, CUarray array);
void note_sparse(HookedCall& hooked, CUmipmappedArray array);
// Arrays are gone: what was mapped into them alone may be, too.
void end_tile_pools(HookedCall& hooked);

}  // namespace gpusnap::handle
