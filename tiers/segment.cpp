// SPDX-License-Identifier: Apache-2.0
#include "tiers/segment.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tiers/checksum.h"
#include "tiers/names.h"

namespace gpusnap {

Status wrong_content(const std::string& segment_path, uint64_t begin, uint64_t end,
                     const std::string& why) {
  return {Code::kDamaged, "segment " + segment_path + " is damaged between bytes " +
                              std::to_string(begin) + " and " + std::to_string(end) + ": " + why};
}

Status check_parts(const std::string& segment_path, const Extent& extent, uint64_t from,
                   std::span<const std::byte> bytes) {
  for (size_t number = extent.part_at(from); !bytes.empty(); ++number) {
    const Extent::Part part = extent.part(number);
    const uint64_t size = part.end - part.begin;
    if (checksum(bytes.first(size)) != part.checksum) {
      const bool is_plain = extent.form == Form::kStored;
      const uint64_t begin = extent.segment_offset + (is_plain ? part.begin : 0);
      return wrong_content(segment_path, begin, begin + (is_plain ? size : extent.block_stored),
                           "the checksum is wrong");
    }
    bytes = bytes.subspan(size);
  }
  return {};
}

Status ExtentReader::read(const ReadableFile& segment, const std::string& path,
                          const Extent& extent, std::span<std::byte> bytes) {
  if (extent.form == Form::kStored) {
    if (Status read = segment.read(extent.segment_offset, bytes); !read.ok()) return read;
  } else {
    if (Status loaded = load_block(segment, path, extent); !loaded.ok()) return loaded;
    std::memcpy(bytes.data(), block_.data() + extent.within, bytes.size());
  }
  return check_parts(path, extent, 0, bytes);
}

Status ExtentReader::load_block(const ReadableFile& segment, const std::string& path,
                                const Extent& extent) {
  const Place place{path, extent.segment_offset, extent.block_stored, extent.block_bytes,
                    extent.form};
  if (place_ == place) return {};
  place_ = {};
  stored_.resize(extent.block_stored);
  if (Status read = segment.read(extent.segment_offset, stored_); !read.ok()) return read;
  if (most_ < extent.block_bytes) {
    auto made = Decompressor::make(extent.block_bytes);
    if (!made.ok()) return made.status();
    decompressor_ = std::move(made.value());
    most_ = extent.block_bytes;
  }
  block_.resize(extent.block_bytes);
  Status whole = decompressor_->decompress(extent.form, stored_, block_);
  if (whole.ok()) {
    place_ = place;
    return {};
  }
  const bool foreign = whole.code() == Code::kDamaged || whole.code() == Code::kUnsupported;
  return foreign ? wrong_content(path, extent.segment_offset,
                                 extent.segment_offset + extent.block_stored, whole.message())
                 : whole;
}

namespace {

Status unusable(const std::string& path, Code code, const std::string& why) {
  return {code, "segment " + path + " cannot be used: " + why};
}

}  // namespace

Status check_segment_size(uint64_t size, const std::string& path, const SegmentRef& ref) {
  if (size != ref.size) {
    return unusable(
        path, Code::kDamaged,
        "it has " + std::to_string(size) + " bytes instead of " + std::to_string(ref.size));
  }
  if (size >= kSegmentHeaderBytes) return {};
  return unusable(path, Code::kDamaged, "it is too short for its header");
}

Status check_segment_header(std::span<const std::byte> bytes, const std::string& path,
                            const std::string& job_folder_name, const Manifest& manifest,
                            uint32_t segment) {
  const Result<SegmentHeader> header = decode_segment_header(bytes);
  if (!header.ok()) return unusable(path, header.status().code(), header.status().message());
  const std::optional<SegmentName> name = parse_segment_name(manifest.segments[segment].file);
  if (!name) return unusable(path, Code::kDamaged, "its name is not that of a segment");
  const SegmentHeader expected{manifest.epoch, name->rank, name->number, checksum(job_folder_name),
                               checksum(name->run)};
  if (header.value() == expected) return {};
  return unusable(path, Code::kDamaged, "it is the segment of another checkpoint");
}

Result<std::unique_ptr<ReadableFile>> open_segment(FileSystem& files,
                                                   const std::string& epoch_folder,
                                                   const std::string& job_folder_name,
                                                   const Manifest& manifest, uint32_t segment) {
  const SegmentRef& ref = manifest.segments[segment];
  const std::string path = epoch_folder + "/" + ref.file;
  Result<std::unique_ptr<ReadableFile>> file = files.open(path);
  if (!file.ok()) return file;
  if (Status sized = check_segment_size(file.value()->size(), path, ref); !sized.ok()) return sized;
  std::array<std::byte, kSegmentHeaderBytes> bytes{};
  if (Status read = file.value()->read(0, bytes); !read.ok()) return read;
  Status good = check_segment_header(bytes, path, job_folder_name, manifest, segment);
  if (!good.ok()) return good;
  return file;
}

}  // namespace gpusnap
