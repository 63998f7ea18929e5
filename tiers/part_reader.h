// SPDX-License-Identifier: Apache-2.0
// Reads large amounts of segments with large concurrent reads. Several threads decompress and check
// bytes that have arrived while the caller uses bytes that were checked before.
//
// Parts of extents that lie close together in a file are read at once; so are all extents of a
// block. A part is handed out only if its checksum is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/local_chunks.h"
#include "tiers/manifest.h"
#include "tiers/manifest_file.h"
#include "tiers/read_unit.h"
#include "tiers/spawn.h"
#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

struct PartReaderOptions {
  uint32_t threads = 2;  // that check and decompress; the caller does it if none can be started
  uint32_t reads = 16;   // in flight or not taken yet; each has a buffer
  // Also reads and takes units after one that cannot be read; the result is the first failure. For
  // files whose bytes move while they are read.
  bool reads_all_it_can = false;
  Spawn spawn;
};

// Buffers of 4 MiB, allocated on demand. Used by one thread.
class PlainReadBuffers final : public ReadBuffers {
 public:
  explicit PlainReadBuffers(uint32_t most) : most_(most) {}
  PlainReadBuffers(const PlainReadBuffers&) = delete;
  PlainReadBuffers& operator=(const PlainReadBuffers&) = delete;
  ~PlainReadBuffers() override;
  size_t bytes() const override { return kBytes; }
  Result<std::byte*> take(bool wait) override;
  void give_back(std::byte* buffer) override;
  int64_t spare() const override {
    return static_cast<int64_t>(most_ - all_.size() + free_.size());
  }

 private:
  static constexpr size_t kBytes = size_t{4} << 20;
  const uint32_t most_;
  std::vector<std::byte*> all_;
  std::vector<std::byte*> free_;
};

// Returns the reads for these pieces, which lie in the extents of `chain`. The pieces of an extent
// are neighbours, as in the result of place_extents(). All arguments outlive the units. `most`: the
// most bytes of a unit that is no block.
ReadUnits units_of(const JobPlace& job, std::span<const Manifest> chain,
                   std::span<const PlacedExtent> pieces, uint64_t most, const LocalChunks* near);

// Hands out the bytes of each piece once. The pieces lie in the extents of `chain`; those of an
// extent are neighbours, as in the result of place_extents(). Bytes that `near` has are read from
// there or, if they are wrong, from the segment. The caller's thread calls `take`, once for all
// bytes of a range that were read at once, in any order, and not after a failure. Returns the
// failure: for wrong bytes, the first in the order of the pieces.
Status read_pieces(FileSystem& files, const JobPlace& job, std::span<const Manifest> chain,
                   std::span<const PlacedExtent> pieces, const PartReaderOptions& options,
                   ReadBuffers& buffers, const TakePieces& take, LocalChunks* near = nullptr);

// Reads a whole segment and checks its extents, and that all bytes between them are zeros. The
// caller's thread calls `advance` with the number of bytes read since the last call.
Status check_segment(FileSystem& files, const JobPlace& job, const Manifest& manifest,
                     uint32_t segment, const PartReaderOptions& options, ReadBuffers& buffers,
                     const std::function<void(uint64_t bytes)>& advance);

}  // namespace gpusnap
