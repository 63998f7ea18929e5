// SPDX-License-Identifier: Apache-2.0
//
// The locations of the bytes of one rank's part of a checkpoint at one moment while it is on its
// way to the store: in the node's staging area, in chunks on local devices, in segments.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tiers/local_chunks.h"
#include "tiers/manifest.h"
#include "tiers/status.h"

namespace gpusnap {

struct LocatedPart {
  // As the store would have it. Its segments stand for `files`. Bytes that are wrong or missing in
  // such a file are nowhere else.
  Manifest manifest;
  std::vector<NearChunk> files;  // by segment
};

// Returns whether a restart still needs these bytes of a range. Other bytes are located without
// checksums and must not be read.
using IsNeeded = std::function<bool(uint32_t range, uint64_t offset, uint64_t size)>;
// Locates the part anew in each call. kNotFound: it is not on its way from this node any more.
using LocatePart = std::function<Result<LocatedPart>(const IsNeeded& is_needed)>;

}  // namespace gpusnap
