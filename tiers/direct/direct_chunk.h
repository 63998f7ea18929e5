// SPDX-License-Identifier: Apache-2.0
// A chunk that the program's process writes from the device directly to a local tier
// (interpose/direct/). The backend makes the file and tells the process its path. The process
// writes zones after the segment header, one after the other, and hands over a DirectChunk in a
// staging slot. The host has not seen these bytes, so the backend reads them once, compares each
// zone with the fingerprint that the device computed at the cut, and computes the checksums of the
// extents. After that the chunk is treated like any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/manifest.h"
#include "tiers/piece.h"
#include "tiers/status.h"

namespace gpusnap {

// The first number of files of such chunks. Chunks that the backend writes have lower numbers.
inline constexpr uint32_t kFirstDirectChunk = 1U << 30;
// The most bytes of a chunk: less than a block log takes for one block.
inline constexpr uint64_t kMostDirectBytes = 256 << 20;

struct DirectChunk {
  uint32_t number = 0;      // of its file
  uint64_t zone_bytes = 0;  // a power of two from 4 KiB to 2 MiB
  // Pieces of whole zones. They lie in the file one after the other, from the end of the header on.
  std::vector<Piece> pieces;
  std::vector<uint64_t> fingerprints;  // at the cut: of each zone, in the order of the file

  uint64_t bytes() const;  // of all pieces
};

// Returns the most bytes of a chunk that fits into the description in a slot of `slot_bytes`, even
// with one piece for each zone: a multiple of `zone_bytes`, at most kMostDirectBytes.
uint64_t most_direct_bytes(uint64_t slot_bytes, uint64_t zone_bytes);

std::vector<std::byte> encode(const DirectChunk& chunk);
// Returns kInvalid if the chunk is not valid. The bytes come from another process's memory: parse a
// copy of them.
Result<DirectChunk> parse_direct_chunk(std::span<const std::byte> bytes);

// Reads the chunk, compares it with its fingerprints and returns its extents as describe_block()
// makes them, with the file's number and their place in it. Blocks. Takes `part_bytes` of memory, a
// multiple of 2 MiB. Returns kTorn if a zone differs from the cut. Calls `gave_up` regularly.
Result<std::vector<Extent>> check_direct_chunk(BulkFile& file, const std::string& path,
                                               const DirectChunk& chunk, size_t part_bytes,
                                               const std::function<bool()>& gave_up);

// As BulkFile::write() and read(), but wait for the end.
Status write_and_wait(BulkFile& file, uint64_t offset, std::span<const std::byte> bytes);
Status read_and_wait(BulkFile& file, uint64_t offset, std::span<std::byte> bytes);

}  // namespace gpusnap
