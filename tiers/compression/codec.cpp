// SPDX-License-Identifier: Apache-2.0
#include "tiers/compression/codec.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "tiers/compression/shuffle.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

// The header of a frame, before its first block (RFC 8878, section 3.1.1.1). zstd's own reader of
// the header is not part of its stable interface.
struct ZstdHeader {
  std::optional<uint64_t> content_bytes;
  uint64_t window_bytes = 0;
  bool has_dictionary = false;
};

class Take {
 public:
  explicit Take(std::span<const std::byte> from) : from_(from) {}
  // Little-endian; 0 beyond the end.
  uint64_t next(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      if (at_ == from_.size()) {
        short_ = true;
        return 0;
      }
      value |= std::to_integer<uint64_t>(from_[at_++]) << (8 * i);
    }
    return value;
  }
  bool was_short() const { return short_; }

 private:
  std::span<const std::byte> from_;
  size_t at_ = 0;
  bool short_ = false;
};

std::optional<ZstdHeader> read_frame_header(std::span<const std::byte> frame) {
  Take take(frame);
  if (take.next(4) != ZSTD_MAGICNUMBER) return {};
  const uint64_t descriptor = take.next(1);
  const bool single_segment = (descriptor >> 5 & 1) != 0;
  ZstdHeader header;
  if (!single_segment) {
    const uint64_t window = take.next(1);
    const uint64_t base = uint64_t{1} << (10 + (window >> 3));
    header.window_bytes = base + base / 8 * (window & 7);
  }
  constexpr size_t kDictionaryIdBytes[] = {0, 1, 2, 4};
  header.has_dictionary = take.next(kDictionaryIdBytes[descriptor & 3]) != 0;
  const uint64_t size_flag = descriptor >> 6;
  if (size_flag > 0 || single_segment) {
    const size_t size_bytes = size_t{1} << size_flag;
    header.content_bytes = take.next(size_bytes) + (size_bytes == 2 ? 256 : 0);
  }
  if (single_segment) header.window_bytes = *header.content_bytes;
  if (take.was_short()) return {};
  return header;
}

Status no_memory(const char* what) {
  return {Code::kIo, std::string("cannot ") + what + " a block: there is no memory for it"};
}

Status check_block(size_t size, size_t most) {
  if (size > 0 && size <= most) return {};
  return {Code::kInvalid, "a block of " + std::to_string(size) + " bytes where 1 to " +
                              std::to_string(most) + " are possible"};
}

}  // namespace

const char* name_of(Form form) {
  switch (form) {
    case Form::kStored:
      return "stored";
    case Form::kZstd:
      return "zstd";
    case Form::kShuffle2:
      return "shuffle2+zstd";
    case Form::kShuffle4:
      return "shuffle4+zstd";
    case Form::kShuffle8:
      return "shuffle8+zstd";
  }
  return "unknown";
}

size_t element_bytes(Form form) {
  switch (form) {
    case Form::kShuffle2:
      return 2;
    case Form::kShuffle4:
      return 4;
    case Form::kShuffle8:
      return 8;
    case Form::kStored:
    case Form::kZstd:
      break;
  }
  return 1;
}

bool is_form(uint8_t stored_value) {
  return stored_value <= static_cast<uint8_t>(Form::kShuffle8);
}

Status check(const CodecOptions& options) {
  const auto refuse = [](const char* what, int is, int least, int most) {
    return Status(Code::kInvalid, std::string("a compression ") + what + " of " +
                                      std::to_string(is) + " where " + std::to_string(least) +
                                      " to " + std::to_string(most) + " are possible");
  };
  if (options.level < kLeastLevel || options.level > kMostLevel) {
    return refuse("level", options.level, kLeastLevel, kMostLevel);
  }
  if (options.window_log != 0 &&
      (options.window_log < kLeastWindowLog || options.window_log > kMostWindowLog)) {
    return refuse("window log", options.window_log, kLeastWindowLog, kMostWindowLog);
  }
  return {};
}

Result<std::unique_ptr<Compressor>> Compressor::make(const CodecOptions& options,
                                                     size_t most_block_bytes) noexcept {
  using Made = Result<std::unique_ptr<Compressor>>;
  return no_throw("make a compressor", [&]() -> Made {
    if (Status good = check(options); !good.ok()) return good;
    std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd(ZSTD_createCCtx(), ZSTD_freeCCtx);
    std::unique_ptr<std::byte[]> shuffled(new (std::nothrow) std::byte[most_block_bytes]);
    if (!zstd || !shuffled) return no_memory("compress");
    ZSTD_CCtx_setParameter(zstd.get(), ZSTD_c_compressionLevel, options.level);
    ZSTD_CCtx_setParameter(zstd.get(), ZSTD_c_windowLog, options.window_log);
    ZSTD_CCtx_setParameter(zstd.get(), ZSTD_c_contentSizeFlag, 1);
    ZSTD_CCtx_setParameter(zstd.get(), ZSTD_c_checksumFlag, 0);
    auto* made = new Compressor(zstd.get(), shuffled.get(), most_block_bytes);
    (void)zstd.release();
    (void)shuffled.release();
    return std::unique_ptr<Compressor>(made);
  });
}

Compressor::~Compressor() {
  ZSTD_freeCCtx(zstd_);
}

Result<size_t> Compressor::compress(Form form, std::span<const std::byte> block,
                                    std::span<std::byte> to) noexcept {
  return no_throw("compress a block", [&]() -> Result<size_t> {
    if (Status good = check_block(block.size(), most_block_bytes_); !good.ok()) return good;
    if (form == Form::kStored) {
      if (to.size() < block.size()) return size_t{0};
      std::memcpy(to.data(), block.data(), block.size());
      return block.size();
    }
    if (!is_form(static_cast<uint8_t>(form))) {
      return Status(Code::kInvalid, "cannot compress a block: its form is not known");
    }
    const std::byte* source = block.data();
    if (const size_t width = element_bytes(form); width > 1) {
      shuffle_bytes(width, block, {shuffled_.get(), block.size()});
      source = shuffled_.get();
    }
    const size_t size = ZSTD_compress2(zstd_, to.data(), to.size(), source, block.size());
    if (ZSTD_isError(size) == 0) return size;
    if (ZSTD_getErrorCode(size) == ZSTD_error_dstSize_tooSmall) return size_t{0};
    if (ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) return no_memory("compress");
    return Status(Code::kIo, std::string("cannot compress a block: ") + ZSTD_getErrorName(size));
  });
}

Result<std::unique_ptr<Decompressor>> Decompressor::make(size_t most_block_bytes,
                                                         int most_window_log) noexcept {
  using Made = Result<std::unique_ptr<Decompressor>>;
  return no_throw("make a decompressor", [&]() -> Made {
    std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd(ZSTD_createDCtx(), ZSTD_freeDCtx);
    std::unique_ptr<std::byte[]> shuffled(new (std::nothrow) std::byte[most_block_bytes]);
    if (!zstd || !shuffled) return no_memory("decompress");
    auto* made = new Decompressor(zstd.get(), shuffled.get(), most_block_bytes, most_window_log);
    (void)zstd.release();
    (void)shuffled.release();
    return std::unique_ptr<Decompressor>(made);
  });
}

Decompressor::~Decompressor() {
  ZSTD_freeDCtx(zstd_);
}

Status Decompressor::decode_frame(std::span<const std::byte> frame, std::span<std::byte> to) {
  const std::optional<ZstdHeader> header = read_frame_header(frame);
  if (!header) return damaged("a compressed block does not start as a zstd frame does");
  if (header->has_dictionary) {
    return {Code::kUnsupported, "a compressed block needs a dictionary"};
  }
  if (header->window_bytes > uint64_t{1} << most_window_log_) {
    return {Code::kUnsupported,
            "a compressed block needs a window of " + std::to_string(header->window_bytes) +
                " bytes, which is more than " + std::to_string(uint64_t{1} << most_window_log_)};
  }
  if (header->content_bytes != to.size()) {
    return damaged("a compressed block is of another size than it should be");
  }
  if (ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    return damaged("a compressed block is not exactly one zstd frame");
  }
  // In one pass zstd has no window of its own: it looks back in `to`.
  const size_t size = ZSTD_decompressDCtx(zstd_, to.data(), to.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) == 0 && size == to.size()) return {};
  if (ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) return no_memory("decompress");
  return damaged("a compressed block cannot be decompressed");
}

Status Decompressor::decompress(Form form, std::span<const std::byte> stored,
                                std::span<std::byte> block) noexcept {
  return no_throw("decompress a block", [&]() -> Status {
    if (Status good = check_block(block.size(), most_block_bytes_); !good.ok()) return good;
    if (form == Form::kStored) {
      if (stored.size() != block.size()) {
        return damaged("a stored block is of another size than it should be");
      }
      std::memcpy(block.data(), stored.data(), block.size());
      return {};
    }
    if (!is_form(static_cast<uint8_t>(form))) {
      return {Code::kUnsupported, "a block is stored in a form that is not known"};
    }
    const size_t width = element_bytes(form);
    if (width == 1) return decode_frame(stored, block);
    const std::span<std::byte> shuffled(shuffled_.get(), block.size());
    if (Status decoded = decode_frame(stored, shuffled); !decoded.ok()) return decoded;
    unshuffle_bytes(width, shuffled, block);
    return {};
  });
}

}  // namespace gpusnap
