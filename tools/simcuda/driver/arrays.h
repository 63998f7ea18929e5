// Arrays, and textures and surfaces, by handle. An array is device memory without an address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/handles.h"
#include "tools/simcuda/images.h"

namespace simcuda {

class SparseArray;

struct Array {
  CUarray handle = nullptr;
  CUcontext context = nullptr;  // that made it
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  Image image;
  std::shared_ptr<std::byte> bytes;
  bool is_level = false;                // of a mipmapped array, with which it goes
  std::shared_ptr<SparseArray> sparse;  // null: it is none, or a level of one
};

struct MipmappedArray {
  CUcontext context = nullptr;
  std::vector<std::shared_ptr<Array>> levels;
  std::shared_ptr<SparseArray> sparse;  // null: it is none
};

struct TextureObject {
  CUcontext context = nullptr;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC description{};
  Sampler sampler;
  Image memory;  // where it is of device memory
  std::vector<std::weak_ptr<Array>> levels;
};

// A texture that a module's code names: how it is bound.
struct TextureReference {
  CUcontext context = nullptr;
  uint64_t object = 0;  // its handle to kernels; 0: made by the program, no code names it
  std::mutex mutex;     // over what follows
  bool bound = false;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC description{};
  CUarray_format format = CU_AD_FORMAT_FLOAT;  // of memory in one dimension
  unsigned channels = 1;
};

struct SurfaceReference {
  uint64_t object = 0;
};

struct SurfaceObject {
  CUcontext context = nullptr;
  CUDA_RESOURCE_DESC resource{};
  std::weak_ptr<Array> array;
};

// Thread-safe.
class Arrays {
 public:
  HandleTable<CUarray, Array> arrays{0xc'0000'0000};
  HandleTable<CUmipmappedArray, MipmappedArray> mipmapped{0xd'0000'0000};

  CUtexObject add(TextureObject texture);
  CUsurfObject add(SurfaceObject surface);
  // The one of a reference, under a handle that is not of this table: its address.
  void put(uint64_t handle, TextureObject texture);
  void put(uint64_t handle, SurfaceObject surface);
  // False: there is none of that handle.
  bool find(CUtexObject handle, TextureObject* texture) const;
  bool find_surface(CUsurfObject handle, SurfaceObject* surface) const;
  bool remove(CUtexObject handle);
  bool remove_surface(CUsurfObject handle);
  // Takes away all that a context made.
  void remove_all(CUcontext context);

  // Textures and surfaces that kernels launched now can reach. Keeps the bytes of arrays.
  std::shared_ptr<const ImageTable> table() const;

 private:
  mutable std::mutex mutex_;
  uint64_t next_ = 0x1000;
  std::map<uint64_t, TextureObject> textures_;
  std::map<uint64_t, SurfaceObject> surfaces_;
};

struct Driver;
// Describes a texture of the resource, or returns why there is none.
CUresult describe_texture(Driver& state, CUcontext context, const CUDA_RESOURCE_DESC& resource,
                          const CUDA_TEXTURE_DESC& description, TextureObject* texture);

// False: not a format that arrays have here.
bool texel_format(CUarray_format format, unsigned channels, TexelFormat* texel);

}  // namespace simcuda
