// SPDX-License-Identifier: Apache-2.0
// The replay journal in files: a stream of bytes that only grows. The recorder defines the meaning
// of the bytes. The stream is written in frames: header, zstd-compressed block, checksum; or a
// header that says how far back the stream was the same. An incomplete frame is ignored.
// docs/file-format.md describes the bytes.
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

// The slots of a journal's stream that have to be durable before a checkpoint that needs them is
// committed.
struct JournalCover {
  uint32_t stream = 0;  // and its life: of the staging area (tiers/staging)
  uint32_t life = 0;
  uint64_t slots = 0;  // number of leading slots
};

// Takes the bytes of a part's file in their order. Used by one thread.
class JournalSink {
 public:
  virtual ~JournalSink() = default;
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // Returns the slots that hold all bytes appended so far.
  virtual Result<JournalCover> settle() = 0;
};

// Appends to one part. One thread, the producer, appends; the writer's thread compresses and
// writes. Appending fills a block that was allocated at the start, and never allocates. If all
// blocks are full, it waits for the writer's thread.
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

  // `entries`: the number of hooked calls that end in these bytes. Any number of bytes.
  virtual void append(std::span<const std::byte> bytes, uint32_t entries) = 0;
  // Returns room for that many bytes, for small and frequent data that is written in place. add()
  // then appends the bytes written, from the first on. Null: the block has no room; use append().
  std::byte* room(size_t bytes) const {
    return bytes < static_cast<size_t>(end_ - next_) ? next_ : nullptr;
  }
  void add(size_t bytes, uint32_t entries) {
    next_ += bytes;
    entries_ += entries;
  }

  // Closes the current block and returns the position after all bytes appended so far. Does not
  // wait. Producer only.
  virtual JournalPart seal() = 0;
  // Waits until the part up to `position` is settled in the sink, and sets `position.file_bytes`.
  // Returns the first failure since the start, if any. Any thread.
  virtual Result<JournalCover> settle(JournalPart& position) = 0;

  // Bytes appended so far. Producer only.
  virtual uint64_t stream_bytes() const = 0;
  // The part's file has so many bytes, with all that the writer's thread has come to. Any thread.
  virtual uint64_t stored_bytes() const = 0;
  uint64_t entries() const { return entries_; }

 protected:
  // The free rest of the block that the producer fills.
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  uint64_t entries_ = 0;  // of all blocks
};

// Reads the stream of a list of parts, frame by frame, and verifies each frame.
class JournalReader {
 public:
  static Result<std::unique_ptr<JournalReader>> open(FileSystem& files, const std::string& folder,
                                                     std::vector<JournalPart> parts);
  virtual ~JournalReader() = default;
  // Reads exactly bytes.size() bytes. Returns kNotFound at the end of the stream, if no byte is
  // left; kDamaged if the stream ends earlier or a frame is wrong.
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
