// Lanes that talk to each other: sorting, prefix sums, compaction and votes within a warp.
#include "warps.h"

DEVICE unsigned lane() {
  return __nvvm_read_ptx_sreg_laneid();
}

DEVICE unsigned exchanged(unsigned value, unsigned distance) {
  return static_cast<unsigned>(__nvvm_shfl_sync_bfly_i32(kAllLanes, static_cast<int>(value),
                                                         static_cast<int>(distance), 31));
}

// Bitonic: ascending over the lanes of a warp.
DEVICE unsigned sorted(unsigned value) {
  for (unsigned length = 2; length <= kLanes; length *= 2) {
    for (unsigned distance = length / 2; distance > 0; distance /= 2) {
      const unsigned other = exchanged(value, distance);
      const bool ascending = (lane() & length) == 0;
      const bool lower = (lane() & distance) == 0;
      const bool keep_small = ascending == lower;
      value = keep_small == (other < value) ? other : value;
    }
  }
  return value;
}

DEVICE unsigned prefix_sum(unsigned value) {
  for (int distance = 1; distance < static_cast<int>(kLanes); distance *= 2) {
    const auto other = static_cast<unsigned>(
        __nvvm_shfl_sync_up_i32(kAllLanes, static_cast<int>(value), distance, 0));
    if (lane() >= static_cast<unsigned>(distance)) value += other;
  }
  return value;
}

// Each warp draws, sorts and adds up; odd values are packed to the front of the warp's row.
KERNEL void shuffle(unsigned* values, unsigned* packed, unsigned* counts) {
  const unsigned at = global_index();
  const unsigned value = prefix_sum(sorted(drawn(values[at])));
  const bool odd = (value & 1) != 0;
  const auto ballot = static_cast<unsigned>(__nvvm_vote_ballot_sync(kAllLanes, odd));
  const unsigned below = ballot & ((1u << lane()) - 1);
  const unsigned row = at - lane();
  packed[at] = 0;
  __syncthreads();
  if (odd) packed[row + static_cast<unsigned>(__builtin_popcount(below))] = value;
  const bool large = __nvvm_vote_any_sync(kAllLanes, value > 0xfff00000u);
  const bool all = __nvvm_vote_all_sync(kAllLanes, value % 64 != 0);
  const auto from = static_cast<unsigned>(__nvvm_shfl_sync_idx_i32(
      kAllLanes, static_cast<int>(value), static_cast<int>(ballot % 32), 31));
  values[at] = value + (large ? from : 0) + (all ? 1 : 0);
  if (lane() == 0) counts[at / kLanes] = static_cast<unsigned>(__builtin_popcount(ballot));
}

KERNEL void tally(const unsigned* counts, unsigned* total) {
  const unsigned count = counts[global_index()];
  if (count > 16) atomic_add(total, count);
  atomic_max(total + 1, count);
}
