// SPDX-License-Identifier: Apache-2.0
// Reading segment files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/format.h"
#include "tiers/manifest.h"
#include "tiers/piece.h"
#include "tiers/status.h"

namespace gpusnap {

// Bytes of a segment that are not those that were saved.
Status wrong_content(const std::string& segment_path, uint64_t begin, uint64_t end,
                     const std::string& why);
// Whether `bytes`, the extent's from `from` on, are what was saved: they are whole parts of it.
Status check_parts(const std::string& segment_path, const Extent& extent, uint64_t from,
                   std::span<const std::byte> bytes);

// Reads extents, decompresses them if need be, and checks them. Keeps the block that it read last:
// extents that lie in one block are best read one after the other. Allocates its memory with the
// first block. Not thread-safe: one per thread.
class ExtentReader {
 public:
  // `bytes`: exactly the extent's size. `path` is for messages.
  Status read(const ReadableFile& segment, const std::string& path, const Extent& extent,
              std::span<std::byte> bytes);

 private:
  Status load_block(const ReadableFile& segment, const std::string& path, const Extent& extent);

  std::vector<std::byte> stored_;
  std::vector<std::byte> block_;
  // Which block it is: manifests come from anywhere, two may differ about the same place.
  struct Place {
    std::string path;  // of its segment; empty: there is none
    uint64_t offset = 0;
    uint64_t stored = 0;
    uint64_t bytes = 0;
    Form form = Form::kStored;
    bool operator==(const Place&) const = default;
  };
  Place place_;
  std::unique_ptr<Decompressor> decompressor_;
  size_t most_ = 0;  // bytes of a block that it can decompress
};

// Whether these are the leading kSegmentHeaderBytes of that segment, of a file of its size.
Status check_segment_header(std::span<const std::byte> bytes, const std::string& path,
                            const std::string& job_folder_name, const Manifest& manifest,
                            uint32_t segment);
// Whether a segment's file has its size, which has room for a header.
Status check_segment_size(uint64_t size, const std::string& path, const SegmentRef& ref);
// Opens a segment and checks header and size.
Result<std::unique_ptr<ReadableFile>> open_segment(FileSystem& files,
                                                   const std::string& epoch_folder,
                                                   const std::string& job_folder_name,
                                                   const Manifest& manifest, uint32_t segment);

}  // namespace gpusnap
