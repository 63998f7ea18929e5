// SPDX-License-Identifier: Apache-2.0
#include "tiers/format.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tiers/checksum.h"

namespace gpusnap {

namespace {

constexpr size_t kMagicBytes = 8;
constexpr size_t kPrologueBytes = 16;
constexpr uint32_t kFrameMagic = 0x464a5347;   // "GSJF"
constexpr uint32_t kRepeatMagic = 0x524a5347;  // "GSJR"

std::string_view magic_of(FileKind kind) {
  switch (kind) {
    case FileKind::kManifest:
      return "GPUSNAPM";
    case FileKind::kSegment:
      return "GPUSNAPS";
    case FileKind::kJournal:
      break;
  }
  return "GPUSNAPJ";
}

const char* name_of(FileKind kind) {
  switch (kind) {
    case FileKind::kManifest:
      return "manifest";
    case FileKind::kSegment:
      return "segment";
    case FileKind::kJournal:
      break;
  }
  return "journal part";
}

// Puts integers one after the other, little-endian whatever the machine.
class Put {
 public:
  explicit Put(std::span<std::byte> to) : to_(to) {}
  template <class T>
  Put& add(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      to_[at_++] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
    }
    return *this;
  }
  // The checksum of everything before it.
  void seal() { add(checksum(to_.first(at_))); }
  void prologue(FileKind kind) {
    std::memcpy(to_.data(), magic_of(kind).data(), kMagicBytes);
    at_ = kMagicBytes;
    add(format_version(kind));
    add(static_cast<uint32_t>(checksum(to_.first(at_))));
  }

 private:
  std::span<std::byte> to_;
  size_t at_ = 0;
};

// The caller has checked that there are enough bytes.
class Take {
 public:
  explicit Take(std::span<const std::byte> from, size_t at = 0) : from_(from), at_(at) {}
  template <class T>
  T next() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= std::to_integer<uint64_t>(from_[at_++]) << (8 * i);
    }
    return static_cast<T>(value);
  }
  bool sealed() {
    const uint64_t expected = checksum(from_.first(at_));
    return next<uint64_t>() == expected;
  }

 private:
  std::span<const std::byte> from_;
  size_t at_;
};

Status check_prologue(std::span<const std::byte> bytes, FileKind kind, size_t header_bytes) {
  if (bytes.size() < kPrologueBytes) return damaged("it is too short for its header");
  if (std::memcmp(bytes.data(), magic_of(kind).data(), kMagicBytes) != 0) {
    return damaged(std::string("it is not a gpusnap ") + name_of(kind));
  }
  Take take(bytes, kMagicBytes);
  const auto version = take.next<uint32_t>();
  const auto bits = take.next<uint32_t>();
  if (bits != static_cast<uint32_t>(checksum(bytes.first(kMagicBytes + sizeof version))) ||
      version == 0) {
    return damaged("the checksum of its first bytes is wrong");
  }
  if (version > format_version(kind)) {
    return {Code::kNewer, "it has format version " + std::to_string(version) +
                              " and this gpusnap knows up to " +
                              std::to_string(format_version(kind)) + "; use a later gpusnap"};
  }
  if (bytes.size() < header_bytes) return damaged("it is too short for its header");
  return {};
}

}  // namespace

std::array<std::byte, kManifestHeaderBytes> encode_manifest_header(const ManifestHeader& header) {
  std::array<std::byte, kManifestHeaderBytes> bytes{};
  Put put(bytes);
  put.prologue(FileKind::kManifest);
  put.add(header.body_bytes).add(header.body_checksum).seal();
  return bytes;
}

Result<ManifestHeader> decode_manifest_header(std::span<const std::byte> bytes) {
  if (Status good = check_prologue(bytes, FileKind::kManifest, kManifestHeaderBytes); !good.ok()) {
    return good;
  }
  Take take(bytes, kPrologueBytes);
  ManifestHeader header;
  header.body_bytes = take.next<uint64_t>();
  header.body_checksum = take.next<uint64_t>();
  if (!take.sealed()) return damaged("its header's checksum is wrong");
  return header;
}

std::array<std::byte, kSegmentHeaderBytes> encode_segment_header(const SegmentHeader& header) {
  std::array<std::byte, kSegmentHeaderBytes> bytes{};
  Put put(bytes);
  put.prologue(FileKind::kSegment);
  put.add(header.epoch).add(header.rank).add(header.number).add(header.job).add(header.run);
  put.seal();
  return bytes;
}

Result<SegmentHeader> decode_segment_header(std::span<const std::byte> bytes) {
  if (Status good = check_prologue(bytes, FileKind::kSegment, kSegmentHeaderBytes); !good.ok()) {
    return good;
  }
  Take take(bytes, kPrologueBytes);
  SegmentHeader header;
  header.epoch = take.next<uint64_t>();
  header.rank = take.next<uint32_t>();
  header.number = take.next<uint32_t>();
  header.job = take.next<uint64_t>();
  header.run = take.next<uint64_t>();
  if (!take.sealed()) return damaged("its header's checksum is wrong");
  return header;
}

std::array<std::byte, kJournalHeaderBytes> encode_journal_header(const std::string& name) {
  std::array<std::byte, kJournalHeaderBytes> bytes{};
  Put put(bytes);
  put.prologue(FileKind::kJournal);
  put.add(checksum(name)).seal();
  return bytes;
}

Status check_journal_header(std::span<const std::byte> bytes, const std::string& name) {
  if (Status good = check_prologue(bytes, FileKind::kJournal, kJournalHeaderBytes); !good.ok()) {
    return good;
  }
  Take take(bytes, kPrologueBytes);
  const auto named = take.next<uint64_t>();
  if (!take.sealed()) return damaged("its header's checksum is wrong");
  if (named != checksum(name)) return damaged("it is another journal part under this name");
  return {};
}

std::array<std::byte, kFrameHeaderBytes> encode_frame_header(const FrameHeader& header) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  Put put(bytes);
  const bool repeats = header.distance != 0;
  put.add(repeats ? kRepeatMagic : kFrameMagic);
  put.add(repeats ? header.distance : header.stored_bytes);
  put.add(header.raw_bytes).add(header.entries);
  put.add(header.first_entry).add(header.stream_offset).add(header.stored_checksum).seal();
  return bytes;
}

Result<FrameHeader> decode_frame_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrameHeaderBytes) return damaged("a frame's header is cut off");
  Take take(bytes);
  const auto magic = take.next<uint32_t>();
  const bool repeats = magic == kRepeatMagic;
  if (!repeats && magic != kFrameMagic) return damaged("a frame does not start with its magic");
  FrameHeader header;
  (repeats ? header.distance : header.stored_bytes) = take.next<uint32_t>();
  header.raw_bytes = take.next<uint32_t>();
  header.entries = take.next<uint32_t>();
  header.first_entry = take.next<uint64_t>();
  header.stream_offset = take.next<uint64_t>();
  header.stored_checksum = take.next<uint64_t>();
  if (!take.sealed()) return damaged("a frame header's checksum is wrong");
  if (repeats && (header.distance == 0 || header.distance > kMostRepeatDistance)) {
    return damaged("a frame repeats from where no frame can");
  }
  if (header.stored_bytes > kMostFrameStoredBytes ||
      header.raw_bytes > (repeats ? kMostRepeatedBytes : kMostFrameRawBytes)) {
    return damaged("a frame is longer than frames can be");
  }
  return header;
}

bool is_plain_name(const std::string& name) {
  constexpr size_t kLongest = 255;
  if (name.empty() || name.size() > kLongest || name == "." || name == "..") return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f || c == '/';
  });
}

}  // namespace gpusnap
