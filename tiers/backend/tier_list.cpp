// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/tier_list.h"

#include <algorithm>

namespace gpusnap {

double memory_rate(const LocalTiers& local) {
  constexpr double kFasterThanTiers = 10e9;
  return local.memory_bytes_per_second().value_or(kFasterThanTiers);
}

std::vector<LocalTier> all_tiers(const LocalTiers& local, uint64_t slots, uint64_t chunk_slots,
                                 uint64_t cache_slots) {
  // Chunks for other tiers pass through the slots, too, so the cache leaves a quarter to them.
  const uint64_t sensible = local.tiers().empty() ? slots : slots - slots / 4;
  if (cache_slots == 0) cache_slots = sensible;
  const uint64_t chunks = std::min(cache_slots, slots) / chunk_slots;
  // A chunk in the cache is in memory already, so writers do not slow each other down there.
  constexpr uint32_t kMost = 1 << 16;
  const double rate = memory_rate(local);
  const ThroughputSample memory[] = {{1, rate}, {kMost, kMost * rate}};
  std::vector<LocalTier> tiers;
  tiers.push_back({"cache", std::max<uint64_t>(chunks, 1), ThroughputModel::fit(memory).value()});
  tiers.insert(tiers.end(), local.tiers().begin(), local.tiers().end());
  return tiers;
}

ChunkFlow::Options flow_options(const LocalTiers& local, uint64_t slots, uint64_t chunk_slots,
                                std::optional<uint32_t> flushes) {
  if (flushes) return {chunk_slots, *flushes, *flushes};
  constexpr uint64_t kSlotsOfEach = 2, kPart = 4;
  const auto most = static_cast<uint32_t>(
      std::clamp<uint64_t>(slots / (kSlotsOfEach * kPart), kFirstFlushes, kMostFlushes));
  const uint32_t known = local.earlier_flushes() ? local.earlier_flushes()->flushes : 0;
  return {chunk_slots, 1, most, known};
}

}  // namespace gpusnap
