// The segment files of one rank's part of a checkpoint, written one after the other.
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

// Passes bytes on to a file in whole pieces of 1 MiB at multiples of 1 MiB: large runs straight
// from the caller's memory, what is left over through a buffer. Not thread-safe.
class PieceWriter {
 public:
  static constexpr size_t kPiece = 1 << 20;

  explicit PieceWriter(std::unique_ptr<WritableFile> file);
  Status append(std::span<const std::byte> bytes);
  Status zeros(size_t count);  // fewer than a piece
  // Writes what is still in the buffer and syncs. Nothing may follow.
  Status finish();
  uint64_t size() const { return size_; }

 private:
  Status fill(std::span<const std::byte>& bytes);

  std::unique_ptr<WritableFile> file_;
  std::vector<std::byte> buffer_;
  uint64_t size_ = 0;
};

// Pieces that were compressed together, one after the other.
struct CompressedBlock {
  std::span<const Piece> pieces;
  std::span<const uint64_t> checksums;  // of each piece's bytes as they were
  Form form = Form::kZstd;
  std::span<const std::byte> bytes;  // in that form
};

// Spreads extents over segments of at most `segment_bytes`. Not thread-safe. After an error only
// remove() may be called.
class SegmentWriter {
 public:
  struct Identity {
    std::string job_folder_name;
    std::string run;
    uint64_t epoch = 0;
    uint32_t rank = 0;
  };
  SegmentWriter(FileSystem& files, std::string folder, Identity identity, uint64_t segment_bytes);

  // Appends one piece of a range as one extent or, where it does not fit in a segment, several.
  Status add(uint32_t range, uint64_t offset, std::span<const std::byte> bytes);
  // It is not divided: a segment may get longer by it.
  Status add(const CompressedBlock& block);
  // Every segment is complete and synced; their names are not.
  Status finish();
  // Removes all files that were made. Errors are of no consequence: what stays is pruned later.
  void remove();

  const std::vector<Extent>& extents() const { return extents_; }
  const std::vector<SegmentRef>& segments() const { return segments_; }

 private:
  uint64_t room() const;  // in the current segment, for an extent
  Status make_room(uint64_t bytes);
  Status open_segment();
  Status close_segment();
  // At a place that suits so many bytes.
  Status align(uint64_t bytes);

  FileSystem& files_;
  const std::string folder_;
  const Identity identity_;
  const uint64_t segment_bytes_;
  std::unique_ptr<PieceWriter> current_;
  std::vector<SegmentRef> segments_;
  std::vector<Extent> extents_;
};

// An extent whose bytes are not those that were saved.
Status wrong_content(const std::string& segment_path, const Extent& extent, const std::string& why);

// Reads extents, decompresses what is to be, and checks them. The block that it read last is kept:
// extents that lie in one are best read one after the other. Not thread-safe: one per thread. What
// it needs for blocks is allocated with the first of them.
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

// Opens a segment and checks header and size.
Result<std::unique_ptr<ReadableFile>> open_segment(FileSystem& files,
                                                   const std::string& epoch_folder,
                                                   const std::string& job_folder_name,
                                                   const Manifest& manifest, uint32_t segment);

}  // namespace gpusnap
