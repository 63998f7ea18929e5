// SPDX-License-Identifier: Apache-2.0
//
// The tiers and flushes of a backend, by the size of its staging area and by what is known of its
// local tiers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tiers/backend/chunk_flow.h"
#include "tiers/backend/local_tiers.h"

namespace gpusnap {

// Bytes a second that one writer copies within memory: measured, or faster than any local tier.
double memory_rate(const LocalTiers& local);

// The cache first, then the local tiers. `slots`: of the staging area; `cache_slots`: at most so
// many of them; 0: as many as is sensible.
std::vector<LocalTier> all_tiers(const LocalTiers& local, uint64_t slots, uint64_t chunk_slots,
                                 uint64_t cache_slots);

// `flushes` nothing: up to so many that what they read from devices takes a quarter of the area's
// size, and at first as many as were best for an earlier backend.
ChunkFlow::Options flow_options(const LocalTiers& local, uint64_t slots, uint64_t chunk_slots,
                                std::optional<uint32_t> flushes);

}  // namespace gpusnap
