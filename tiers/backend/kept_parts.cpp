// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/kept_parts.h"

#include <algorithm>
#include <tuple>

namespace gpusnap {

void KeptParts::add(uint32_t stream, const std::string& job, uint32_t rank, uint64_t epoch) {
  parts_.insert_or_assign(stream, Part{job, rank, epoch, false, false, std::nullopt});
}

// A part that is not whole is not complete, whatever is said of it: it ends by itself.
KeptParts::Streams KeptParts::superseded(const std::string& job, uint32_t rank,
                                         uint64_t complete) const {
  Streams found;
  for (const auto& [stream, part] : parts_) {
    const bool is_older = part.is_whole && part.epoch < complete;
    if (is_older && part.rank == rank && part.job == job) found.push_back(stream);
  }
  return found;
}

KeptParts::Streams KeptParts::stored(const std::string& job, uint32_t rank, uint64_t epoch) const {
  Streams found = superseded(job, rank, epoch);
  std::erase_if(found, [this](uint32_t stream) { return !parts_.at(stream).is_alone; });
  return found;
}

KeptParts::Streams KeptParts::whole(uint32_t stream, bool alone) {
  Part& part = parts_.at(stream);
  part.is_whole = true;
  part.is_alone = alone;
  return alone ? superseded(part.job, part.rank, part.epoch) : Streams();
}

KeptParts::Streams KeptParts::abandoned(const HasClient& has_client, Time now,
                                        std::chrono::nanoseconds longest) {
  Streams found;
  for (const uint32_t stream : all_whole()) {
    std::optional<Time>& since = parts_.at(stream).gone_since;
    if (has_client(stream)) {
      since.reset();
      continue;
    }
    if (!since) since = now;
    if (now - *since >= longest) found.push_back(stream);
  }
  return found;
}

std::optional<uint32_t> KeptParts::least_needed(const HasClient& has_client) const {
  const Streams all = all_whole();
  const auto gone = std::ranges::find_if(all, [&](uint32_t stream) { return !has_client(stream); });
  if (gone != all.end()) return *gone;
  return all.empty() ? std::nullopt : std::optional(all.front());
}

KeptParts::Streams KeptParts::all_whole() const {
  Streams found;
  for (const auto& [stream, part] : parts_) {
    if (part.is_whole) found.push_back(stream);
  }
  std::ranges::sort(
      found, {}, [this](uint32_t stream) { return std::tuple(parts_.at(stream).epoch, stream); });
  return found;
}

}  // namespace gpusnap
