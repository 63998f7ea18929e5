// The work on a part that follows its commit: after_commit() before the client is told, then
// in_background(). Before that the part is on its way (ChunkFlow: place, flush; CheckpointReceiver:
// commit).
#pragma once

#include <functional>

#include "tiers/backend/chunk_cache.h"
#include "tiers/backend/message.h"
#include "tiers/backend/protection.h"
#include "tiers/backend/turns.h"
#include "tiers/file_system.h"
#include "tiers/segment_store.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

// The part has been committed and not been told so. `client_lives`: whether it was its client that
// ran just now, and with it held the job's lock, if it is rank 0's. Gives the first failure, and
// goes on. `protection`: null where there are no levels.
Status after_commit(FileSystem& files, Turns& turns, const CheckpointText& part,
                    const std::function<bool()>& client_lives, ChunkCache& cache,
                    Protection* protection);

// In the background, when nobody waits for it. `stop`: asked now and then whether to end, and may
// let it wait. Gives the first failure, and goes on.
struct BackgroundPart {
  FileSystem& files;
  const CheckpointText& part;
  const SegmentStore::Options& options;
  Compression& compression;
  const Spawn& spawn;
  std::function<bool()> stop;
  ChunkCache& cache;
  Protection* protection = nullptr;
};
Status in_background(const BackgroundPart& work);

}  // namespace gpusnap
