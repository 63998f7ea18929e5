// SPDX-License-Identifier: Apache-2.0
// Turns an increment into a full checkpoint, so that a restore reads few ancestors and old ones can
// be pruned: it reads and checks the bytes of the chain, writes them anew, and replaces the
// manifest by one without a parent, at the same epoch. This is safe at any moment
// (docs/file-format.md, Merging): a reader finds the old or the new manifest, and both are right as
// long as nothing is removed. Superfluous files are removed when the job is pruned.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tiers/file_system.h"
#include "tiers/manifest_file.h"
#include "tiers/segment_store.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

struct MergeRequest {
  JobPlace job;
  uint64_t epoch = 0;
  uint32_t rank = 0;
  // The most ancestors of a checkpoint (GPUSNAP_CHAIN). A checkpoint with half of them or more is
  // merged, so that there is time before a full one would have to be taken instead.
  uint32_t chain_limit = 0;
  // A checkpoint is also merged if a restore would read more than this times its memory. That
  // happens with compressed blocks, which are read as a whole if one byte is needed.
  double most_read = 1.2;
  // Bytes, of whole blocks, that are read before they are written. The merge takes memory of twice
  // this, and what SegmentStore and a reader with 8 buffers take.
  uint64_t window_bytes = 32 << 20;
  // Options of the new segments.
  SegmentStore::Options segments;
  // Called regularly. Returns whether the merge is to end; may block. May be empty.
  std::function<bool()> stop;
};

// Merges one rank's part if that is worth it. Returns true if it was merged; false if there was no
// need, the merge was stopped, or another process merges this rank's parts now. The caller need not
// hold the job's lock, because a merge removes no files of others. Returns kNotFound if the
// checkpoint has been pruned meanwhile. After a failure nothing has changed or, if the last sync
// failed, the part is merged.
Result<bool> merge_if_worth(FileSystem& files, const MergeRequest& request,
                            Compression& compression, const Spawn& spawn);

}  // namespace gpusnap
