// Arrays, and textures and surfaces by their handles. A replay makes and destroys them as the
// recording did; what an array holds is loaded at the cut.

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/memory_calls.h"
#include "interpose/handlers/sparse.h"
#include "interpose/services/fatal.h"
#include "interpose/services/text.h"

namespace gpusnap::handle {

namespace {
CUDA_ARRAY3D_DESCRIPTOR shape_of(const CUDA_ARRAY_DESCRIPTOR& wanted) {
  return {wanted.Width, wanted.Height, 0, wanted.Format, wanted.NumChannels, 0};
}
CUDA_ARRAY3D_DESCRIPTOR shape_of(const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
  return wanted;
}

void add_shape(CallKey& key, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  key.add(shape.Width);
  key.add(shape.Height);
  key.add(shape.Depth);
  key.add(static_cast<uint64_t>(shape.Format));
  key.add(shape.NumChannels);
  key.add(shape.Flags);
}

// False: it cannot be followed, and that has been said.
bool is_followed(HookedCall& hooked, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  const std::string why_not = Arrays::not_followed(shape);
  if (!why_not.empty()) hooked.refuse(why_not);
  return why_not.empty();
}

template <class F, class Wanted>
CUresult make_array(const Call<F>& call, CUarray* out, const Wanted* wanted) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, wanted);
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  if (wanted != nullptr) shape = shape_of(*wanted);
  add_shape(hooked.key, shape);
  const CUresult result = hooked.record_or_repeat_in_order(
      [&] { return with_room(hooked.room(), [&] { return call.real(out, wanted); }); });
  if (result == CUDA_SUCCESS && is_followed(hooked, shape)) {
    hooked.contexts().note_current();
    hooked.model().arrays.add(*out, shape, hooked.model().contexts.current());
    if ((shape.Flags & CUDA_ARRAY3D_SPARSE) != 0) note_sparse(hooked, *out);
  }
  return result;
}

template <class Array>
CUresult destroy_array(const Call<CUresult(Array)>& call, Array array) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(array);
  Arrays& arrays = hooked.model().arrays;
  hooked.key.add(arrays.known(array));
  const CUresult result = hooked.record_or_repeat_in_order([&] { return call.real(array); });
  if (result != CUDA_SUCCESS) return result;
  hooked.model().tile_pools.tiles.remove(arrays.number_of(array));
  arrays.remove(array);
  end_tile_pools(hooked);
  return result;
}

// The device may hold the handle, so that it must be the same in a replay: these calls, and those
// that end such objects, are made in the same order there.
template <class F, class... A>
CUresult make_object(const Call<F>& call, unsigned long long* out,
                     const CUDA_RESOURCE_DESC* resource, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, resource, args...);
  if (resource != nullptr) {
    hooked.check(resource->resType);
    if (resource->resType == CU_RESOURCE_TYPE_ARRAY) {
      hooked.key.add(hooked.model().arrays.known(resource->res.array.hArray));
    } else if (resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
      hooked.key.add(hooked.model().arrays.known(resource->res.mipmap.hMipmappedArray));
    } else {
      hooked.key.add(hooked.model().known(resource->res.linear.devPtr));
    }
  }
  auto real = [&] { return call.real(out, resource, args...); };
  hooked.model().arrays.note_object();
  if (!hooked.replaying()) {
    const CUresult result = hooked.call_driver_in_order(MemoryOrder::Kind::kQuick, real);
    if (result != CUDA_SUCCESS) {
      hooked.record(result);
    } else {
      hooked.record_answer(result, out, sizeof *out);
    }
    return result;
  }
  const CUresult recorded = hooked.match_next_entry();
  if (recorded != CUDA_SUCCESS) return recorded;
  hooked.repeat(real);
  unsigned long long before = 0;
  hooked.take_answer(&before, sizeof before);
  if (before != *out) {
    fatal(kExitImpossible, "the texture or surface that was " + hex_text(before) + " is " +
                               hex_text(*out) + " now, and device memory may hold its handle");
  }
  return recorded;
}
}  // namespace

CUresult array_create(const Call<decltype(cuArrayCreate_v2)>& call, CUarray* out,
                      const CUDA_ARRAY_DESCRIPTOR* wanted) {
  return make_array(call, out, wanted);
}

CUresult array_create(const Call<decltype(cuArray3DCreate_v2)>& call, CUarray* out,
                      const CUDA_ARRAY3D_DESCRIPTOR* wanted) {
  return make_array(call, out, wanted);
}

CUresult array_create(const Call<decltype(cuMipmappedArrayCreate)>& call, CUmipmappedArray* out,
                      const CUDA_ARRAY3D_DESCRIPTOR* wanted, unsigned levels) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, wanted, levels);
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  if (wanted != nullptr) shape = *wanted;
  add_shape(hooked.key, shape);
  hooked.check(levels);
  const CUresult result = hooked.record_or_repeat_in_order(
      [&] { return with_room(hooked.room(), [&] { return call.real(out, wanted, levels); }); });
  if (result == CUDA_SUCCESS && is_followed(hooked, shape)) {
    hooked.contexts().note_current();
    hooked.model().arrays.add(*out, shape, levels, hooked.model().contexts.current());
    if ((shape.Flags & CUDA_ARRAY3D_SPARSE) != 0) note_sparse(hooked, *out);
  }
  return result;
}

CUresult array_level(const Call<decltype(cuMipmappedArrayGetLevel)>& call, CUarray* out,
                     CUmipmappedArray array, unsigned level) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(out, array, level);
  hooked.key.add(hooked.model().arrays.known(array));
  hooked.check(level);
  const CUresult result = hooked.record_or_repeat([&] { return call.real(out, array, level); });
  if (result == CUDA_SUCCESS) hooked.model().arrays.add_level(*out, array, level);
  return result;
}

CUresult array_destroy(const Call<CUresult(CUarray)>& call, CUarray array) {
  return destroy_array(call, array);
}

CUresult array_destroy(const Call<CUresult(CUmipmappedArray)>& call, CUmipmappedArray array) {
  return destroy_array(call, array);
}

CUresult object_create(const Call<decltype(cuTexObjectCreate)>& call, CUtexObject* out,
                       const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture,
                       const CUDA_RESOURCE_VIEW_DESC* view) {
  return make_object(call, out, resource, texture, view);
}

CUresult object_create(const Call<decltype(cuSurfObjectCreate)>& call, CUsurfObject* out,
                       const CUDA_RESOURCE_DESC* resource) {
  return make_object(call, out, resource);
}

CUresult object_destroy(const Call<decltype(cuTexObjectDestroy)>& call, unsigned long long object) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(object);
  hooked.check(object);
  return hooked.record_or_repeat_in_order([&] { return call.real(object); });
}

}  // namespace gpusnap::handle
