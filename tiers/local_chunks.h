// SPDX-License-Identifier: Apache-2.0
// Where copies of parts of segments lie on this node's own devices: chunks that were not needed
// there since (backend/chunk_cache.h). A copy is no more than a guess: what is read from it counts
// only if its checksums are those in the manifest, and a copy that is not right, or not there, is
// passed over.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace gpusnap {

struct NearChunk {
  std::string path;
  // These bytes of the segment lie in that file behind a segment's header.
  uint64_t base = 0;
  uint64_t bytes = 0;
};

// Not thread-safe.
class LocalChunks {
 public:
  void add(const std::string& segment_path, NearChunk chunk) {
    chunks_[segment_path].insert_or_assign(chunk.base, std::move(chunk));
  }
  // One that has all of these bytes of the segment; null: there is none. Stays as long as this.
  const NearChunk* find(const std::string& segment_path, uint64_t offset, uint64_t bytes) const {
    const auto of_segment = chunks_.find(segment_path);
    if (of_segment == chunks_.end()) return nullptr;
    auto behind = of_segment->second.upper_bound(offset);
    if (behind == of_segment->second.begin()) return nullptr;
    const NearChunk& chunk = std::prev(behind)->second;
    const uint64_t within = offset - chunk.base;
    return within <= chunk.bytes && bytes <= chunk.bytes - within ? &chunk : nullptr;
  }
  bool empty() const { return chunks_.empty(); }

  // Bytes that were read, as they lie in files.
  struct Counts {
    uint64_t near = 0;
    uint64_t store = 0;
    uint64_t passed_over = 0;  // of near ones that were not right
    uint64_t in_memory = 0;    // of all, when they were needed
  };
  Counts counts;

 private:
  std::map<std::string, std::map<uint64_t, NearChunk>> chunks_;  // by segment, base
};

}  // namespace gpusnap
