// SPDX-License-Identifier: Apache-2.0
#include "tiers/compression/shuffle.h"

#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>

namespace gpusnap {

namespace {

// The compilers' own vectors: they become whatever the machine has (pack and unpack of SSE2, zip of
// NEON), so one text serves all machines.
constexpr size_t kLane = 16;
using Vector = uint8_t __attribute__((vector_size(kLane)));

Vector load(const std::byte* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

void store(const Vector& vector, std::byte* to) {
  std::memcpy(to, &vector, sizeof vector);
}

Vector even_bytes(const Vector& a, const Vector& b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
Vector odd_bytes(const Vector& a, const Vector& b) {
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
Vector zip_first_halves(const Vector& a, const Vector& b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
Vector zip_second_halves(const Vector& a, const Vector& b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

// kLane elements of kWidth bytes become kWidth planes of kLane bytes. Even bytes apart from odd
// ones halves the width; the even bytes of the even ones are the planes 0, 4, ...
template <size_t kWidth>
std::array<Vector, kWidth> planes_of(const std::array<Vector, kWidth>& elements) {
  if constexpr (kWidth == 1) {
    return elements;
  } else {
    std::array<Vector, kWidth / 2> even, odd;
    for (size_t i = 0; i < kWidth / 2; ++i) {
      even[i] = even_bytes(elements[2 * i], elements[2 * i + 1]);
      odd[i] = odd_bytes(elements[2 * i], elements[2 * i + 1]);
    }
    even = planes_of<kWidth / 2>(even);
    odd = planes_of<kWidth / 2>(odd);
    std::array<Vector, kWidth> planes;
    for (size_t i = 0; i < kWidth / 2; ++i) {
      planes[2 * i] = even[i];
      planes[2 * i + 1] = odd[i];
    }
    return planes;
  }
}

template <size_t kWidth>
std::array<Vector, kWidth> elements_of(const std::array<Vector, kWidth>& planes) {
  if constexpr (kWidth == 1) {
    return planes;
  } else {
    std::array<Vector, kWidth / 2> even, odd;
    for (size_t i = 0; i < kWidth / 2; ++i) {
      even[i] = planes[2 * i];
      odd[i] = planes[2 * i + 1];
    }
    even = elements_of<kWidth / 2>(even);
    odd = elements_of<kWidth / 2>(odd);
    std::array<Vector, kWidth> elements;
    for (size_t i = 0; i < kWidth / 2; ++i) {
      elements[2 * i] = zip_first_halves(even[i], odd[i]);
      elements[2 * i + 1] = zip_second_halves(even[i], odd[i]);
    }
    return elements;
  }
}

template <size_t kWidth>
void shuffle(const std::byte* from, size_t size, std::byte* to) {
  const size_t count = size / kWidth;
  size_t i = 0;
  for (; i + kLane <= count; i += kLane) {
    std::array<Vector, kWidth> vectors;
    for (size_t v = 0; v < kWidth; ++v) vectors[v] = load(from + i * kWidth + v * kLane);
    vectors = planes_of<kWidth>(vectors);
    for (size_t v = 0; v < kWidth; ++v) store(vectors[v], to + v * count + i);
  }
  for (; i < count; ++i) {
    for (size_t p = 0; p < kWidth; ++p) to[p * count + i] = from[i * kWidth + p];
  }
  if (size % kWidth > 0) std::memcpy(to + count * kWidth, from + count * kWidth, size % kWidth);
}

template <size_t kWidth>
void unshuffle(const std::byte* from, size_t size, std::byte* to) {
  const size_t count = size / kWidth;
  size_t i = 0;
  for (; i + kLane <= count; i += kLane) {
    std::array<Vector, kWidth> vectors;
    for (size_t v = 0; v < kWidth; ++v) vectors[v] = load(from + v * count + i);
    vectors = elements_of<kWidth>(vectors);
    for (size_t v = 0; v < kWidth; ++v) store(vectors[v], to + i * kWidth + v * kLane);
  }
  for (; i < count; ++i) {
    for (size_t p = 0; p < kWidth; ++p) to[i * kWidth + p] = from[p * count + i];
  }
  if (size % kWidth > 0) std::memcpy(to + count * kWidth, from + count * kWidth, size % kWidth);
}

}  // namespace

void shuffle_bytes(size_t width, std::span<const std::byte> from,
                   std::span<std::byte> to) noexcept {
  assert(width == 2 || width == 4 || width == 8);
  assert(to.size() == from.size());
  if (width == 2) return shuffle<2>(from.data(), from.size(), to.data());
  if (width == 4) return shuffle<4>(from.data(), from.size(), to.data());
  shuffle<8>(from.data(), from.size(), to.data());
}

void unshuffle_bytes(size_t width, std::span<const std::byte> from,
                     std::span<std::byte> to) noexcept {
  assert(width == 2 || width == 4 || width == 8);
  assert(to.size() == from.size());
  if (width == 2) return unshuffle<2>(from.data(), from.size(), to.data());
  if (width == 4) return unshuffle<4>(from.data(), from.size(), to.data());
  unshuffle<8>(from.data(), from.size(), to.data());
}

}  // namespace gpusnap
