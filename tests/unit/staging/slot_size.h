#pragma once

#include <cstdint>

namespace gpusnap {

// Bytes of a slot in these tests.
inline constexpr uint64_t kSlot = 16 << 10;

}  // namespace gpusnap
