// SPDX-License-Identifier: Apache-2.0
// Makes a full checkpoint of an increment, so that a restore reads few ancestors and old ones can
// go: the bytes of its chain are read and checked, written anew, and the manifest is replaced by
// one without a parent, at the same epoch. docs/file-format.md, Merging, says why that is safe at
// any moment: whoever reads finds the old manifest or the new one, and both are right as long as
// nothing is removed; what is superfluous afterwards goes when the job is pruned.
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
  // The most ancestors that a checkpoint is to have (GPUSNAP_CHAIN). One with half of them or more
  // is merged: so there is time for it until a full one would have to be taken instead.
  uint32_t chain_limit = 0;
  // So is one of which a restore would read more than so many times its memory, as it may be where
  // blocks are compressed: of these all is read that has a byte which is needed.
  double most_read = 1.2;
  // Bytes that are read before they are written, of whole blocks. Memory for it: twice that, and
  // what SegmentStore and a reader of 8 buffers take.
  uint64_t window_bytes = 32 << 20;
  // How the new segments are written.
  SegmentStore::Options segments;
  // Asked now and then whether it is to end, and may let it wait; may be empty.
  std::function<bool()> stop;
};

// Merges one rank's part if that is worth it. Returns true if it was merged; false if there was no
// need, the merge was stopped, or somebody else merges this rank's parts now. The caller need not
// hold the job's lock, because a merge removes nothing of others. kNotFound if the checkpoint has
// been pruned meanwhile. After a failure all is as it was, or, if the last sync has failed, merged.
Result<bool> merge_if_worth(FileSystem& files, const MergeRequest& request,
                            Compression& compression, const Spawn& spawn);

}  // namespace gpusnap
