// SPDX-License-Identifier: Apache-2.0
// Finds the files that an earlier backend left of a part, and reads its block logs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tiers/backend/block_log.h"
#include "tiers/backend/chunk_copy.h"
#include "tiers/commit.h"
#include "tiers/file_system.h"
#include "tiers/status.h"

namespace gpusnap {

struct FoundPart {
  BlockLog log;
  // The ranges of a segment that the log describes: begin and end of each.
  using Parts = std::map<uint64_t, uint64_t>;
  std::map<uint32_t, Parts> segments;  // by number
  struct Chunk {
    std::string path;
    std::vector<ChunkBlock> blocks;  // at least one
    uint64_t memory_bytes = 0;       // bytes of memory that they hold, before compression
  };
  std::map<uint32_t, Chunk> chunks;  // chunks that were not moved, by number
  std::map<uint32_t, MovedChunk> moved;
  // Files for chunks that the client writes directly and no log names yet, by number.
  std::map<uint32_t, std::string> direct;
  // Why a folder or block log on a local tier could not be read; ok: all were read. The fields
  // above lack what that folder or log says of the part.
  Status unread;
  // If `unread` is not ok: the files that no log names so far. They stay.
  std::vector<std::string> unnamed;
  // Numbers above those of all existing files.
  uint32_t next_log = 0;
  uint32_t next_segment = 0;
  uint32_t next_chunk = 0;
  uint32_t next_direct = 0;
};

struct PartFolders {
  std::string epoch;                // in the store
  std::vector<std::string> chunks;  // on local tiers
};

// Removes files of the part that no log names, except those that the client writes directly, and
// except if a log could not be read. Calls `local_failed` for a local tier that cannot be read.
// Returns kDamaged if a file is missing or a record contradicts another one.
Result<FoundPart> find_part(
    FileSystem& files, const CheckpointPlace& place, const PartFolders& folders,
    const std::function<void(const std::string& path, const Status& why)>& local_failed);

// Makes an earlier backend's segment hold what the log says and zeros between, and makes it
// durable.
Status settle_segment(FileSystem& files, const std::string& path, const FoundPart::Parts& parts);

// Returns the end of the last range.
uint64_t end_of(const FoundPart::Parts& parts);

}  // namespace gpusnap
