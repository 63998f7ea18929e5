// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes the fixed parts of stored files: prologue, headers, frames
// (docs/file-format.md). No file is touched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tiers/status.h"

namespace gpusnap {

enum class FileKind { kManifest, kSegment, kJournal };

// Returns the version that is written; earlier versions are read, too.
constexpr uint32_t format_version(FileKind kind) {
  switch (kind) {
    case FileKind::kManifest:
      return 6;
    case FileKind::kJournal:
      return 2;
    case FileKind::kSegment:
      break;
  }
  return 1;
}

inline constexpr size_t kManifestHeaderBytes = 40;
inline constexpr size_t kSegmentHeaderBytes = 4096;
inline constexpr size_t kSegmentHeaderUsedBytes = 56;  // the rest is zero
inline constexpr size_t kJournalHeaderBytes = 32;
inline constexpr size_t kFrameHeaderBytes = 48;
inline constexpr uint32_t kMostFrameRawBytes = 64U << 20;
inline constexpr uint32_t kMostFrameStoredBytes = 68U << 20;
// A frame that repeats stands for no more, and repeats from no farther back.
inline constexpr uint32_t kMostRepeatedBytes = 1U << 30;
inline constexpr uint32_t kMostRepeatDistance = 8U << 20;

// The decoders below take arbitrary bytes. Their messages say what is wrong, without a path: "the
// header's checksum is wrong".

struct ManifestHeader {
  uint64_t body_bytes = 0;
  uint64_t body_checksum = 0;
};
std::array<std::byte, kManifestHeaderBytes> encode_manifest_header(const ManifestHeader& header);
Result<ManifestHeader> decode_manifest_header(std::span<const std::byte> bytes);

struct SegmentHeader {
  uint64_t epoch = 0;
  uint32_t rank = 0;
  uint32_t number = 0;
  uint64_t job = 0;  // checksum of the job's folder name
  uint64_t run = 0;  // checksum of the run
  bool operator==(const SegmentHeader&) const = default;
};
// Returns all kSegmentHeaderBytes.
std::array<std::byte, kSegmentHeaderBytes> encode_segment_header(const SegmentHeader& header);
Result<SegmentHeader> decode_segment_header(std::span<const std::byte> bytes);

std::array<std::byte, kJournalHeaderBytes> encode_journal_header(const std::string& name);
Status check_journal_header(std::span<const std::byte> bytes, const std::string& name);

struct FrameHeader {
  uint32_t stored_bytes = 0;
  uint32_t raw_bytes = 0;
  uint32_t entries = 0;
  uint64_t first_entry = 0;
  uint64_t stream_offset = 0;
  // In a frame that repeats it is that of the bytes that are repeated, each once.
  uint64_t stored_checksum = 0;
  // Above 0: nothing is stored, and each byte is the one so far before it in the part's stream.
  uint32_t distance = 0;

  uint32_t source_bytes() const { return distance < raw_bytes ? distance : raw_bytes; }
};
std::array<std::byte, kFrameHeaderBytes> encode_frame_header(const FrameHeader& header);
// Checks that the lengths are within their limits.
Result<FrameHeader> decode_frame_header(std::span<const std::byte> bytes);

// Returns whether `name` can be a file's name without a folder and is harmless in a message.
bool is_plain_name(const std::string& name);

}  // namespace gpusnap
