// SPDX-License-Identifier: Apache-2.0
// The user's settings of the local tiers and of how chunks are placed on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpusnap {

// Section V.B of the VeloC paper. The first tier is the cache.
enum class PlacementPolicy {
  kCacheOnly,    // the first tier, or wait
  kSsdOnly,      // the first of the others with room, or wait
  kHybridNaive,  // the first of all with room, or wait
  kHybridOpt,    // the fastest predicted with room, if it is faster than flushes are, or wait
};

// "cache-only", "ssd-only", "hybrid-naive", "hybrid-opt".
const char* name_of(PlacementPolicy policy);
std::optional<PlacementPolicy> parse_policy(std::string_view name);

// A folder of a node's own device.
struct SsdFolder {
  std::string path;       // absolute
  uint64_t capacity = 0;  // bytes; 0: as much as the file system has free
  bool operator==(const SsdFolder&) const = default;
};

inline constexpr uint64_t kLeastChunk = 64 << 10;   // bytes
inline constexpr uint64_t kMostChunk = 4ULL << 30;  // bytes
inline constexpr uint32_t kMostFlushes = 64;

struct TierSettings {
  std::vector<SsdFolder> ssd;  // those that the naive policy prefers first; none: all is cache
  uint64_t chunk = 64 << 20;   // bytes
  PlacementPolicy policy = PlacementPolicy::kHybridOpt;
  std::optional<uint32_t> flushes;  // chunks at the same time; nothing: as many as pay
  bool operator==(const TierSettings&) const = default;
};

}  // namespace gpusnap
