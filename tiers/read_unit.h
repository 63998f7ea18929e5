// SPDX-License-Identifier: Apache-2.0
//
// Units of reading: what is read of a segment at once, how the wanted parts of extents are put
// together to units, and how the bytes of a unit are decompressed and checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/compression/codec.h"
#include "tiers/file_system.h"
#include "tiers/local_chunks.h"
#include "tiers/manifest.h"
#include "tiers/manifest_file.h"
#include "tiers/status.h"
#include "tiers/store.h"

namespace gpusnap {

struct ReadSegment {
  const Manifest* manifest = nullptr;
  uint32_t index = 0;
  std::string folder;  // of its epoch
  uint64_t size = 0;   // bytes
  size_t reading = 0;  // units that are being read from it
  std::unique_ptr<BulkFile> file;

  const std::string& name() const { return manifest->segments[index].file; }
  std::string path() const { return folder + "/" + name(); }
};

// Neighbouring parts of an extent, and the pieces that want bytes of them.
struct ReadItem {
  const Extent* extent = nullptr;
  uint64_t from = 0;  // bytes from the extent's start
  uint64_t size = 0;  // bytes
  std::span<const PlacedExtent> pieces;

  bool is_block() const { return extent->form != Form::kStored; }
  // Bytes of the segment that have to be read for it.
  uint64_t begin() const { return extent->segment_offset + (is_block() ? 0 : from); }
  uint64_t end() const { return is_block() ? begin() + extent->block_stored : begin() + size; }
};

// Bytes that are read at once: one block, or extents as they are, or a header.
struct ReadUnit {
  uint32_t segment = 0;
  uint64_t begin = 0;  // bytes from the file's start
  uint64_t end = 0;
  uint64_t bytes = 0;  // of these, without those before and behind it that make whole pages
  std::vector<ReadItem> items;
  struct Gap {
    uint64_t begin = 0;  // as above
    uint64_t end = 0;
  };
  std::vector<Gap> gaps;  // that are to be zero
  bool is_header = false;
  const NearChunk* copy = nullptr;  // where it may be read instead

  bool is_block() const { return !items.empty() && items[0].is_block(); }
  uint64_t raw_bytes() const { return end - begin; }  // as they lie in the file
  uint64_t plain_bytes() const {                      // decompressed
    return is_block() ? items.front().extent->block_bytes : raw_bytes();
  }
};

// The units of a read, in the order in which they are read.
struct ReadUnits {
  std::vector<ReadSegment> segments;
  std::vector<ReadUnit> units;
};

// Puts extents together that are read at once. They come in the order of their places, segment by
// segment.
class UnitPlan {
 public:
  // `most`: bytes of a unit. `near` outlives the units.
  explicit UnitPlan(uint64_t most, const LocalChunks* near = nullptr) : most_(most), near_(near) {}

  void begin_segment(ReadSegment segment);
  // Adds the pieces of the extent, or all of it if no piece is given. The pieces are in order and
  // lie in the extent.
  void add(const Extent& extent, std::span<const PlacedExtent> pieces);
  // Bytes behind what came so far that are to be zero.
  void add_padding(uint64_t from, uint64_t to);
  ReadUnits take();

 private:
  uint32_t last_segment() const { return static_cast<uint32_t>(segments_.size() - 1); }
  void add_item(const ReadItem& item);
  const NearChunk* copy_of(const ReadItem& item) const;
  void leave_out_headers();
  bool joins(const ReadItem& item) const;
  void begin(uint64_t from);

  const uint64_t most_;
  const LocalChunks* const near_;
  std::vector<ReadSegment> segments_;
  std::vector<ReadUnit> units_;
  bool open_ = false;  // the last unit may take more
};

// Decompresses and compares. One for each thread.
class UnitChecker {
 public:
  // `job_folder_name` outlives it.
  explicit UnitChecker(const std::string& job_folder_name) : job_folder_name_(job_folder_name) {}

  // `raw`: the unit as it is in the file; `plain`: where a block's bytes come to, else the same.
  Status check(const ReadSegment& segment, const ReadUnit& unit, std::span<const std::byte> raw,
               std::span<std::byte> plain);

  // Returns where a byte of an extent, counted from its start, lies in the unit's bytes, which are
  // decompressed if the unit is a block.
  static uint64_t place_of(const ReadUnit& unit, const Extent& extent, uint64_t byte) {
    return unit.is_block() ? extent.within + byte : extent.segment_offset + byte - unit.begin;
  }

 private:
  Status decompress(const ReadSegment& segment, const Extent& extent,
                    std::span<const std::byte> stored, std::span<std::byte> plain);
  static Status zeros(const ReadSegment& segment, const ReadUnit& unit,
                      std::span<const std::byte> raw);

  const std::string& job_folder_name_;
  std::unique_ptr<Decompressor> decompressor_;
  size_t most_ = 0;  // bytes of a block that it can decompress
};

}  // namespace gpusnap
