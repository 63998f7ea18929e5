// SPDX-License-Identifier: Apache-2.0
// A file that blocks are given places in.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tiers/file_system.h"
#include "tiers/format.h"

namespace gpusnap {

// A file in a segment's form while it is written: a segment, or a chunk on a local tier.
// Thread-safe.
class PlacedFile {
 public:
  // Without a file, which could not be made, it has failed.
  PlacedFile(std::unique_ptr<BulkFile> file, uint32_t number, const SegmentHeader& header)
      : file_(std::move(file)), number_(number), header_(encode_segment_header(header)) {}

  BulkFile& file() { return *file_; }
  uint32_t number() const { return number_; }                            // of its name
  uint64_t end() const { return end_.load(std::memory_order_acquire); }  // of what was taken
  // A place for so many bytes that nobody else has.
  uint64_t take(uint64_t bytes);
  // Where it would begin behind all that was taken.
  uint64_t next(uint64_t bytes) const;

  std::span<const std::byte> header() const { return header_; }
  // True once: whoever gets it writes the header.
  bool begin_header() { return !header_begun_.exchange(true); }
  void header_written() { header_written_.store(true, std::memory_order_release); }
  bool has_header() const { return header_written_.load(std::memory_order_acquire); }

  // It takes nothing more. True the first time.
  bool fail() { return !failed_.exchange(true); }
  bool has_failed() const { return file_ == nullptr || failed_.load(std::memory_order_acquire); }

 private:
  const std::unique_ptr<BulkFile> file_;
  const uint32_t number_;
  const std::array<std::byte, kSegmentHeaderBytes> header_;
  std::atomic<uint64_t> end_{kSegmentHeaderBytes};
  std::atomic<bool> header_begun_{false};
  std::atomic<bool> header_written_{false};
  std::atomic<bool> failed_{false};
};

}  // namespace gpusnap
