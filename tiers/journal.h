// The replay journal as bytes in files. Here it is a stream that only grows; what the bytes mean is
// the recorder's business. Written in frames: header, zstd-compressed block, checksum; or a header
// that tells how far back the stream was the same. A frame is whole or it is not there.
// docs/file-format.md gives the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tiers/file_system.h"
#include "tiers/manifest.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

// The slots of a journal's stream that have to be durable before a checkpoint that builds on them
// is committed.
struct JournalCover {
  uint32_t stream = 0;  // of the staging area (tiers/staging), and which of its lives
  uint32_t life = 0;
  uint64_t slots = 0;  // so many of its leading slots
};

// Where the bytes of a part's file go, from its first to its last. Used by one thread.
class JournalSink {
 public:
  virtual ~JournalSink() = default;
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // All that was appended will be found by who looks for what the result tells.
  virtual Result<JournalCover> settle() = 0;
};

// Appends to one part. One producer thread appends; a thread of the writer's own compresses and
// writes. Appending fills a block that was allocated at the start and never allocates; when all
// blocks are full it waits for the writer.
class JournalWriter {
 public:
  struct Options {
    size_t block_bytes = 256 << 10;
    size_t blocks = 8;
    int zstd_level = 1;
    Spawn spawn;  // of the writer's thread
  };
  // `name`: of the part's file.
  static Result<std::unique_ptr<JournalWriter>> create(std::unique_ptr<JournalSink> sink,
                                                       const std::string& name, Options options);
  virtual ~JournalWriter() = default;

  // `entries`: how many hooked calls end in these bytes. Bytes may be any number.
  virtual void append(std::span<const std::byte> bytes, uint32_t entries) = 0;
  // Returns room for so many bytes, in which small and frequent data is written in place: add()
  // takes as many as were written, from the first on. Null: not in this block; append() them.
  std::byte* room(size_t bytes) const {
    return bytes < static_cast<size_t>(end_ - next_) ? next_ : nullptr;
  }
  void add(size_t bytes, uint32_t entries) {
    next_ += bytes;
    entries_ += entries;
  }

  // Closes the current block and gives the position after all that was appended so far; does not
  // wait. Producer thread only.
  virtual JournalPart seal() = 0;
  // Waits until the part up to `position` is settled in the sink. Any thread. Reports what went
  // wrong since the start: once it has failed it stays failed. `position.file_bytes` is filled in.
  virtual Result<JournalCover> settle(JournalPart& position) = 0;

  // Appended so far. Producer thread only.
  virtual uint64_t stream_bytes() const = 0;
  // The part's file has so many bytes, with all that the writer's thread has come to. Any thread.
  virtual uint64_t stored_bytes() const = 0;
  uint64_t entries() const { return entries_; }

 protected:
  // The block that the producer fills.
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  uint64_t entries_ = 0;  // of all blocks
};

// Reads the stream that a list of parts describes, frame by frame, verifying as it goes.
class JournalReader {
 public:
  static Result<std::unique_ptr<JournalReader>> open(FileSystem& files, const std::string& folder,
                                                     std::vector<JournalPart> parts);
  virtual ~JournalReader() = default;
  // Exactly bytes.size() bytes; kNotFound at the clean end of the stream (no byte was left),
  // kDamaged where it ends in between or a frame is wrong.
  virtual Status read(std::span<std::byte> bytes) = 0;
  // Takes as many where that is no work. Null: read() them.
  const std::byte* take(size_t bytes) {
    if (bytes > static_cast<size_t>(end_ - next_)) return nullptr;
    return std::exchange(next_, next_ + bytes);
  }
  virtual uint64_t total_bytes() const = 0;
  virtual uint64_t total_entries() const = 0;

 protected:
  // Bytes of the stream that have been verified and not been read.
  const std::byte* next_ = nullptr;
  const std::byte* end_ = nullptr;
};

}  // namespace gpusnap
