// SPDX-License-Identifier: Apache-2.0
#include "interpose/replay/reload.h"

#include <algorithm>

#include "interpose/services/text.h"

namespace gpusnap {

namespace {
// An allocation of the checkpoint that is not there; empty if all are.
std::string missing_allocation(const Manifest& manifest, const MemoryMap& memory) {
  const auto known = memory.by_identity();
  for (const SavedRange& saved : manifest.ranges) {
    if (saved.kind != static_cast<uint8_t>(MemoryKind::kDevice)) continue;
    const auto found = known.find({saved.call_site, saved.ordinal});
    if (found != known.end() && found->second->size == saved.size) continue;
    return "no allocation like number " + std::to_string(saved.ordinal + 1) +
           " of the place in the program that made the checkpoint's " +
           range_text(saved.address, saved.size) +
           (found == known.end()
                ? ""
                : ": that has " + std::to_string(found->second->size) + " bytes here");
  }
  return {};
}

bool has_kind(const Manifest& manifest, MemoryKind kind) {
  return std::ranges::any_of(manifest.ranges, [kind](const SavedRange& saved) {
    return saved.kind == static_cast<uint8_t>(kind);
  });
}
}  // namespace

bool Reload::count_launch(const MemoryMap& memory) {
  if (looked_at_ == memory.lives()) return false;
  missing_ = missing_allocation(manifest(), memory);
  if (!missing_.empty()) {
    looked_at_ = memory.lives();
    return false;
  }
  if (behind_ == 0) return true;
  --behind_;
  return false;
}

std::string Reload::obstacle(bool uses_arrays, bool shares_memory) const {
  if (shares_memory) {
    return "memory that ranks share is not followed there: each is loaded by itself";
  }
  if (has_kind(manifest(), MemoryKind::kPhysical)) {
    return "memory of cuMemCreate is not followed there: nobody tells where it is to be mapped";
  }
  if (!has_kind(manifest(), MemoryKind::kArray) && !uses_arrays) return {};
  return "arrays, textures and surfaces are not followed there: device memory may hold handles of "
         "another process";
}

}  // namespace gpusnap
