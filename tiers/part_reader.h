// SPDX-License-Identifier: Apache-2.0
// Reads much of what segments hold: large reads, many on their way at a time; what has arrived is
// decompressed and checked by several threads while the caller uses what was checked before.
//
// Parts of extents that lie close together in a file are read at once, the extents of a block in
// any case. A part is only handed out when its checksum is right.
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
  uint32_t threads = 2;  // that check and decompress; where none can be had, the caller does
  uint32_t reads = 16;   // on their way or not taken yet; each has a buffer
  // Reads and takes all that can be read, also after a unit that cannot be; the result is the first
  // failure all the same. For files whose bytes move elsewhere meanwhile.
  bool reads_all_it_can = false;
  Spawn spawn;
};

// Buffers of 4 MiB, made when they are needed. Used by one thread.
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

// Returns the reads for these pieces, which lie in the extents of `chain`; the pieces of an extent
// are neighbours, as place_extents() gives them. All arguments outlive the units. `most`: bytes of
// a unit that is no block.
ReadUnits units_of(const JobPlace& job, std::span<const Manifest> chain,
                   std::span<const PlacedExtent> pieces, uint64_t most, const LocalChunks* near);

// Hands out the bytes of each of the pieces once. The pieces lie in the extents of `chain`; those
// of an extent are neighbours, as place_extents() gives them. Bytes that `near` has are read from
// there; if they are not right, from the segment. The caller's thread calls `take`, once for all of
// a range that was read at once, in any order, and not after a failure. The result is the failure:
// for wrong bytes, the first in the order of the pieces.
Status read_pieces(FileSystem& files, const JobPlace& job, std::span<const Manifest> chain,
                   std::span<const PlacedExtent> pieces, const PartReaderOptions& options,
                   ReadBuffers& buffers, const TakePieces& take, LocalChunks* near = nullptr);

// Reads all of a segment and checks its extents, and that there is nothing between them. `advance`
// is called by the caller's thread with the bytes that were read since.
Status check_segment(FileSystem& files, const JobPlace& job, const Manifest& manifest,
                     uint32_t segment, const PartReaderOptions& options, ReadBuffers& buffers,
                     const std::function<void(uint64_t bytes)>& advance);

}  // namespace gpusnap
