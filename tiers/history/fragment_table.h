// SPDX-License-Identifier: Apache-2.0
//
// The allocation table of one tier's cache: one contiguous area, tiled by fragments, each of them
// a checkpoint or a gap (GPU cache and prefetch paper, section 4.1.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace gpusnap::history {

// A checkpoint's version, as the program numbers it.
using Version = uint64_t;

// Identifies who will take over a run of fragments; 0: nobody.
using Claim = uint64_t;

struct Fragment {
  uint64_t offset = 0;             // bytes from the beginning of the area
  uint64_t size = 0;               // bytes, a multiple of the alignment
  std::optional<Version> version;  // none: a gap
  Claim claim = 0;
};

// Invariant: fragments are ordered by offset and cover [0, capacity) without overlap; no two
// neighbours are gaps of the same claim; the fragments of a claim are neighbours. Not thread-safe.
class FragmentTable {
 public:
  // `capacity` is rounded down to the alignment, a power of two; both in bytes.
  FragmentTable(uint64_t capacity, uint64_t alignment);

  std::span<const Fragment> fragments() const { return fragments_; }
  uint64_t capacity() const { return capacity_; }
  // The room that a checkpoint of so many bytes takes up.
  uint64_t rounded(uint64_t bytes) const { return (bytes + alignment_ - 1) & ~(alignment_ - 1); }
  // The index of the checkpoint's fragment, by binary search; none if it is not here.
  std::optional<size_t> find(Version version) const;

  // Claims fragments [first, last), none of which is claimed.
  void claim(size_t first, size_t last, Claim claim);
  void release(Claim claim);
  // The fragments of a claim, in order; empty if there is no such claim.
  std::span<const Fragment> claimed(Claim claim) const;
  // Puts the checkpoint at the beginning of the claimed fragments, which all go; the rest of them
  // becomes a gap, and the claim ends. They are at least rounded(bytes) long, and the checkpoint
  // is not here yet. Returns its offset.
  uint64_t take(Claim claim, Version version, uint64_t bytes);
  // Turns the checkpoint's fragment into a gap of the same claim. It must be here.
  void remove(Version version);

 private:
  struct Run {
    size_t first = 0, last = 0;  // indices; one beyond
  };
  Run run_of(Claim claim) const;
  // Puts one fragment in the place of [first, last).
  void replace(Run run, const Fragment& by);
  // Joins the gap at this index, if it is one, with equal neighbours.
  void join_gaps(size_t index);

  const uint64_t alignment_;
  const uint64_t capacity_;
  std::vector<Fragment> fragments_;
  std::unordered_map<Version, uint64_t> offsets_;
};

}  // namespace gpusnap::history
