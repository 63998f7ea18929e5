// SPDX-License-Identifier: Apache-2.0
// Compresses one block of a snapshot and decompresses it again. A block is what a staging slot
// holds: any size from 1 byte to the most that a codec was made for.
//
// A compressed block is one plain zstd frame with its content size and without a checksum of its
// own (XXH3 guards what we store). `zstd -d` takes its window without an option. From a shuffled
// form, `zstd -d` gives the shuffled bytes (shuffle.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tiers/status.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace gpusnap {

// The numbers are those of stored files.
enum class Form : uint8_t {
  kStored = 0,    // as it is
  kZstd = 1,      //
  kShuffle2 = 2,  // shuffled in elements of 2 bytes, then zstd
  kShuffle4 = 3,
  kShuffle8 = 4,
};
inline constexpr std::array kCompressedForms = {Form::kZstd, Form::kShuffle2, Form::kShuffle4,
                                                Form::kShuffle8};
// The index of a compressed form in that array.
constexpr size_t index_of(Form form) {
  return static_cast<size_t>(form) - static_cast<size_t>(kCompressedForms.front());
}

const char* name_of(Form form);      // "stored", "zstd", "shuffle2+zstd", ...
size_t element_bytes(Form form);     // that it shuffles: 2, 4, 8; else 1
bool is_form(uint8_t stored_value);  // of a number from anywhere

inline constexpr int kLeastLevel = 1;
inline constexpr int kMostLevel = 19;
inline constexpr int kLeastWindowLog = 10;
inline constexpr int kMostWindowLog = 27;  // the most that `zstd -d` takes without --long

struct CodecOptions {
  int level = kLeastLevel;
  int window_log = 0;  // window of 2^n bytes; 0: the level's own
};
// kInvalid, and what would be right.
Status check(const CodecOptions& options);

// Not thread-safe: one per thread. Allocates its memory with the first blocks, and keeps it.
class Compressor {
 public:
  // kInvalid for options that make no sense; kIo where there is no memory.
  static Result<std::unique_ptr<Compressor>> make(const CodecOptions& options,
                                                  size_t most_block_bytes) noexcept;
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // Writes to the beginning of `to`, which does not overlap `block`, and returns the number of
  // bytes. Returns 0 if they do not fit: a `to` smaller than the block takes only blocks that
  // shrink. Returns kInvalid for an empty block and for one above the most.
  Result<size_t> compress(Form form, std::span<const std::byte> block,
                          std::span<std::byte> to) noexcept;

 private:
  Compressor(ZSTD_CCtx_s* zstd, std::byte* shuffled, size_t most_block_bytes)
      : zstd_(zstd), shuffled_(shuffled), most_block_bytes_(most_block_bytes) {}

  ZSTD_CCtx_s* const zstd_;
  const std::unique_ptr<std::byte[]> shuffled_;
  const size_t most_block_bytes_;
};

// Takes arbitrary bytes. Not thread-safe: one per thread. Allocates when it is made; no allocation
// depends on its input.
class Decompressor {
 public:
  // Frames with a window above 2^most_window_log bytes are refused. kIo where there is no
  // memory.
  static Result<std::unique_ptr<Decompressor>> make(size_t most_block_bytes,
                                                    int most_window_log = kMostWindowLog) noexcept;
  ~Decompressor();
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // `block` has exactly the size of the block that was compressed; after an error its content is
  // undefined. kDamaged: these are not the bytes of such a block; kUnsupported: they are a frame
  // that we never write (dictionary, large window); kInvalid: `block` is empty or above the most.
  // Messages say what is wrong, without a name.
  Status decompress(Form form, std::span<const std::byte> stored,
                    std::span<std::byte> block) noexcept;

 private:
  Decompressor(ZSTD_DCtx_s* zstd, std::byte* shuffled, size_t most_block_bytes, int most_window_log)
      : zstd_(zstd),
        shuffled_(shuffled),
        most_block_bytes_(most_block_bytes),
        most_window_log_(most_window_log) {}
  Status decode_frame(std::span<const std::byte> frame, std::span<std::byte> to);

  ZSTD_DCtx_s* const zstd_;
  const std::unique_ptr<std::byte[]> shuffled_;
  const size_t most_block_bytes_;
  const int most_window_log_;
};

}  // namespace gpusnap
