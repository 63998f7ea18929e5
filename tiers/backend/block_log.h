// SPDX-License-Identifier: Apache-2.0
// Records where the blocks of one rank's part of a checkpoint lie while the part is in flight, so
// that another backend can take over the part from one that died. Every slot is in the staging area
// or in a file that the log names: a record is appended before the slots that it describes are
// released.
//
// Format: docs/file-format.md. A log may hold arbitrary bytes. It is valid up to the first
// incomplete record, at which its writer died.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/mutex.h"
#include "tiers/segment_store.h"
#include "tiers/status.h"

namespace gpusnap {

// The bytes of a chunk after its header lie unchanged in a segment, from offset `base` on.
struct MovedChunk {
  uint32_t chunk = 0;
  uint32_t segment = 0;  // number
  uint64_t base = 0;
  uint64_t bytes = 0;
  bool operator==(const MovedChunk&) const = default;
};

// The content of one log, or of several logs of one part.
struct BlockLog {
  std::string text;  // CheckpointText
  std::vector<SegmentStore::StoredBlock> blocks;
  std::vector<MovedChunk> moved;
  struct ManifestSlot {
    uint64_t sequence = 0;
    std::vector<std::byte> bytes;
  };
  std::vector<ManifestSlot> manifest;
  std::optional<uint64_t> sealed;  // slots in all; no other ones follow
  bool committed = false;          // to the store: the files on local tiers are copies
};

// Each returns the bytes of one record.
std::vector<std::byte> encode_log_text(const std::string& text);
std::vector<std::byte> encode_log_block(const SegmentStore::StoredBlock& block);
std::vector<std::byte> encode_log_moved(const MovedChunk& moved);
std::vector<std::byte> encode_log_manifest(uint64_t sequence, std::span<const std::byte> bytes);
std::vector<std::byte> encode_log_sealed(uint64_t slots);
std::vector<std::byte> encode_log_committed();

// Adds the complete records to `log` and returns their length in bytes. Returns kDamaged if a
// complete record is invalid or of the first version, kNewer if it is of a later version.
Result<size_t> decode_block_log(std::span<const std::byte> bytes, BlockLog& log);
// Does the same for a file.
Status read_block_log(FileSystem& files, const std::string& path, BlockLog& log);

// Combines the records of several logs of one part: the log that followed a failed one may repeat a
// record. Returns kDamaged if records contradict each other.
Status settle(BlockLog& log);

// Appends to a block log. Thread-safe. The file is created with the first record. If its device
// fails, a second file follows: the complete records of both files are the log.
class BlockLogWriter {
 public:
  struct Place {
    std::string path;
    // Path of the second file; empty: there is none.
    std::string next;
    // Called when the first file takes no more records, with the reason: by the thread that found
    // this, with a lock held.
    std::function<void(const Status& why)> on_failure;
  };
  // `text`: the first record of each file.
  BlockLogWriter(FileSystem& files, Place place, std::string text)
      : files_(files), place_(std::move(place)), text_(std::move(text)) {}

  Status append(std::span<const std::byte> records);
  // Makes the records in the current file durable, but not the file's name. Also fails if the
  // current file failed and a second one is to follow.
  Status sync();
  bool has_moved_on() const;  // the first file has failed

 private:
  Status put(std::span<const std::byte> records) REQUIRES(mutex_);
  bool move_on(const Status& why) REQUIRES(mutex_);
  Status open() REQUIRES(mutex_);

  FileSystem& files_;
  Place place_;
  const std::string text_;
  mutable Mutex mutex_;
  std::unique_ptr<WritableFile> file_ GUARDED_BY(mutex_);
  bool moved_on_ GUARDED_BY(mutex_) = false;
  Status status_ GUARDED_BY(mutex_);  // failure of the last file: later records would not be read
};

}  // namespace gpusnap
