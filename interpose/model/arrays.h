// Arrays of the program: device memory that no address leads to, so that neither kernels of ours
// nor plain copies reach it. For each there is a copy in memory of ours, which is a range of the
// memory map like any other: the snapshot is of that. Within each cut, while the device is idle,
// the copies are brought up to date; nothing else writes them, so no call has to say that it writes
// an array.
//
// Under the session's lock, but for what says otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "interpose/model/mapped_memory.h"
#include "tiers/status.h"
#include "tracker/memory_map.h"

namespace gpusnap {

class Arrays {
 public:
  Arrays(const Driver& driver, MemoryMap& memory) : driver_(driver), memory_(memory) {}

  // Empty, or why the contents of such an array cannot be followed.
  static std::string not_followed(const CUDA_ARRAY3D_DESCRIPTOR& shape);
  // The program has made one in this context. Arrays are counted by the order of these calls.
  void add(CUarray array, const CUDA_ARRAY3D_DESCRIPTOR& shape, CUcontext context);
  void add(CUmipmappedArray array, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels,
           CUcontext context);
  // A level of an array is known by this handle, too.
  void add_level(CUarray handle, CUmipmappedArray array, unsigned level);
  // It is gone. Its copy stays until the next cut: a snapshot may still need it.
  void remove(CUarray array);
  void remove(CUmipmappedArray array);
  // There are arrays, textures or surfaces, or there have been.
  void note_object() { objects_ = true; }
  bool used() const { return objects_ || count_ != 0; }
  // The value that a replay must repeat for a handle; 0: it is not known.
  uint64_t known(CUarray array) const;
  uint64_t known(CUmipmappedArray array) const;
  // Its place in the order; 0: it is not known.
  uint32_t number_of(CUarray array) const;
  uint32_t number_of(CUmipmappedArray array) const;

  // At a cut, or before a checkpoint is loaded: there is a copy of each array, and of no other.
  Status make_copies();
  enum class Direction { kToCopies, kFromCopies };
  // Copies all arrays of a context, which is current. Waits for it.
  Status move(Direction direction, CUcontext context, CUstream stream);
  std::vector<CUcontext> contexts() const;
  // Where the copy of an array is; 0 where there is none of that size.
  uint64_t copy_of(uint32_t number, uint64_t size) const;

  // Device memory of ours in the context's device, which the program is not to find missing.
  uint64_t own_bytes(CUcontext context) const;
  // No snapshot is on its way: the copies of one context, or of all, go. They are made again at the
  // next cut. The caller, who holds no lock, is to unmap them.
  [[nodiscard]] std::vector<MappedMemory> take_copies(std::optional<CUcontext> context);
  // The context has ended, and its arrays with it. No snapshot is on its way.
  [[nodiscard]] std::vector<MappedMemory> forget_context(CUcontext context);

 private:
  struct Level {
    uint64_t width = 0;  // bytes
    uint64_t height = 1, depth = 1;
    uint64_t pitch = 0;   // in the copy
    uint64_t offset = 0;  // likewise
  };
  struct Array {
    CUarray handle = nullptr;  // null: it has levels
    CUmipmappedArray mipmapped = nullptr;
    CUcontext context = nullptr;
    std::vector<Level> levels;  // none: it is sparse, and holds nothing itself
    uint64_t bytes = 0;         // of the copy
    MappedMemory copy;
  };
  struct Place {
    uint32_t number = 0;
    unsigned level = 0;
  };

  void add(Array array, CUDA_ARRAY3D_DESCRIPTOR shape, unsigned levels);
  void retire(uint32_t number);
  Status make_copy(uint32_t number, Array& array);
  CUresult copy_level(Direction direction, const Array& array, size_t level, CUstream stream) const;

  const Driver& driver_;
  MemoryMap& memory_;
  std::map<uint32_t, Array> arrays_;  // by number, from 1 on
  std::map<CUarray, Place> by_handle_;
  std::map<CUmipmappedArray, uint32_t> by_mipmapped_;
  uint32_t count_ = 0;
  bool objects_ = false;
  std::vector<std::pair<CUcontext, MappedMemory>> retired_;
};

}  // namespace gpusnap
