// SPDX-License-Identifier: Apache-2.0
#include "tiers/placed_file.h"

namespace gpusnap {
namespace {

// Where so many bytes may begin from `offset` on.
uint64_t aligned(uint64_t offset, uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  constexpr uint64_t kLine = 64;
  constexpr uint64_t kLarge = 64 << 10;
  const uint64_t alignment = bytes >= kLarge ? kPage : kLine;
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace

uint64_t PlacedFile::next(uint64_t bytes) const {
  return aligned(end(), bytes);
}

uint64_t PlacedFile::take(uint64_t bytes) {
  uint64_t end = end_.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t offset = aligned(end, bytes);
    if (end_.compare_exchange_weak(end, offset + bytes, std::memory_order_acq_rel)) return offset;
  }
}

}  // namespace gpusnap
