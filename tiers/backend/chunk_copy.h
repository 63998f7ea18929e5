// SPDX-License-Identifier: Apache-2.0
// Copies the blocks of a chunk from a local tier into a segment, a few at a time, and compares each
// with its checksum: damaged bytes are not copied. The gaps between blocks become zeros. The copy
// does not own the files: they have to stay open until it has ended, and closing one waits for its
// reads and writes.
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

// Returns the blocks in the order of their offsets. Returns kDamaged if two overlap: a log may hold
// arbitrary bytes.
Result<std::vector<ChunkBlock>> blocks_in_chunk(
    const std::vector<SegmentStore::StoredBlock>& blocks);

struct ChunkCopy {
  BulkFile* from = nullptr;
  std::string path;                // of `from`, for messages
  std::vector<ChunkBlock> blocks;  // at least one
  BulkFile* to = nullptr;
  uint64_t offset = 0;            // in `to`, of the first byte after the chunk's header
  size_t part_bytes = 4 << 20;    // takes memory of twice this, or of twice the largest block
  std::function<bool()> gave_up;  // asked before each read
  StoreRate* rate = nullptr;      // outlives it
  // Called once, by any thread. `local`: the chunk's device caused the failure.
  std::function<void(const Status&, bool local)> ended;
};

// Returns at once; `ended` is called even if the copy cannot begin.
void begin_copy(ChunkCopy copy);

}  // namespace gpusnap
