// SPDX-License-Identifier: Apache-2.0
// The image of one rank's part of a checkpoint: all files of the part in the store as one sequence
// of bytes, which is divided into shards, so that the files can be put back unchanged. Files of
// ancestors are in their own images.
//
//   8 bytes  magic; 4 bytes: of the table; 8 bytes: XXH3 64 of the table
//   table    number of files; of each its kind, name and bytes
//   files    one after the other: the manifest, its segments, the leading bytes of its journal
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/levels/shard.h"
#include "tiers/manifest.h"
#include "tiers/pending_manifest.h"
#include "tiers/status.h"

namespace gpusnap::levels {

enum class FileOf : uint8_t { kManifest, kSegment, kJournal };
struct ImageFile {
  FileOf kind = FileOf::kManifest;
  std::string name;
  uint64_t bytes = 0;
};

// The location of a part's files in a store.
struct PartPlace {
  std::string job_folder;  // path, with the store's folder
  std::string job;         // the folder's name
  uint64_t epoch = 0;
  uint32_t rank = 0;
};

// Reads an image from its beginning to its end. The files are open from the start on, so that files
// that are pruned or merged meanwhile can still be read. Used by one thread.
class ImageReader {
 public:
  // Returns kNotFound if the part or one of its files does not exist.
  static Result<std::unique_ptr<ImageReader>> open(FileSystem& files, const PartPlace& place);

  uint64_t bytes() const { return bytes_; }
  const Manifest& manifest() const { return manifest_; }
  // Checksum of the manifest's file. It identifies the whole image: the manifest has the checksums
  // of all other files.
  uint64_t manifest_checksum() const { return manifest_checksum_; }
  // Reads exactly bytes.size() further bytes.
  Status read(std::span<std::byte> to);

 private:
  struct Source {
    std::unique_ptr<ReadableFile> file;  // none: `head_`
    uint64_t bytes = 0;
  };
  ImageReader() = default;
  Status add(FileSystem& files, const std::string& path, ImageFile what,
             std::vector<ImageFile>& table);

  Manifest manifest_;
  uint64_t manifest_checksum_ = 0;
  std::vector<std::byte> head_;
  std::vector<Source> sources_;
  uint64_t bytes_ = 0;
  size_t source_ = 0;
  uint64_t at_ = 0;  // in it
};

// Puts an image back into a store. The manifest comes last, so that a part exists as a whole or not
// at all. No other process writes to the job meanwhile. Used by one thread.
class ImageWriter {
 public:
  ImageWriter(FileSystem& files, PartPlace place, uint64_t image_bytes);
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;
  ~ImageWriter();  // removes an unfinished part

  // Adds the next bytes of the image. Bytes beyond its end are padding. Returns kDamaged if the
  // bytes are not valid.
  Status add(std::span<const std::byte> bytes);
  // Finishes the part after all bytes have been added. Durable at return.
  Status finish();

 private:
  uint64_t missing_of_head() const;
  Status add_to_head(std::span<const std::byte> bytes);
  Status add_to_file(std::span<const std::byte> bytes);
  Status take_head();
  Status begin_file();
  Status end_file();
  Status put(std::span<const std::byte> bytes);
  std::string path_of(const ImageFile& file) const;

  FileSystem& files_;
  const PartPlace place_;
  uint64_t left_;  // bytes of the image
  std::vector<std::byte> head_;
  std::vector<std::byte> manifest_;
  std::vector<ImageFile> table_;
  std::optional<size_t> current_;
  uint64_t left_in_file_ = 0;
  std::unique_ptr<WritableFile> file_;
  std::string temporary_;          // of the file that is written
  std::vector<std::string> made_;  // segments
  bool finished_ = false;
};

}  // namespace gpusnap::levels
