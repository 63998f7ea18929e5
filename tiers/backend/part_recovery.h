// Finds what an earlier backend left of a part: its files, and what its block logs say of them.
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
    uint64_t memory_bytes = 0;       // that they are of
  };
  std::map<uint32_t, Chunk> chunks;  // by number; that were not moved
  std::map<uint32_t, MovedChunk> moved;
  // Files for chunks that the client writes directly, by number, of which no log tells yet.
  std::map<uint32_t, std::string> direct;
  // Why a local tier's folder or block log could not be read; ok: all were. The fields above lack
  // that folder's or log's share of the part, which may be all of the rest.
  Status unread;
  // Where something is unread: the files that no log names so far. They stay.
  std::vector<std::string> unnamed;
  // Higher than those of all that there is.
  uint32_t next_log = 0;
  uint32_t next_segment = 0;
  uint32_t next_chunk = 0;
  uint32_t next_direct = 0;
};

struct PartFolders {
  std::string epoch;                // in the store
  std::vector<std::string> chunks;  // on local tiers
};

// Files of the part that no log names hold nothing, and are removed, but for those that the client
// writes directly, and where a log could not be read. `local_failed` is told of a local tier that
// cannot be read. kDamaged where something is not there any more, or makes no sense.
Result<FoundPart> find_part(
    FileSystem& files, const CheckpointPlace& place, const PartFolders& folders,
    const std::function<void(const std::string& path, const Status& why)>& local_failed);

// A segment of an earlier backend is what the log says and nothing else, and durable, at return.
Status settle_segment(FileSystem& files, const std::string& path, const FoundPart::Parts& parts);

// Where the last of these ends.
uint64_t end_of(const FoundPart::Parts& parts);

}  // namespace gpusnap
