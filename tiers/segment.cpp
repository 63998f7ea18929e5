#include "tiers/segment.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tiers/checksum.h"
#include "tiers/names.h"

namespace gpusnap {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kLine = 64;
constexpr uint64_t kLargeExtent = 64 << 10;
constexpr uint64_t kSmallestSegment = 2 * kSegmentHeaderBytes;

uint64_t alignment_of(uint64_t extent_bytes) {
  return extent_bytes >= kLargeExtent ? kPage : kLine;
}

uint64_t align_up(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace

PieceWriter::PieceWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {
  buffer_.reserve(kPiece);
}

// Moves bytes into the buffer, and the buffer into the file once it is full.
Status PieceWriter::fill(std::span<const std::byte>& bytes) {
  const size_t count = std::min(kPiece - buffer_.size(), bytes.size());
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
  bytes = bytes.subspan(count);
  if (buffer_.size() < kPiece) return {};
  Status written = file_->append(buffer_);
  buffer_.clear();
  return written;
}

Status PieceWriter::append(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  if (!buffer_.empty()) {
    if (Status filled = fill(bytes); !filled.ok()) return filled;
  }
  if (const size_t whole = bytes.size() / kPiece * kPiece; whole > 0) {
    if (Status written = file_->append(bytes.first(whole)); !written.ok()) return written;
    bytes = bytes.subspan(whole);
  }
  return bytes.empty() ? Status() : fill(bytes);
}

Status PieceWriter::zeros(size_t count) {
  static constexpr std::array<std::byte, kPage> kZeros{};
  while (count > 0) {
    const size_t piece = std::min(count, kZeros.size());
    if (Status written = append(std::span(kZeros).first(piece)); !written.ok()) return written;
    count -= piece;
  }
  return {};
}

Status PieceWriter::finish() {
  if (!buffer_.empty()) {
    if (Status written = file_->append(buffer_); !written.ok()) return written;
    buffer_.clear();
  }
  return file_->sync();
}

SegmentWriter::SegmentWriter(FileSystem& files, std::string folder, Identity identity,
                             uint64_t segment_bytes)
    : files_(files),
      folder_(std::move(folder)),
      identity_(std::move(identity)),
      segment_bytes_(std::max(segment_bytes, kSmallestSegment)) {}

uint64_t SegmentWriter::room() const {
  const uint64_t start = current_ ? align_up(current_->size(), kPage) : segment_bytes_;
  return start < segment_bytes_ ? segment_bytes_ - start : 0;
}

Status SegmentWriter::open_segment() {
  const auto number = static_cast<uint32_t>(segments_.size());
  const std::string name = segment_name({identity_.rank, identity_.run, number});
  Result<std::unique_ptr<WritableFile>> file = files_.create(folder_ + "/" + name);
  if (!file.ok()) return file.status();
  segments_.push_back({name, 0});
  current_ = std::make_unique<PieceWriter>(std::move(file.value()));
  return current_->append(
      encode_segment_header({identity_.epoch, identity_.rank, number,
                             checksum(identity_.job_folder_name), checksum(identity_.run)}));
}

Status SegmentWriter::close_segment() {
  if (!current_) return {};
  segments_.back().size = current_->size();
  Status finished = current_->finish();
  current_.reset();
  return finished;
}

Status SegmentWriter::make_room(uint64_t bytes) {
  if (room() >= bytes || room() >= segment_bytes_ - kSegmentHeaderBytes) return {};
  if (Status closed = close_segment(); !closed.ok()) return closed;
  return open_segment();
}

Status SegmentWriter::add(uint32_t range, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (Status made = make_room(bytes.size()); !made.ok()) return made;
    const auto part = bytes.first(std::min<uint64_t>(bytes.size(), room()));
    if (Status aligned = align(part.size()); !aligned.ok()) return aligned;
    extents_.push_back({range, offset, part.size(), static_cast<uint32_t>(segments_.size() - 1),
                        current_->size(), checksum(part)});
    if (Status appended = current_->append(part); !appended.ok()) return appended;
    bytes = bytes.subspan(part.size());
    offset += part.size();
  }
  return {};
}

Status SegmentWriter::add(const CompressedBlock& block) {
  if (Status made = make_room(block.bytes.size()); !made.ok()) return made;
  if (Status aligned = align(block.bytes.size()); !aligned.ok()) return aligned;
  Extent extent;
  extent.segment = static_cast<uint32_t>(segments_.size() - 1);
  extent.segment_offset = current_->size();
  extent.form = block.form;
  extent.block_stored = block.bytes.size();
  for (const Piece& piece : block.pieces) extent.block_bytes += piece.size;
  for (size_t i = 0; i < block.pieces.size(); ++i) {
    extent.range = block.pieces[i].range;
    extent.offset = block.pieces[i].offset;
    extent.size = block.pieces[i].size;
    extent.checksum = block.checksums[i];
    extents_.push_back(extent);
    extent.within += extent.size;
  }
  return current_->append(block.bytes);
}

Status SegmentWriter::align(uint64_t bytes) {
  const uint64_t place = align_up(current_->size(), alignment_of(bytes));
  return current_->zeros(place - current_->size());
}

Status SegmentWriter::finish() {
  return close_segment();
}

void SegmentWriter::remove() {
  current_.reset();
  for (const SegmentRef& segment : segments_) {
    (void)files_.remove(folder_ + "/" + segment.file);
  }
  segments_.clear();
  extents_.clear();
}

Status wrong_content(const std::string& segment_path, const Extent& extent,
                     const std::string& why) {
  return {Code::kDamaged, "segment " + segment_path + " is damaged between bytes " +
                              std::to_string(extent.segment_offset) + " and " +
                              std::to_string(extent.segment_offset + extent.stored()) + ": " + why};
}

Status ExtentReader::read(const ReadableFile& segment, const std::string& path,
                          const Extent& extent, std::span<std::byte> bytes) {
  if (extent.form == Form::kStored) {
    if (Status read = segment.read(extent.segment_offset, bytes); !read.ok()) return read;
  } else {
    if (Status loaded = load_block(segment, path, extent); !loaded.ok()) return loaded;
    std::memcpy(bytes.data(), block_.data() + extent.within, bytes.size());
  }
  if (checksum(bytes) == extent.checksum) return {};
  return wrong_content(path, extent, "the checksum is wrong");
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
  return foreign ? wrong_content(path, extent, whole.message()) : whole;
}

Result<std::unique_ptr<ReadableFile>> open_segment(FileSystem& files,
                                                   const std::string& epoch_folder,
                                                   const std::string& job_folder_name,
                                                   const Manifest& manifest, uint32_t segment) {
  const SegmentRef& ref = manifest.segments[segment];
  const std::string path = epoch_folder + "/" + ref.file;
  const auto wrong = [&path](Code code, const std::string& why) {
    return Status(code, "segment " + path + " cannot be used: " + why);
  };
  Result<std::unique_ptr<ReadableFile>> file = files.open(path);
  if (!file.ok()) return file;
  if (file.value()->size() != ref.size) {
    return wrong(Code::kDamaged, "it has " + std::to_string(file.value()->size()) +
                                     " bytes instead of " + std::to_string(ref.size));
  }
  std::array<std::byte, kSegmentHeaderBytes> bytes{};
  if (ref.size < bytes.size()) return wrong(Code::kDamaged, "it is too short for its header");
  if (Status read = file.value()->read(0, bytes); !read.ok()) return read;
  const Result<SegmentHeader> header = decode_segment_header(bytes);
  if (!header.ok()) return wrong(header.status().code(), header.status().message());
  const std::optional<SegmentName> name = parse_segment_name(ref.file);
  if (!name) return wrong(Code::kDamaged, "its name is not that of a segment");
  const SegmentHeader expected{manifest.epoch, name->rank, name->number, checksum(job_folder_name),
                               checksum(name->run)};
  if (!(header.value() == expected)) {
    return wrong(Code::kDamaged, "it is the segment of another checkpoint");
  }
  return file;
}

}  // namespace gpusnap
