// SPDX-License-Identifier: Apache-2.0
//
// Copies of arrays that are counted in bytes, over simcuda's own driver. The tests
// do the same byte by byte.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "tools/simcuda/runtime/cudart_abi.h"

namespace {

using Bytes = std::vector<uint8_t>;

Bytes random_bytes(size_t count) {
  static std::mt19937 random(7);
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// An array of four-byte elements.
class Array {
 public:
  Array(size_t width, size_t height) : row_(width * 4), rows_(height == 0 ? 1 : height) {
    const cudaChannelFormatDesc desc =
        cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
    EXPECT_EQ(cudaMallocArray(&array_, &desc, width, height, 0), cudaSuccess);
    write(random_bytes(row_ * rows_));
  }
  ~Array() { EXPECT_EQ(cudaFreeArray(array_), cudaSuccess); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  cudaArray_t get() const { return array_; }
  size_t row() const { return row_; }
  size_t size() const { return row_ * rows_; }
  void write(const Bytes& all) {
    EXPECT_EQ(
        cudaMemcpy2DToArray(array_, 0, 0, all.data(), row_, row_, rows_, cudaMemcpyHostToDevice),
        cudaSuccess);
  }
  Bytes read() const {
    Bytes all(size());
    EXPECT_EQ(
        cudaMemcpy2DFromArray(all.data(), row_, array_, 0, 0, row_, rows_, cudaMemcpyDeviceToHost),
        cudaSuccess);
    return all;
  }

 private:
  cudaArray_t array_ = nullptr;
  size_t row_, rows_;
};

struct Piece {
  size_t x, y, count;
};
// In an array of 5 rows of 28 bytes: in one row, over the end of one, whole rows, all of it, all
// but the first bytes and the last, nothing.
constexpr Piece kPieces[] = {{4, 1, 8},   {20, 0, 24}, {0, 2, 56},  {0, 0, 140},
                             {4, 0, 132}, {27, 1, 2},  {13, 3, 40}, {0, 4, 0}};

size_t place_of(const Array& array, const Piece& piece) {
  return piece.y * array.row() + piece.x;
}

TEST(RuntimeArray, BytesGoOnInTheNextRow) {
  const Array array(7, 5);
  for (const Piece& piece : kPieces) {
    SCOPED_TRACE(piece.count);
    Bytes expected = array.read();
    const Bytes fresh = random_bytes(piece.count);
    ASSERT_EQ(cudaMemcpyToArray(array.get(), piece.x, piece.y, fresh.data(), piece.count,
                                cudaMemcpyHostToDevice),
              cudaSuccess);
    const auto at = expected.begin() + static_cast<ptrdiff_t>(place_of(array, piece));
    std::copy(fresh.begin(), fresh.end(), at);
    EXPECT_EQ(array.read(), expected);
    Bytes back(piece.count);
    ASSERT_EQ(cudaMemcpyFromArray(back.data(), array.get(), piece.x, piece.y, piece.count,
                                  cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(back, fresh);
  }
}

TEST(RuntimeArray, StreamsDoItInTheirOrder) {
  const Array array(7, 5);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, array.size()), cudaSuccess);
  for (const Piece& piece : kPieces) {
    SCOPED_TRACE(piece.count);
    Bytes expected = array.read();
    const Bytes fresh = random_bytes(piece.count);
    Bytes back(piece.count);
    ASSERT_EQ(cudaMemcpyAsync(device, fresh.data(), piece.count, cudaMemcpyDefault, stream),
              cudaSuccess);
    ASSERT_EQ(cudaMemcpyToArrayAsync(array.get(), piece.x, piece.y, device, piece.count,
                                     cudaMemcpyDeviceToDevice, stream),
              cudaSuccess);
    ASSERT_EQ(cudaMemcpyFromArrayAsync(back.data(), array.get(), piece.x, piece.y, piece.count,
                                       cudaMemcpyDefault, stream),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(back, fresh);
    const auto at = expected.begin() + static_cast<ptrdiff_t>(place_of(array, piece));
    std::copy(fresh.begin(), fresh.end(), at);
    EXPECT_EQ(array.read(), expected);
  }
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(RuntimeArray, RowsOfTwoArraysMayDiffer) {
  const Array wide(11, 4), narrow(7, 5), twin(7, 5), line(35, 0);
  struct Sides {
    const Array& to;
    const Array& from;
  };
  for (const Sides& sides : {Sides{wide, narrow}, {narrow, wide}, {twin, narrow}, {line, twin}}) {
    for (const Piece& piece : {Piece{0, 0, 28}, {4, 0, 100}, {0, 0, 140}, {12, 0, 3}}) {
      const size_t from_x = piece.count == 140 ? 0 : (piece.x + 8) % sides.from.row();
      SCOPED_TRACE(piece.count);
      Bytes expected = sides.to.read();
      const Bytes all = sides.from.read();
      ASSERT_EQ(cudaMemcpyArrayToArray(sides.to.get(), piece.x, 0, sides.from.get(), from_x, 0,
                                       piece.count, cudaMemcpyDeviceToDevice),
                cudaSuccess);
      for (size_t i = 0; i < piece.count; ++i) expected[piece.x + i] = all[from_x + i];
      EXPECT_EQ(sides.to.read(), expected);
    }
  }
}

TEST(RuntimeArray, ThePerThreadFormsAreThere) {
  const Array array(7, 5), other(7, 5);
  const Bytes fresh = random_bytes(array.size());
  Bytes back(array.size());
  ASSERT_EQ(
      cudaMemcpyToArray_ptds(array.get(), 0, 0, fresh.data(), fresh.size(), cudaMemcpyHostToDevice),
      cudaSuccess);
  ASSERT_EQ(cudaMemcpyArrayToArray_ptds(other.get(), 0, 0, array.get(), 0, 0, fresh.size(),
                                        cudaMemcpyDeviceToDevice),
            cudaSuccess);
  ASSERT_EQ(
      cudaMemcpyFromArray_ptds(back.data(), other.get(), 0, 0, back.size(), cudaMemcpyDeviceToHost),
      cudaSuccess);
  EXPECT_EQ(back, fresh);
  const Bytes next = random_bytes(array.size());
  ASSERT_EQ(cudaMemcpyToArrayAsync_ptsz(array.get(), 0, 0, next.data(), next.size(),
                                        cudaMemcpyHostToDevice, nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyFromArrayAsync_ptsz(back.data(), array.get(), 0, 0, back.size(),
                                          cudaMemcpyDeviceToHost, nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(back, next);
}

TEST(RuntimeArray, NothingIsCopiedOutOfBounds) {
  const Array array(7, 5);
  const Bytes before = array.read();
  Bytes bytes(200);
  for (const Piece& piece : {Piece{0, 0, 141}, {4, 0, 137}, {28, 0, 4}, {0, 5, 4}, {0, 4, 29}}) {
    EXPECT_EQ(cudaMemcpyToArray(array.get(), piece.x, piece.y, bytes.data(), piece.count,
                                cudaMemcpyHostToDevice),
              cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpyFromArray(bytes.data(), array.get(), piece.x, piece.y, piece.count,
                                  cudaMemcpyDeviceToHost),
              cudaErrorInvalidValue);
  }
  EXPECT_EQ(cudaMemcpyToArray(array.get(), 0, 0, bytes.data(), 4, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(array.read(), before);
  (void)cudaGetLastError();
}

}  // namespace
