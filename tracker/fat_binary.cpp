#include "tracker/fat_binary.h"

#include <zstd.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "tracker/lz4.h"
#include "tracker/unaligned.h"

namespace gpusnap {
namespace {

constexpr size_t kEntryHeaderBytes = 64;  // the fields that every entry has
constexpr uint16_t kKindPtx = 1;
constexpr uint16_t kKindElf = 2;
constexpr uint64_t kFlagLz4 = 0x2000;
constexpr uint64_t kFlagZstd = 0x8000;

// Most bytes that all entries of an image may unpack to: far above what code compresses to, and in
// proportion.
constexpr uint64_t kUnpackBase = uint64_t{64} << 20;
constexpr uint64_t kUnpackPerByte = 256;

struct EntryHeader {
  uint16_t kind = 0;
  uint32_t header_bytes = 0;
  uint64_t payload_bytes = 0;
  uint32_t compressed_bytes = 0;
  uint32_t arch = 0;
  uint64_t flags = 0;
  uint64_t unpacked_bytes = 0;
};

EntryHeader load_entry(const std::byte* at) {
  return {load<uint16_t>(at),      load<uint32_t>(at + 4),  load<uint64_t>(at + 8),
          load<uint32_t>(at + 16), load<uint32_t>(at + 28), load<uint64_t>(at + 40),
          load<uint64_t>(at + 56)};
}

std::optional<std::string> zstd_decompress(std::span<const std::byte> frame, size_t size) {
  std::string out(size, '\0');
  const size_t got = ZSTD_decompress(out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(got) != 0 || got != size) return std::nullopt;
  return out;
}

class FatBinaryReader {
 public:
  FatBinaryReader(uint64_t image_bytes, ImageContents& contents)
      : contents_(contents), unpack_left_(kUnpackBase + kUnpackPerByte * image_bytes) {}

  void read_entries(std::span<const std::byte> entries);
  void say(const std::string& line) { contents_.unreadable.push_back(line); }

 private:
  void read_entry(const EntryHeader& header, std::span<const std::byte> payload);
  std::optional<std::string> unpack(const EntryHeader& header, std::span<const std::byte> payload,
                                    std::string& reason);
  std::string label(const EntryHeader& header) const;

  ImageContents& contents_;
  uint64_t unpack_left_;
  uint32_t number_ = 0;  // of the entry at hand, from 1
};

std::string FatBinaryReader::label(const EntryHeader& header) const {
  std::string text = "entry " + std::to_string(number_);
  if (header.kind == kKindPtx) text += " (PTX for compute_" + std::to_string(header.arch) + ")";
  if (header.kind == kKindElf) text += " (machine code for sm_" + std::to_string(header.arch) + ")";
  return text;
}

void FatBinaryReader::read_entries(std::span<const std::byte> entries) {
  while (!entries.empty()) {
    ++number_;
    if (entries.size() < kEntryHeaderBytes) {
      return say("entry " + std::to_string(number_) + ": its header is cut off");
    }
    const EntryHeader header = load_entry(entries.data());
    if (header.header_bytes < kEntryHeaderBytes || header.header_bytes > entries.size() ||
        header.payload_bytes > entries.size() - header.header_bytes) {
      return say(label(header) + ": its sizes do not fit the image");
    }
    entries = entries.subspan(header.header_bytes);
    read_entry(header, entries.first(header.payload_bytes));
    entries = entries.subspan(header.payload_bytes);
  }
}

void FatBinaryReader::read_entry(const EntryHeader& header, std::span<const std::byte> payload) {
  if (header.kind != kKindPtx && header.kind != kKindElf) {
    return say(label(header) + ": unknown kind " + std::to_string(header.kind));
  }
  std::string reason;
  std::optional<std::string> bytes = unpack(header, payload, reason);
  if (!bytes) return say(label(header) + ": " + reason);
  ImageEntry entry;
  entry.kind = header.kind == kKindPtx ? ImageEntry::Kind::kPtx : ImageEntry::Kind::kElf;
  entry.arch = header.arch;
  entry.bytes = std::move(*bytes);
  // Text ends at its NUL; what follows is padding.
  if (header.kind == kKindPtx) entry.bytes.resize(entry.bytes.find_last_not_of('\0') + 1);
  contents_.entries.push_back(std::move(entry));
}

std::optional<std::string> FatBinaryReader::unpack(const EntryHeader& header,
                                                   std::span<const std::byte> payload,
                                                   std::string& reason) {
  const bool zstd = (header.flags & kFlagZstd) != 0;
  const bool lz4 = (header.flags & kFlagLz4) != 0;
  if (!zstd && !lz4) {
    if (header.compressed_bytes == 0) {
      return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
    }
    reason = "compressed in an unknown way, flags " + std::to_string(header.flags);
    return std::nullopt;
  }
  if (header.compressed_bytes > payload.size() || header.unpacked_bytes > unpack_left_) {
    reason = "its sizes are not possible";
    return std::nullopt;
  }
  unpack_left_ -= header.unpacked_bytes;
  const auto packed = payload.first(header.compressed_bytes);
  std::optional<std::string> bytes = zstd ? zstd_decompress(packed, header.unpacked_bytes)
                                          : lz4_decompress(packed, header.unpacked_bytes);
  if (!bytes) reason = std::string("its ") + (zstd ? "zstd" : "LZ4") + " data are damaged";
  return bytes;
}

}  // namespace

uint64_t fat_binary_size(const std::byte* header) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (load<uint32_t>(header) != kFatBinaryMagic) return 0;
  const uint64_t header_bytes = load<uint16_t>(header + 6);
  const uint64_t entry_bytes = load<uint64_t>(header + 8);
  if (header_bytes < kFatBinaryHeaderBytes || entry_bytes > kMost) return 0;
  return header_bytes + entry_bytes;
}

void read_fat_binary(std::span<const std::byte> bytes, ImageContents& contents) {
  FatBinaryReader reader(bytes.size(), contents);
  while (bytes.size() >= kFatBinaryHeaderBytes && load<uint32_t>(bytes.data()) == kFatBinaryMagic) {
    const uint64_t size = fat_binary_size(bytes.data());
    const size_t header_bytes = load<uint16_t>(bytes.data() + 6);
    if (size == 0 || header_bytes > bytes.size()) return reader.say("the container has a bad size");
    const size_t here = size < bytes.size() ? size : bytes.size();
    reader.read_entries(bytes.subspan(header_bytes, here - header_bytes));
    if (size > bytes.size()) return reader.say("the container is cut off");
    bytes = bytes.subspan(here);
  }
}

}  // namespace gpusnap
