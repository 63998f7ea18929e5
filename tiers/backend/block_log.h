// Records where the blocks of one rank's part of a checkpoint lie while the part is on its way, so
// that another backend can take the part over from one that died. Every slot is in the staging
// area, or in a file that the log names: a record is appended before the slots that it describes
// are released.
//
// Bytes: docs/file-format.md. A log that is read may hold anything. It is good up to the first
// record that is not whole, which is where the writer died.
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

// A chunk's bytes behind its header lie in a segment, as they are, from `base` on.
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
  std::optional<uint64_t> sealed;  // slots in all: nothing else is to come
  bool committed = false;          // to the store: what is on local tiers is a copy
};

// The bytes of a record each.
std::vector<std::byte> encode_log_text(const std::string& text);
std::vector<std::byte> encode_log_block(const SegmentStore::StoredBlock& block);
std::vector<std::byte> encode_log_moved(const MovedChunk& moved);
std::vector<std::byte> encode_log_manifest(uint64_t sequence, std::span<const std::byte> bytes);
std::vector<std::byte> encode_log_sealed(uint64_t slots);
std::vector<std::byte> encode_log_committed();

// Adds the whole records to `log`; how many bytes they are. kDamaged where a whole record makes no
// sense or is of the first version, kNewer where it is of a later one.
Result<size_t> decode_block_log(std::span<const std::byte> bytes, BlockLog& log);
// The same of a file.
Status read_block_log(FileSystem& files, const std::string& path, BlockLog& log);

// Combines the records of several logs of one part: the log that followed a failed one may repeat a
// record. Returns kDamaged if records contradict each other.
Status settle(BlockLog& log);

// Thread-safe. The file is made with the first record. Where its device fails, another one follows
// it: the whole records of both are the log.
class BlockLogWriter {
 public:
  struct Place {
    std::string path;
    // The log that follows; empty: none does.
    std::string next;
    // The first one takes nothing more, for that reason. By the thread that found it, with a lock
    // held.
    std::function<void(const Status& why)> on_failure;
  };
  // `text`: the first record of each.
  BlockLogWriter(FileSystem& files, Place place, std::string text)
      : files_(files), place_(std::move(place)), text_(std::move(text)) {}

  Status append(std::span<const std::byte> records);
  // Makes the records in the current log durable, but not the file's name. Also fails if the
  // current log failed and another one is to follow.
  Status sync();
  bool has_moved_on() const;  // the first one has failed

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
  Status status_ GUARDED_BY(mutex_);  // the last one's failure: what follows it would not be read
};

}  // namespace gpusnap
