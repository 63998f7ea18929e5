// Memory for the tiles of sparse arrays, as cuMemCreate makes it with
// CU_MEM_CREATE_USAGE_TILE_POOL. It cannot be mapped at an address, but in sparse arrays only,
// where programs map it tile by tile, in one array or another, at several places or nowhere. So
// each pool has arrays of our own, its windows, in which all of it is mapped as long as it is
// there. To arrays.h these are arrays like others: what they hold is saved and loaded, whatever the
// program has mapped where. Its own sparse arrays hold nothing.
//
// That a tile shows the same bytes in each array is what all this stands on, and not documented.
// So it is tried in every process (try_window), and a device where it is not so has no checkpoints.
//
// Under the session's lock, but for what calls the driver.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "interpose/hook/driver.h"
#include "tiers/status.h"
#include "tracker/tile_map.h"

namespace gpusnap {

struct TilePool {
  uint64_t number =
      0;  // counted from 1, in the order in which they were made; the same in a replay
  CUmemGenericAllocationHandle handle = 0;
  bool held = true;             // by the program, which has not released it
  CUcontext context = nullptr;  // of the windows
  std::vector<CUarray> windows;
};

class TilePools {
 public:
  explicit TilePools(const Driver& driver) : driver_(driver) {}

  // These call the driver alone. The windows of a pool, in a context of its device; each of the
  // shape that window_shape() gives for its number. kUnsupported says why there can be none.
  Status open(CUmemGenericAllocationHandle handle, uint64_t size, int device, CUcontext context,
              std::vector<CUarray>* windows) const;
  void close(CUcontext context, const std::vector<CUarray>& windows) const;
  static CUDA_ARRAY3D_DESCRIPTOR window_shape(uint64_t size, size_t number);

  void add(CUmemGenericAllocationHandle handle, CUcontext context, std::vector<CUarray> windows);
  // By a handle that the program holds; null: it is none of these.
  TilePool* find(CUmemGenericAllocationHandle handle);
  TilePool* numbered(uint64_t number);
  // Takes and forgets the pools that the program neither holds nor has mapped anywhere.
  [[nodiscard]] std::vector<TilePool> take_ended();
  // All: no checkpoints are taken any more.
  [[nodiscard]] std::vector<TilePool> take_all();
  // The context has ended. True: memory may be left, and none knows what it holds.
  bool forget_context(CUcontext context);

  TileMap tiles;  // of the program's arrays; memory is known by the numbers of pools

 private:
  Status open_window(CUmemGenericAllocationHandle handle, uint64_t offset,
                     const CUDA_ARRAY3D_DESCRIPTOR& shape, int device, CUstream stream,
                     std::vector<CUarray>* windows) const;
  Status try_window(CUmemGenericAllocationHandle handle, CUarray window, int device,
                    CUstream stream) const;

  const Driver& driver_;
  std::map<uint64_t, TilePool> pools_;  // by number
  uint64_t count_ = 0;
};

}  // namespace gpusnap
