// Copies a chunk's blocks from a local tier into a segment, a few at a time, and looks at each on
// the way: what a device gives back wrong goes nowhere. Between blocks there are zeros, whatever
// lies there in the chunk. Holds no part in the files: they stay until it has ended, and whoever
// closes them waits for what is on its way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/segment_store.h"
#include "tiers/status.h"
#include "tiers/store_rate.h"

namespace gpusnap {

// Where a block's bytes lie in a chunk's file, and their checksum.
struct ChunkBlock {
  uint64_t offset = 0;  // bytes from the file's start
  uint64_t bytes = 0;
  uint64_t checksum = 0;
  uint64_t end() const { return offset + bytes; }
};

// In the order in which they lie there. kDamaged where two overlap: a log can say anything.
Result<std::vector<ChunkBlock>> blocks_in_chunk(
    const std::vector<SegmentStore::StoredBlock>& blocks);

struct ChunkCopy {
  BulkFile* from = nullptr;
  std::string path;                // of that, for messages
  std::vector<ChunkBlock> blocks;  // at least one
  BulkFile* to = nullptr;
  uint64_t offset = 0;            // in `to`, of what lies right behind the chunk's header
  size_t part_bytes = 4 << 20;    // memory: two of these, or of the largest block
  std::function<bool()> gave_up;  // asked for each part
  StoreRate* rate = nullptr;      // outlives it
  // Once, by any thread. `local`: it failed by what the chunk's device did.
  std::function<void(const Status&, bool local)> ended;
};

void begin_copy(ChunkCopy copy);

}  // namespace gpusnap
