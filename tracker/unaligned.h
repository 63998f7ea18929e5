// Values that lie anywhere in a file's bytes.
#pragma once

#include <cstddef>
#include <cstring>

namespace gpusnap {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace gpusnap
