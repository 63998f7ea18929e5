// SPDX-License-Identifier: Apache-2.0
// The copies of parts of segments on devices of this node: chunks that the backend has kept
// (backend/chunk_cache.h). Bytes read from a copy are accepted only if they have the checksums of
// the manifest. A copy that is wrong or missing is skipped.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace gpusnap {

struct NearChunk {
  std::string path;
  // The bytes of the segment that lie in that file, after a segment header.
  uint64_t base = 0;
  uint64_t bytes = 0;
};

// Not thread-safe.
class LocalChunks {
 public:
  void add(const std::string& segment_path, NearChunk chunk) {
    chunks_[segment_path].insert_or_assign(chunk.base, std::move(chunk));
  }
  // Returns a copy of all these bytes of the segment, valid as long as this object. Null: none.
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

  // Bytes that were read, as stored in files.
  struct Counts {
    uint64_t near = 0;
    uint64_t store = 0;
    uint64_t passed_over = 0;  // bytes of copies that were wrong
    uint64_t in_memory = 0;    // bytes that were in memory when they were needed
  };
  Counts counts;

 private:
  std::map<std::string, std::map<uint64_t, NearChunk>> chunks_;  // by segment, base
};

}  // namespace gpusnap
