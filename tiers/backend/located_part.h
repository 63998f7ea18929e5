// SPDX-License-Identifier: Apache-2.0
//
// Where the bytes of one rank's part of a checkpoint lie at one moment while it is on its way to
// its store: in the node's staging area, in chunks on local devices, in segments.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tiers/local_chunks.h"
#include "tiers/manifest.h"
#include "tiers/status.h"

namespace gpusnap {

struct LocatedPart {
  // As if the store had it. Its segments stand for the files below, and no store has them: bytes
  // that are not right in such a file, or not there any more, are nowhere else.
  Manifest manifest;
  std::vector<NearChunk> files;  // by segment
};

// Whether a restart still needs these bytes of a range: the others are located without checksums,
// and are not to be read.
using IsNeeded = std::function<bool(uint32_t range, uint64_t offset, uint64_t size)>;
// Locates a part anew each time. kNotFound: it is not on its way from this node any more.
using LocatePart = std::function<Result<LocatedPart>(const IsNeeded& is_needed)>;

}  // namespace gpusnap
