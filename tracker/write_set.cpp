#include "tracker/write_set.h"

#include <algorithm>

namespace gpusnap {
namespace {

// The sum, or the last address where there is none.
uint64_t end_of(uint64_t start, uint64_t bytes) {
  uint64_t end;
  return __builtin_add_overflow(start, bytes, &end) ? UINT64_MAX : end;
}

// Bytes from the first of `count` things of `size` bytes to the end of the last.
uint64_t extent(uint64_t count, uint64_t step, uint64_t size) {
  uint64_t before;
  if (__builtin_mul_overflow(count - 1, step, &before)) return UINT64_MAX;
  return end_of(before, size);
}

}  // namespace

void WriteSet::add(uint64_t address, uint64_t size) {
  said_ = true;
  if (size == 0 || address == 0) return;
  if (count_ == kMost && !join_near()) {
    everything_ = true;
    return;
  }
  if (size != kWholeRange) size = end_of(address, size) - address;
  ranges_[count_++] = {address, size};
}

// False: there is no room.
bool WriteSet::join_near() {
  std::sort(ranges_, ranges_ + count_,
            [](const Range& a, const Range& b) { return a.address < b.address; });
  uint8_t joined = 1;
  for (uint8_t i = 1; i < count_; ++i) {
    Range& last = ranges_[joined - 1];
    const Range& next = ranges_[i];
    const bool same = next.address == last.address && next.size == last.size;
    if (same) continue;
    const uint64_t end = last.address + last.size;
    const bool whole = last.size == kWholeRange || next.size == kWholeRange;
    if (whole || (next.address > end && next.address - end > kNear)) {
      ranges_[joined++] = next;
    } else {
      last.size = std::max(end, next.address + next.size) - last.address;
    }
  }
  count_ = joined;
  return count_ < kMost;
}

void WriteSet::add_guess(uint32_t kernel) {
  launch_ = true;
  if (std::ranges::find(guesses(), kernel) != guesses().end()) return;
  if (guess_count_ == kMostGuesses) {
    other_guesses_ = true;
    return;
  }
  guesses_[guess_count_++] = kernel;
}

void WriteSet::add_box(uint64_t address, uint64_t width, uint64_t height, uint64_t pitch,
                       uint64_t depth, uint64_t slice) {
  said_ = true;
  if (width == 0 || height == 0 || depth == 0) return;
  const uint64_t left = std::min<uint64_t>(kMost - count_, kMostRows);
  const bool few = height <= left && depth <= left && height * depth <= left;
  const bool dense = (height == 1 || pitch == width) && (depth == 1 || slice == height * pitch);
  if (!few || dense) {
    // Not kWholeRange, which the sum of hostile shapes might be.
    const uint64_t bytes = extent(depth, slice, extent(height, pitch, width));
    add(address, std::min(bytes, kWholeRange - 1));
    return;
  }
  for (uint64_t z = 0; z < depth; ++z) {
    for (uint64_t y = 0; y < height; ++y) add(address + z * slice + y * pitch, width);
  }
}

}  // namespace gpusnap
