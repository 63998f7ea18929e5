// Copies. The place that the bytes go to decides: into device memory they are skipped in a replay,
// and loaded at the cut; into memory that the host sees they are what the host learnt.

#include <span>

#include "interpose/handlers/handlers.h"
#include "interpose/handlers/places.h"

namespace gpusnap::handle {

namespace {
// A copy as the driver was asked for it: `to.start` may be a device address.
struct Copy {
  HostBlock to;
  uint64_t from = 0;
  // The kind of a place that the memory map does not know, as the call says.
  enum class Declared { kDevice, kHost, kEither } declared = Declared::kEither;
  bool async = false;
  CUstream stream = nullptr;
  bool from_host = false;  // as the call says
  // For an array instead: its number, which a replay must repeat.
  uint64_t to_array = 0;
  uint64_t from_array = 0;
};

Side side_of(DeviceModel& model, const Copy& copy) {
  if (copy.to_array != 0) return Side::kDevice;
  const auto address = reinterpret_cast<uint64_t>(copy.to.start);
  if (copy.declared != Copy::Declared::kEither && model.memory.find(address) == nullptr) {
    return copy.declared == Copy::Declared::kDevice ? Side::kDevice : Side::kHost;
  }
  return handle::side_of(model, address);
}

// The bytes that a copy takes from memory of the host alone: the driver has read them when the call
// returns. Memory that the device sees, too, may still be on its way there. For a box: its first
// row.
std::span<const std::byte> given(DeviceModel& model, const Copy& copy) {
  if (!copy.from_host || model.memory.find(copy.from) != nullptr) return {};
  return {reinterpret_cast<const std::byte*>(copy.from), copy.to.width};
}

CUresult replay_back(HookedCall& hooked, const Copy& copy) {
  const CUresult recorded = hooked.match_next_entry();
  if (recorded != CUDA_SUCCESS) return recorded;
  if ((hooked.entry().head.flags & kDeferred) != 0) {
    hooked.host_updates().remember_deferred(copy.to);
  } else {
    hooked.take_answer(copy.to);
  }
  return recorded;
}

// Host memory that is not pinned has its bytes when the call returns; pinned memory has them when
// the program synchronises with the copy.
template <class Real>
CUresult record_later(HookedCall& hooked, const Copy& copy, CUstream stream, Real&& real) {
  ProgramCopies::Ticket own = hooked.enter_copy();
  const ProgressMark mark = hooked.host_updates().take_mark();
  CUresult marked = CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = hooked.call_driver([&] {
    const CUresult copied = real();
    if (copied == CUDA_SUCCESS && mark.word != nullptr) {
      marked = write_mark(hooked.driver(), mark, stream);
    }
    return copied;
  });
  if (marked == CUDA_SUCCESS) {
    hooked.host_updates().defer(copy.to, mark, false, std::move(own));
    hooked.recorder().append(static_cast<uint16_t>(hooked.hook()), hooked.key, result, kDeferred,
                             nullptr, {});
    return result;
  }
  hooked.host_updates().give_back_unused(mark);
  if (result == CUDA_SUCCESS) {
    hooked.refuse(kNoProgressMark);
  } else {
    hooked.record(result);
  }
  return result;
}

template <class Real>
CUresult record_back(HookedCall& hooked, Side side, const Copy& copy, CUstream stream,
                     Real&& real) {
  if (copy.async && side == Side::kShared) return record_later(hooked, copy, stream, real);
  // A copy from device memory may be on its way still: the next synchronisation looks again.
  if (side == Side::kShared) hooked.device_may_write();
  ProgramCopies::Ticket own = hooked.enter_copy();
  const CUresult result = hooked.call_driver(real);
  own.reset();
  if (!copy.async) hooked.before_synchronised();
  hooked.record_visible(result, false, &copy.to);
  if (!copy.async) hooked.after_synchronised();
  return result;
}

template <class Real>
CUresult follow_copy(HookedCall& hooked, const Copy& copy, Real&& real) {
  const Side side = side_of(hooked.model(), copy);
  const auto to = reinterpret_cast<uint64_t>(copy.to.start);
  hooked.key.add(copy.to_array != 0 ? copy.to_array : hooked.model().known(to));
  hooked.key.add(copy.from_array != 0 ? copy.from_array : hooked.model().known(copy.from));
  hooked.key.add(copy.to.width);
  hooked.key.add(copy.to.height);
  hooked.key.add(copy.to.depth);
  const CUstream stream = copy.async ? hooked.stream(copy.stream) : nullptr;
  if (copy.async && hooked.captured()) return hooked.record_or_repeat(real);
  if (hooked.asks_writes() && copy.to_array != 0) {
    hooked.writes.add_nothing();  // a snapshot is of the array's copy
  } else if (hooked.asks_writes()) {
    hooked.writes.add_box(to, copy.to.width, copy.to.height, copy.to.pitch, copy.to.depth,
                          copy.to.slice);
  }
  if (side == Side::kDevice) {
    hooked.key.given = given(hooked.model(), copy);
    // Not before: what it says may be no memory at all.
    const auto looked_at = [&] {
      const CUresult result = real();
      if (result == CUDA_SUCCESS && !hooked.replaying()) hooked.key.look();
      return result;
    };
    if (copy.async) return hooked.record_or_skip(looked_at);
    return hooked.record_sync(false, looked_at);
  }
  return hooked.replaying() ? replay_back(hooked, copy)
                            : record_back(hooked, side, copy, stream, real);
}

HostBlock plain(uint64_t address, size_t size) {
  return plain_block(reinterpret_cast<const void*>(address), size);
}

template <class F, class... A>
CUresult plain_copy(const Call<F>& call, Copy copy, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  return follow_copy(hooked, copy, [&] { return call.real(args...); });
}

uint64_t address_of(const void* host) {
  return reinterpret_cast<uint64_t>(host);
}
}  // namespace

CUresult copy_in(const Call<CUresult(CUdeviceptr, const void*, size_t)>& call, CUdeviceptr to,
                 const void* from, size_t size) {
  return plain_copy(
      call, {plain(to, size), address_of(from), Copy::Declared::kDevice, false, nullptr, true}, to,
      from, size);
}

CUresult copy_in(const Call<CUresult(CUdeviceptr, const void*, size_t, CUstream)>& call,
                 CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  return plain_copy(
      call, {plain(to, size), address_of(from), Copy::Declared::kDevice, true, stream, true}, to,
      from, size, stream);
}

CUresult copy_back(const Call<CUresult(void*, CUdeviceptr, size_t)>& call, void* to,
                   CUdeviceptr from, size_t size) {
  return plain_copy(call, {plain_block(to, size), from, Copy::Declared::kHost, false, nullptr}, to,
                    from, size);
}

CUresult copy_back(const Call<CUresult(void*, CUdeviceptr, size_t, CUstream)>& call, void* to,
                   CUdeviceptr from, size_t size, CUstream stream) {
  return plain_copy(call, {plain_block(to, size), from, Copy::Declared::kHost, true, stream}, to,
                    from, size, stream);
}

CUresult copy_on(const Call<CUresult(CUdeviceptr, CUdeviceptr, size_t)>& call, CUdeviceptr to,
                 CUdeviceptr from, size_t size) {
  return plain_copy(call, {plain(to, size), from, Copy::Declared::kDevice, false, nullptr}, to,
                    from, size);
}

CUresult copy_on(const Call<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)>& call,
                 CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return plain_copy(call, {plain(to, size), from, Copy::Declared::kDevice, true, stream}, to, from,
                    size, stream);
}

CUresult copy_any(const Call<CUresult(CUdeviceptr, CUdeviceptr, size_t)>& call, CUdeviceptr to,
                  CUdeviceptr from, size_t size) {
  return plain_copy(call, {plain(to, size), from, Copy::Declared::kEither, false, nullptr}, to,
                    from, size);
}

CUresult copy_any(const Call<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)>& call,
                  CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return plain_copy(call, {plain(to, size), from, Copy::Declared::kEither, true, stream}, to, from,
                    size, stream);
}

namespace {
// Where a 2D or 3D copy begins on one side, pitches resolved as the driver does.
uint64_t start_of(CUmemorytype type, const void* host, CUdeviceptr device, uint64_t x, uint64_t y,
                  uint64_t z, uint64_t pitch, uint64_t slice) {
  const uint64_t base = type == CU_MEMORYTYPE_HOST ? address_of(host) : device;
  return base + z * slice + y * pitch + x;
}

Copy::Declared declared(CUmemorytype type) {
  if (type == CU_MEMORYTYPE_DEVICE) return Copy::Declared::kDevice;
  return type == CU_MEMORYTYPE_HOST ? Copy::Declared::kHost : Copy::Declared::kEither;
}

// A handle that is of no array, or that some call gave which we do not follow.
template <class Real>
CUresult unknown_array(HookedCall& hooked, const Copy& copy, Real&& real) {
  if (copy.async) (void)hooked.stream(copy.stream);
  return hooked.record_or_refuse(
      std::string(name_of(hooked.hook())) + " of an array from a call that is not followed", real);
}

template <class F, class Shape, class... A>
CUresult box_copy(const Call<F>& call, const Shape* shape, Copy (*describe)(const Shape&),
                  bool async, CUstream stream, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(shape, args...);
  if (shape == nullptr) return hooked.record_or_skip([&] { return call.real(shape, args...); });
  auto real = [&] { return call.real(shape, args...); };
  Copy copy = describe(*shape);
  copy.async = async;
  copy.stream = stream;
  copy.from_host = shape->srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_array = shape->dstMemoryType == CU_MEMORYTYPE_ARRAY;
  const bool from_array = shape->srcMemoryType == CU_MEMORYTYPE_ARRAY;
  const Arrays& arrays = hooked.model().arrays;
  if (to_array) copy.to_array = arrays.known(shape->dstArray);
  if (from_array) copy.from_array = arrays.known(shape->srcArray);
  if ((to_array && copy.to_array == 0) || (from_array && copy.from_array == 0)) {
    return unknown_array(hooked, copy, real);
  }
  return follow_copy(hooked, copy, real);
}

Copy describe_2d(const CUDA_MEMCPY2D& shape) {
  const uint64_t to_pitch = shape.dstPitch != 0 ? shape.dstPitch : shape.WidthInBytes;
  const uint64_t from_pitch = shape.srcPitch != 0 ? shape.srcPitch : shape.WidthInBytes;
  Copy copy;
  copy.to = plain(start_of(shape.dstMemoryType, shape.dstHost, shape.dstDevice, shape.dstXInBytes,
                           shape.dstY, 0, to_pitch, 0),
                  shape.WidthInBytes);
  copy.to.height = shape.Height;
  copy.to.pitch = to_pitch;
  copy.from = start_of(shape.srcMemoryType, shape.srcHost, shape.srcDevice, shape.srcXInBytes,
                       shape.srcY, 0, from_pitch, 0);
  copy.declared = declared(shape.dstMemoryType);
  return copy;
}

// Between devices, too: which context an address is of says nothing new.
template <class Shape>
Copy describe_3d(const Shape& shape) {
  const uint64_t to_pitch = shape.dstPitch != 0 ? shape.dstPitch : shape.WidthInBytes;
  const uint64_t from_pitch = shape.srcPitch != 0 ? shape.srcPitch : shape.WidthInBytes;
  const uint64_t to_slice = to_pitch * (shape.dstHeight != 0 ? shape.dstHeight : shape.Height);
  const uint64_t from_slice = from_pitch * (shape.srcHeight != 0 ? shape.srcHeight : shape.Height);
  Copy copy;
  copy.to = plain(start_of(shape.dstMemoryType, shape.dstHost, shape.dstDevice, shape.dstXInBytes,
                           shape.dstY, shape.dstZ, to_pitch, to_slice),
                  shape.WidthInBytes);
  copy.to.height = shape.Height;
  copy.to.depth = shape.Depth;
  copy.to.pitch = to_pitch;
  copy.to.slice = to_slice;
  copy.from = start_of(shape.srcMemoryType, shape.srcHost, shape.srcDevice, shape.srcXInBytes,
                       shape.srcY, shape.srcZ, from_pitch, from_slice);
  copy.declared = declared(shape.dstMemoryType);
  return copy;
}
}  // namespace

CUresult copy_2d(const Call<CUresult(const CUDA_MEMCPY2D*)>& call, const CUDA_MEMCPY2D* shape) {
  return box_copy(call, shape, describe_2d, false, nullptr);
}

CUresult copy_2d(const Call<CUresult(const CUDA_MEMCPY2D*, CUstream)>& call,
                 const CUDA_MEMCPY2D* shape, CUstream stream) {
  return box_copy(call, shape, describe_2d, true, stream, stream);
}

CUresult copy_3d(const Call<CUresult(const CUDA_MEMCPY3D*)>& call, const CUDA_MEMCPY3D* shape) {
  return box_copy(call, shape, describe_3d<CUDA_MEMCPY3D>, false, nullptr);
}

CUresult copy_3d(const Call<CUresult(const CUDA_MEMCPY3D*, CUstream)>& call,
                 const CUDA_MEMCPY3D* shape, CUstream stream) {
  return box_copy(call, shape, describe_3d<CUDA_MEMCPY3D>, true, stream, stream);
}

CUresult copy_peer(
    const Call<CUresult(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t)>& call,
    CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size) {
  return plain_copy(call, {plain(to, size), from, Copy::Declared::kDevice, false, nullptr}, to,
                    to_context, from, from_context, size);
}

CUresult copy_peer(
    const Call<CUresult(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)>& call,
    CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size,
    CUstream stream) {
  return plain_copy(call, {plain(to, size), from, Copy::Declared::kDevice, true, stream}, to,
                    to_context, from, from_context, size, stream);
}

CUresult copy_3d(const Call<CUresult(const CUDA_MEMCPY3D_PEER*)>& call,
                 const CUDA_MEMCPY3D_PEER* shape) {
  return box_copy(call, shape, describe_3d<CUDA_MEMCPY3D_PEER>, false, nullptr);
}

CUresult copy_3d(const Call<CUresult(const CUDA_MEMCPY3D_PEER*, CUstream)>& call,
                 const CUDA_MEMCPY3D_PEER* shape, CUstream stream) {
  return box_copy(call, shape, describe_3d<CUDA_MEMCPY3D_PEER>, true, stream, stream);
}

namespace {
// Copies between a row of an array and memory, or between two arrays. `copy` lacks only the arrays:
// null for an end that has an address.
template <class F, class... A>
CUresult row_copy(const Call<F>& call, Copy copy, CUarray to, CUarray from, A... args) {
  HookedCall hooked(call);
  if (hooked.passthrough()) return call.real(args...);
  auto real = [&] { return call.real(args...); };
  const Arrays& arrays = hooked.model().arrays;
  copy.to_array = to != nullptr ? arrays.known(to) : 0;
  copy.from_array = from != nullptr ? arrays.known(from) : 0;
  if ((to != nullptr && copy.to_array == 0) || (from != nullptr && copy.from_array == 0)) {
    return unknown_array(hooked, copy, real);
  }
  return follow_copy(hooked, copy, real);
}
}  // namespace

CUresult copy_array(const Call<decltype(cuMemcpyDtoA_v2)>& call, CUarray to, size_t offset,
                    CUdeviceptr from, size_t size) {
  return row_copy(call, {plain(0, size), from, Copy::Declared::kDevice}, to, nullptr, to, offset,
                  from, size);
}

CUresult copy_array(const Call<decltype(cuMemcpyAtoD_v2)>& call, CUdeviceptr to, CUarray from,
                    size_t offset, size_t size) {
  return row_copy(call, {plain(to, size), 0, Copy::Declared::kDevice}, nullptr, from, to, from,
                  offset, size);
}

CUresult copy_array(const Call<decltype(cuMemcpyHtoA_v2)>& call, CUarray to, size_t offset,
                    const void* from, size_t size) {
  return row_copy(call, {plain(0, size), address_of(from), Copy::Declared::kDevice}, to, nullptr,
                  to, offset, from, size);
}

CUresult copy_array(const Call<decltype(cuMemcpyAtoH_v2)>& call, void* to, CUarray from,
                    size_t offset, size_t size) {
  return row_copy(call, {plain_block(to, size), 0, Copy::Declared::kHost}, nullptr, from, to, from,
                  offset, size);
}

CUresult copy_array(const Call<decltype(cuMemcpyAtoA_v2)>& call, CUarray to, size_t to_offset,
                    CUarray from, size_t from_offset, size_t size) {
  return row_copy(call, {plain(0, size), 0, Copy::Declared::kDevice}, to, from, to, to_offset, from,
                  from_offset, size);
}

CUresult copy_array(const Call<decltype(cuMemcpyHtoAAsync_v2)>& call, CUarray to, size_t offset,
                    const void* from, size_t size, CUstream stream) {
  return row_copy(call, {plain(0, size), address_of(from), Copy::Declared::kDevice, true, stream},
                  to, nullptr, to, offset, from, size, stream);
}

CUresult copy_array(const Call<decltype(cuMemcpyAtoHAsync_v2)>& call, void* to, CUarray from,
                    size_t offset, size_t size, CUstream stream) {
  return row_copy(call, {plain_block(to, size), 0, Copy::Declared::kHost, true, stream}, nullptr,
                  from, to, from, offset, size, stream);
}

}  // namespace gpusnap::handle
