// SPDX-License-Identifier: Apache-2.0
//
// Checksums of the slots of parts that stay in memory. Programs have these slots mapped: the
// checksum tells whether a slot still has the content that it had when the part was found whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "tiers/checksum.h"
#include "tiers/staging/memory.h"

namespace gpusnap {

// Reads all bytes of the slot.
inline uint64_t slot_checksum(StagingMemory& memory, uint32_t slot) {
  const SlotEntry& entry = memory.slots()[slot];
  const auto bytes = memory.bytes(slot).first(std::min(entry.used, memory.bytes(slot).size()));
  const auto all = memory.pieces(slot);
  const auto pieces = all.first(std::min<size_t>(entry.pieces, all.size()));
  const uint64_t words[] = {checksum(bytes), checksum(std::as_bytes(pieces)), entry.used,
                            entry.sequence};
  return checksum(std::as_bytes(std::span(words)));
}

}  // namespace gpusnap
