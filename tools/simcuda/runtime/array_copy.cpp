// Copies of arrays by rows, and by counts of bytes, which go on in the next row.
#include <algorithm>
#include <utility>

#include "tools/simcuda/runtime/box.h"
#include "tools/simcuda/runtime/context.h"

using namespace simcuda::runtime;

namespace {

// Rows between an array and memory, or of two arrays; offsets and widths in bytes.
struct ArrayRows {
  cudaArray_const_t dst_array;
  void* dst;
  size_t dst_pitch, dst_x, dst_y;
  cudaArray_const_t src_array;
  const void* src;
  size_t src_pitch, src_x, src_y;
  size_t width, height;
  cudaMemcpyKind kind;
};

template <class Call>
cudaError_t copy_array_rows(const ArrayRows& rows, const Call& call) {
  if (!is_kind(rows.kind)) return cudaErrorInvalidMemcpyDirection;
  if (rows.width == 0 || rows.height == 0) return cudaSuccess;
  if ((rows.src_array == nullptr && rows.width > rows.src_pitch) ||
      (rows.dst_array == nullptr && rows.width > rows.dst_pitch)) {
    return cudaErrorInvalidPitchValue;
  }
  const Side source = source_side(rows.src, rows.kind);
  const Side destination = destination_side(rows.dst, rows.kind);
  const auto handle = [](cudaArray_const_t array) {
    return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
  };
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = rows.src_array != nullptr ? CU_MEMORYTYPE_ARRAY : source.type;
  copy.srcArray = handle(rows.src_array);
  copy.srcHost = source.host;
  copy.srcDevice = source.device;
  copy.srcPitch = rows.src_pitch;
  copy.srcXInBytes = rows.src_x;
  copy.srcY = rows.src_y;
  copy.dstMemoryType = rows.dst_array != nullptr ? CU_MEMORYTYPE_ARRAY : destination.type;
  copy.dstArray = handle(rows.dst_array);
  copy.dstHost = destination.host;
  copy.dstDevice = destination.device;
  copy.dstPitch = rows.dst_pitch;
  copy.dstXInBytes = rows.dst_x;
  copy.dstY = rows.dst_y;
  copy.WidthInBytes = rows.width;
  copy.Height = rows.height;
  return call(&copy);
}

// Where a linear copy of an array begins; without an array, in memory.
struct ArrayPlace {
  cudaArray_const_t array;
  size_t x, y;  // in bytes, in rows
};

// One side of a linear copy, as far as the copy needs to know it.
struct Line {
  size_t row_bytes = 0;  // 0: memory, which has no rows
  size_t at = 0;         // bytes from the array's beginning
};

cudaError_t line_of(const Driver& driver, const ArrayPlace& place, size_t count, Line* line) {
  *line = {};
  if (place.array == nullptr) return cudaSuccess;
  CUDA_ARRAY3D_DESCRIPTOR known = {};
  const cudaError_t status = driver.cuArray3DGetDescriptor(
      &known, reinterpret_cast<CUarray>(const_cast<cudaArray_t>(place.array)));
  if (status != cudaSuccess) return status;
  line->row_bytes = known.Width * channel_bytes(known.Format) * known.NumChannels;
  const size_t rows = std::max<size_t>(known.Height, 1);
  if (place.x >= line->row_bytes || place.y >= rows) return cudaErrorInvalidValue;
  line->at = place.y * line->row_bytes + place.x;
  return count > rows * line->row_bytes - line->at ? cudaErrorInvalidValue : cudaSuccess;
}

// Null stays null: an array's side has no address.
template <class Byte>
Byte* at_byte(Byte* begin, size_t offset) {
  return begin == nullptr ? nullptr : begin + offset;
}

// Copies `count` bytes by as few rectangles as there can be: the rest of a row, whole rows, the
// beginning of one. If two arrays have rows of different sizes, each row ends a rectangle.
template <class Call>
cudaError_t copy_line(const Driver& driver, const ArrayPlace& to, void* dst, const ArrayPlace& from,
                      const void* src, size_t count, cudaMemcpyKind kind, const Call& call) {
  if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (count == 0) return cudaSuccess;
  Line target, source;
  cudaError_t status = line_of(driver, to, count, &target);
  if (status == cudaSuccess) status = line_of(driver, from, count, &source);
  const bool fit =
      target.row_bytes == 0 || source.row_bytes == 0 || target.row_bytes == source.row_bytes;
  for (size_t done = 0; status == cudaSuccess && done < count;) {
    size_t width = count - done;
    size_t rows = 1;
    bool whole = fit;
    const auto place = [&](const Line& line) -> std::pair<size_t, size_t> {
      if (line.row_bytes == 0) return {0, 0};
      const size_t x = (line.at + done) % line.row_bytes;
      width = std::min(width, line.row_bytes - x);
      whole = whole && x == 0 && width == line.row_bytes;
      return {x, (line.at + done) / line.row_bytes};
    };
    const auto [to_x, to_y] = place(target);
    const auto [from_x, from_y] = place(source);
    if (whole) rows = (count - done) / width;
    status = copy_array_rows(
        {to.array, at_byte(static_cast<char*>(dst), done), width, to_x, to_y, from.array,
         at_byte(static_cast<const char*>(src), done), width, from_x, from_y, width, rows, kind},
        call);
    done += width * rows;
  }
  return status;
}

}  // namespace

CUDART_BOTH_STREAMS(cudaMemcpy2DToArray, _ptds,
                    (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src,
                     size_t spitch, size_t width, size_t height, cudaMemcpyKind kind),
                    copy_array_rows({dst, nullptr, 0, wOffset, hOffset, nullptr, src, spitch, 0, 0,
                                     width, height, kind},
                                    [&](const CUDA_MEMCPY2D* rows) {
                                      return streams.cuMemcpy2DUnaligned(rows);
                                    }))

CUDART_BOTH_STREAMS(cudaMemcpy2DToArrayAsync, _ptsz,
                    (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src,
                     size_t spitch, size_t width, size_t height, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    copy_array_rows({dst, nullptr, 0, wOffset, hOffset, nullptr, src, spitch, 0, 0,
                                     width, height, kind},
                                    [&](const CUDA_MEMCPY2D* rows) {
                                      return streams.cuMemcpy2DAsync(rows, stream);
                                    }))

CUDART_BOTH_STREAMS(cudaMemcpy2DFromArray, _ptds,
                    (void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
                     size_t hOffset, size_t width, size_t height, cudaMemcpyKind kind),
                    copy_array_rows({nullptr, dst, dpitch, 0, 0, src, nullptr, 0, wOffset, hOffset,
                                     width, height, kind},
                                    [&](const CUDA_MEMCPY2D* rows) {
                                      return streams.cuMemcpy2DUnaligned(rows);
                                    }))

CUDART_BOTH_STREAMS(cudaMemcpy2DFromArrayAsync, _ptsz,
                    (void* dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
                     size_t hOffset, size_t width, size_t height, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    copy_array_rows({nullptr, dst, dpitch, 0, 0, src, nullptr, 0, wOffset, hOffset,
                                     width, height, kind},
                                    [&](const CUDA_MEMCPY2D* rows) {
                                      return streams.cuMemcpy2DAsync(rows, stream);
                                    }))

CUDART_BOTH_STREAMS(
    cudaMemcpy2DArrayToArray, _ptds,
    (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
     size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height, cudaMemcpyKind kind),
    copy_array_rows({dst, nullptr, 0, wOffsetDst, hOffsetDst, src, nullptr, 0, wOffsetSrc,
                     hOffsetSrc, width, height, kind},
                    [&](const CUDA_MEMCPY2D* rows) { return streams.cuMemcpy2DUnaligned(rows); }))

CUDART_BOTH_STREAMS(cudaMemcpyToArray, _ptds,
                    (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t count,
                     cudaMemcpyKind kind),
                    copy_line(driver, {dst, wOffset, hOffset}, nullptr, {}, src, count, kind,
                              [&](const CUDA_MEMCPY2D* rows) {
                                return streams.cuMemcpy2DUnaligned(rows);
                              }))

CUDART_BOTH_STREAMS(cudaMemcpyToArrayAsync, _ptsz,
                    (cudaArray_t dst, size_t wOffset, size_t hOffset, const void* src, size_t count,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    copy_line(driver, {dst, wOffset, hOffset}, nullptr, {}, src, count, kind,
                              [&](const CUDA_MEMCPY2D* rows) {
                                return streams.cuMemcpy2DAsync(rows, stream);
                              }))

CUDART_BOTH_STREAMS(cudaMemcpyFromArray, _ptds,
                    (void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
                     cudaMemcpyKind kind),
                    copy_line(driver, {}, dst, {src, wOffset, hOffset}, nullptr, count, kind,
                              [&](const CUDA_MEMCPY2D* rows) {
                                return streams.cuMemcpy2DUnaligned(rows);
                              }))

CUDART_BOTH_STREAMS(cudaMemcpyFromArrayAsync, _ptsz,
                    (void* dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    copy_line(driver, {}, dst, {src, wOffset, hOffset}, nullptr, count, kind,
                              [&](const CUDA_MEMCPY2D* rows) {
                                return streams.cuMemcpy2DAsync(rows, stream);
                              }))

CUDART_BOTH_STREAMS(cudaMemcpyArrayToArray, _ptds,
                    (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
                     size_t wOffsetSrc, size_t hOffsetSrc, size_t count, cudaMemcpyKind kind),
                    copy_line(driver, {dst, wOffsetDst, hOffsetDst}, nullptr,
                              {src, wOffsetSrc, hOffsetSrc}, nullptr, count, kind,
                              [&](const CUDA_MEMCPY2D* rows) {
                                return streams.cuMemcpy2DUnaligned(rows);
                              }))
