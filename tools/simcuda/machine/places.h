// SPDX-License-Identifier: Apache-2.0
// Where the lanes of a warp have the arguments and results of calls.
#pragma once

#include <cstdint>

#include "tools/simcuda/machine/warp.h"

namespace simcuda {

inline std::byte* local_of(const Warp& w, uint32_t lane_index, uint64_t offset) {
  return w.local + lane_index * w.local_bytes + offset;
}

inline uint64_t slot_bytes(const Place& place) {
  return place.size == 1 ? 2 : place.size;
}

// Where a frame has its lane's value of a place to be read.
inline const std::byte* place_in(Warp& w, const Frame& frame, const Place& place, uint32_t i) {
  if (!place.in_register) return local_of(w, i, frame.local_base + place.offset);
  const std::byte* base =
      place.slot < 0 ? frame.code->constant_bytes.data() + frame.code->constant_bytes.size()
                     : frame.registers;
  return base + place.slot + i * slot_bytes(place);
}

// Where it has it to be written: a register's or a place in local memory.
inline std::byte* result_in(const Warp& w, const Frame& frame, const Place& place, uint32_t i) {
  return place.in_register ? frame.registers + place.slot + i * slot_bytes(place)
                           : local_of(w, i, frame.local_base + place.offset);
}

}  // namespace simcuda
