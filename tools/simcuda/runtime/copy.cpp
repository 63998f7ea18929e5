// Copies and sets in their linear, 2D, 3D and by-symbol forms.
#include <algorithm>

#include "tools/simcuda/runtime/array_format.h"
#include "tools/simcuda/runtime/box.h"
#include "tools/simcuda/runtime/context.h"
#include "tools/simcuda/runtime/registry.h"

using namespace simcuda::runtime;

namespace {

CUdeviceptr device_address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

cudaError_t copy(const StreamCalls& streams, void* dst, const void* src, size_t count,
                 cudaMemcpyKind kind) {
  if (count == 0) return cudaSuccess;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return streams.cuMemcpyHtoD(device_address(dst), src, count);
    case cudaMemcpyDeviceToHost:
      return streams.cuMemcpyDtoH(dst, device_address(src), count);
    case cudaMemcpyDeviceToDevice:
      return streams.cuMemcpyDtoD(device_address(dst), device_address(src), count);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return streams.cuMemcpy(device_address(dst), device_address(src), count);
  }
  return cudaErrorInvalidMemcpyDirection;
}

cudaError_t copy_async(const StreamCalls& streams, void* dst, const void* src, size_t count,
                       cudaMemcpyKind kind, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return streams.cuMemcpyHtoDAsync(device_address(dst), src, count, stream);
    case cudaMemcpyDeviceToHost:
      return streams.cuMemcpyDtoHAsync(dst, device_address(src), count, stream);
    case cudaMemcpyDeviceToDevice:
      return streams.cuMemcpyDtoDAsync(device_address(dst), device_address(src), count, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      return streams.cuMemcpyAsync(device_address(dst), device_address(src), count, stream);
  }
  return cudaErrorInvalidMemcpyDirection;
}

struct Rows {
  void* dst;
  size_t dst_pitch;
  const void* src;
  size_t src_pitch;
  size_t width;
  size_t height;
  cudaMemcpyKind kind;
};

// Checks and translates; `*empty` is set where there is nothing to do.
cudaError_t describe(const Rows& rows, CUDA_MEMCPY2D* result, bool* empty) {
  if (!is_kind(rows.kind)) return cudaErrorInvalidMemcpyDirection;
  *empty = rows.width == 0 || rows.height == 0;
  if (*empty) return cudaSuccess;
  if (rows.width > rows.dst_pitch || rows.width > rows.src_pitch) return cudaErrorInvalidPitchValue;
  const Side source = source_side(rows.src, rows.kind);
  const Side destination = destination_side(rows.dst, rows.kind);
  *result = {};
  result->srcMemoryType = source.type;
  result->srcHost = source.host;
  result->srcDevice = source.device;
  result->srcPitch = rows.src_pitch;
  result->dstMemoryType = destination.type;
  result->dstHost = destination.host;
  result->dstDevice = destination.device;
  result->dstPitch = rows.dst_pitch;
  result->WidthInBytes = rows.width;
  result->Height = rows.height;
  return cudaSuccess;
}

template <class Call>
cudaError_t copy_rows(const Rows& rows, const Call& call) {
  CUDA_MEMCPY2D description;
  bool empty = false;
  const cudaError_t status = describe(rows, &description, &empty);
  return status != cudaSuccess || empty ? status : call(&description);
}

template <class Call>
cudaError_t copy_box(const Driver& driver, const cudaMemcpy3DParms* p, const Call& call) {
  CUDA_MEMCPY3D box{};
  const cudaError_t result = box_of(driver, p, &box);
  if (result != cudaSuccess) return result;
  const bool empty = box.WidthInBytes == 0 || box.Height == 0 || box.Depth == 0;
  return empty ? cudaSuccess : call(&box);
}

// Finds `count` bytes at `offset` of a variable and hands their address to `call`.
template <class Call>
cudaError_t with_symbol(const Driver& driver, const void* symbol, size_t offset, size_t count,
                        const Call& call) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const cudaError_t status = registry().find_variable(driver, symbol, &address, &bytes);
  if (status != cudaSuccess) return status;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  return call(reinterpret_cast<void*>(address + offset));
}

bool into_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}

bool out_of_device(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ||
         kind == cudaMemcpyDefault;
}

template <class Copy>
cudaError_t to_symbol(const Driver& driver, const void* symbol, size_t count, size_t offset,
                      cudaMemcpyKind kind, const Copy& call) {
  if (!into_device(kind)) return cudaErrorInvalidMemcpyDirection;
  return with_symbol(driver, symbol, offset, count, call);
}

template <class Copy>
cudaError_t from_symbol(const Driver& driver, const void* symbol, size_t count, size_t offset,
                        cudaMemcpyKind kind, const Copy& call) {
  if (!out_of_device(kind)) return cudaErrorInvalidMemcpyDirection;
  return with_symbol(driver, symbol, offset, count, call);
}

unsigned char byte_of(int value) {
  return static_cast<unsigned char>(value);
}

template <class Call>
cudaError_t set_rows(size_t pitch, size_t width, size_t height, const Call& call) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > pitch && height > 1) return cudaErrorInvalidPitchValue;
  return call();
}

// A box is set slice by slice, or at once where its slices follow each other without a gap.
template <class SetRows>
cudaError_t set_box(const cudaPitchedPtr& box, const cudaExtent& extent, const SetRows& call) {
  if (extent.width > box.pitch || extent.height > box.ysize) return cudaErrorInvalidValue;
  const bool dense = extent.height == box.ysize;
  const size_t slices = dense ? 1 : extent.depth;
  const size_t rows = dense ? extent.height * extent.depth : extent.height;
  for (size_t slice = 0; slice < slices; ++slice) {
    const CUdeviceptr address = device_address(box.ptr) + slice * box.pitch * box.ysize;
    const cudaError_t status =
        set_rows(box.pitch, extent.width, rows, [&] { return call(address, rows); });
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

}  // namespace

CUDART_BOTH_STREAMS(cudaMemcpy, _ptds,
                    (void* dst, const void* src, size_t count, cudaMemcpyKind kind),
                    copy(streams, dst, src, count, kind))

CUDART_BOTH_STREAMS(cudaMemcpyAsync, _ptsz,
                    (void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    copy_async(streams, dst, src, count, kind, stream))

// With unified addressing the addresses say which device each side is on.
cudaError_t cudaMemcpyPeer(void* dst, int, const void* src, int, size_t count) {
  return with_context([&](const Driver& driver) {
    return copy(driver.legacy, dst, src, count, cudaMemcpyDefault);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int, const void* src, int, size_t count,
                                cudaStream_t stream) {
  return with_context([&](const Driver& driver) {
    return copy_async(driver.legacy, dst, src, count, cudaMemcpyDefault, stream);
  });
}

CUDART_BOTH_STREAMS(cudaMemcpy2D, _ptds,
                    (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                     size_t height, cudaMemcpyKind kind),
                    copy_rows({dst, dpitch, src, spitch, width, height, kind},
                              [&](const CUDA_MEMCPY2D* rows) {
                                return streams.cuMemcpy2DUnaligned(rows);
                              }))

CUDART_BOTH_STREAMS(cudaMemcpy2DAsync, _ptsz,
                    (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                     size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                    copy_rows({dst, dpitch, src, spitch, width, height, kind},
                              [&](const CUDA_MEMCPY2D* rows) {
                                return streams.cuMemcpy2DAsync(rows, stream);
                              }))

CUDART_BOTH_STREAMS(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* p),
                    copy_box(driver, p,
                             [&](const CUDA_MEMCPY3D* box) { return streams.cuMemcpy3D(box); }))

CUDART_BOTH_STREAMS(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* p, cudaStream_t stream),
                    copy_box(driver, p, [&](const CUDA_MEMCPY3D* box) {
                      return streams.cuMemcpy3DAsync(box, stream);
                    }))

CUDART_BOTH_STREAMS(cudaMemcpyToSymbol, _ptds,
                    (const void* symbol, const void* src, size_t count, size_t offset,
                     cudaMemcpyKind kind),
                    to_symbol(driver, symbol, count, offset, kind,
                              [&](void* dst) { return copy(streams, dst, src, count, kind); }))

CUDART_BOTH_STREAMS(cudaMemcpyToSymbolAsync, _ptsz,
                    (const void* symbol, const void* src, size_t count, size_t offset,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    to_symbol(driver, symbol, count, offset, kind, [&](void* dst) {
                      return copy_async(streams, dst, src, count, kind, stream);
                    }))

CUDART_BOTH_STREAMS(cudaMemcpyFromSymbol, _ptds,
                    (void* dst, const void* symbol, size_t count, size_t offset,
                     cudaMemcpyKind kind),
                    from_symbol(driver, symbol, count, offset, kind, [&](const void* src) {
                      return copy(streams, dst, src, count, kind);
                    }))

CUDART_BOTH_STREAMS(cudaMemcpyFromSymbolAsync, _ptsz,
                    (void* dst, const void* symbol, size_t count, size_t offset,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    from_symbol(driver, symbol, count, offset, kind, [&](const void* src) {
                      return copy_async(streams, dst, src, count, kind, stream);
                    }))

CUDART_BOTH_STREAMS(cudaMemset, _ptds, (void* devPtr, int value, size_t count),
                    count == 0 ? cudaSuccess
                               : streams.cuMemsetD8(device_address(devPtr), byte_of(value), count))

CUDART_BOTH_STREAMS(cudaMemsetAsync, _ptsz,
                    (void* devPtr, int value, size_t count, cudaStream_t stream),
                    count == 0 ? cudaSuccess
                               : streams.cuMemsetD8Async(device_address(devPtr), byte_of(value),
                                                         count, stream))

CUDART_BOTH_STREAMS(cudaMemset2D, _ptds,
                    (void* devPtr, size_t pitch, int value, size_t width, size_t height),
                    set_rows(pitch, width, height, [&] {
                      return streams.cuMemsetD2D8(device_address(devPtr), pitch, byte_of(value),
                                                  width, height);
                    }))

CUDART_BOTH_STREAMS(cudaMemset2DAsync, _ptsz,
                    (void* devPtr, size_t pitch, int value, size_t width, size_t height,
                     cudaStream_t stream),
                    set_rows(pitch, width, height, [&] {
                      return streams.cuMemsetD2D8Async(device_address(devPtr), pitch,
                                                       byte_of(value), width, height, stream);
                    }))

CUDART_BOTH_STREAMS(cudaMemset3D, _ptds,
                    (cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent),
                    set_box(pitchedDevPtr, extent, [&](CUdeviceptr address, size_t rows) {
                      return streams.cuMemsetD2D8(address, pitchedDevPtr.pitch, byte_of(value),
                                                  extent.width, rows);
                    }))

CUDART_BOTH_STREAMS(cudaMemset3DAsync, _ptsz,
                    (cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent,
                     cudaStream_t stream),
                    set_box(pitchedDevPtr, extent, [&](CUdeviceptr address, size_t rows) {
                      return streams.cuMemsetD2D8Async(address, pitchedDevPtr.pitch, byte_of(value),
                                                       extent.width, rows, stream);
                    }))

// The runtime's structures are the driver's, under other names.
static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes) &&
              sizeof(cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP));

CUDART_BOTH_STREAMS(
    cudaMemcpyBatchAsync, _ptsz,
    (void* const* dsts, const void* const* srcs, const size_t* sizes, size_t count,
     cudaMemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, cudaStream_t stream),
    streams.cuMemcpyBatchAsync(reinterpret_cast<CUdeviceptr*>(const_cast<void**>(dsts)),
                               reinterpret_cast<CUdeviceptr*>(const_cast<void**>(srcs)),
                               const_cast<size_t*>(sizes), count,
                               reinterpret_cast<CUmemcpyAttributes*>(attrs), attrsIdxs, numAttrs,
                               stream))

CUDART_BOTH_STREAMS(cudaMemcpy3DBatchAsync, _ptsz,
                    (size_t numOps, cudaMemcpy3DBatchOp* opList, unsigned long long flags,
                     cudaStream_t stream),
                    streams.cuMemcpy3DBatchAsync(numOps,
                                                 reinterpret_cast<CUDA_MEMCPY3D_BATCH_OP*>(opList),
                                                 flags, stream))
