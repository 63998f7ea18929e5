// SPDX-License-Identifier: Apache-2.0
//
// Chooses the tiers and flushes of a backend by the size of its staging area and by its local
// tiers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tiers/backend/chunk_flow.h"
#include "tiers/backend/local_tiers.h"

namespace gpusnap {

// Bytes per second of one writer that copies within memory: measured, or assumed to be faster than
// any local tier.
double memory_rate(const LocalTiers& local);

// Returns the cache first, then the local tiers. `slots`: of the staging area. `cache_slots`: the
// most slots of the cache; 0: chosen here.
std::vector<LocalTier> all_tiers(const LocalTiers& local, uint64_t slots, uint64_t chunk_slots,
                                 uint64_t cache_slots);

// Without `flushes`, the number adapts: its bound is the number whose buffers take a quarter of the
// area's size, and it begins with the best number for an earlier backend.
ChunkFlow::Options flow_options(const LocalTiers& local, uint64_t slots, uint64_t chunk_slots,
                                std::optional<uint32_t> flushes);

}  // namespace gpusnap
