// SPDX-License-Identifier: Apache-2.0
//
// Chooses which fragments of a cache make room for a new checkpoint: algorithm 1 of the GPU cache
// and prefetch paper (section 4.2), corrected, and the policies that it is compared with. Pure
// logic.
//
// The algorithm as printed has six faults. kAsPrinted keeps the first four, to show their cost:
//   - The loop ends when the window's right end reaches the last fragment, so only one of the
//     windows that end there is seen.
//   - A window may begin with a fragment that it does not need.
//   - A tie goes to the first window in the area, whatever its age; figure 7 of the paper shows the
//     oldest checkpoint evicted.
//   - The greatest sum of distances wins, so several small checkpoints that are read soon win
//     against a large one that is read last, and even against a gap. Section 4.1.6 gives gaps the
//     highest priority. kScore compares what the eviction costs later: bytes, weighted by how soon
//     they are read.
//   - `size_target` in line 11 is undefined; it can only mean size_new.
//   - The loop that erases the window (line 25) goes one fragment too far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gpusnap::history {

// A fragment as eviction sees it.
struct Candidate {
  uint64_t size = 0;    // bytes
  int64_t wait_ns = 0;  // until it is expected to be evictable, or what evicting it costs later; 0:
                        // it is evictable; kNever: it is a barrier
  uint64_t distance = 0;  // until it is read back, see distances below
  uint64_t age = 0;       // position in the order of insertion (or of use, for kLru); 0: a gap
};

// Wait of a fragment that must not be chosen: it is claimed by another eviction, is being read, or
// only the thread that asks could release it.
inline constexpr int64_t kNever = INT64_MAX;

enum class Evictor : uint8_t {
  kScore,      // least wait; then least loss; then the oldest fragment
  kAsPrinted,  // the paper's loop
  kFifo,       // the window whose youngest fragment is the oldest, whatever it costs
  kLru,        // the same, by age of use
};

struct Window {
  size_t first = 0;  // index of a fragment
  size_t last = 0;   // one beyond
  bool operator==(const Window&) const = default;
};

// The loss of a fragment is its size times the difference between the greatest distance of all
// fragments and its own. A gap loses nothing.
//
// The best window of consecutive fragments of `size` bytes (at least 1) or more; none if all
// contain a barrier, or the cache is too small. A window is never longer than needed: without its
// first fragment it would be too small, and without its last one, too. If `steps` is given, it is
// set to the number of times that a fragment entered or left the window, at most two for each
// fragment.
std::optional<Window> choose_window(std::span<const Candidate> fragments, uint64_t size,
                                    Evictor evictor, uint64_t* steps = nullptr);

// Distances, given the span of the restore queue (RestoreQueue::span()): a queued checkpoint has
// less than the span; these follow in the order in which they are better evicted.
constexpr uint64_t distance_of_unhinted(uint64_t span) {
  return span;
}
constexpr uint64_t distance_of_consumed(uint64_t span) {
  return span + 1;
}
constexpr uint64_t distance_of_gap(uint64_t span) {
  return span + 2;
}

}  // namespace gpusnap::history
