// Blocks as programs have them in device memory, and such that are hard.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace gpusnap {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline Bytes random_block(size_t size, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> values((size + 7) / 8);
  for (uint64_t& value : values) value = random();
  Bytes bytes = bytes_of(values);
  bytes.resize(size);
  return bytes;
}

// A smooth field: what a solver has. Rounded up to whole floats.
template <class T>
Bytes smooth_block(size_t size) {
  std::vector<T> values((size + sizeof(T) - 1) / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto x = static_cast<double>(i);
    values[i] = static_cast<T>(300 + 20 * std::sin(x / 5000) + std::cos(x / 317));
  }
  Bytes bytes = bytes_of(values);
  bytes.resize(size);
  return bytes;
}

// Indices, as of a mesh: they rise, by little.
inline Bytes index_block(size_t size, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> values((size + 3) / 4);
  uint32_t value = 0;
  for (uint32_t& each : values) each = value += static_cast<uint32_t>(random() % 8);
  Bytes bytes = bytes_of(values);
  bytes.resize(size);
  return bytes;
}

}  // namespace gpusnap
