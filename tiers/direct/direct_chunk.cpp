// SPDX-License-Identifier: Apache-2.0
#include "tiers/direct/direct_chunk.h"
#include "tiers/block_extents.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/mutex.h"
#include "tiers/page_memory.h"
#include "tiers/segment_store.h"

namespace gpusnap {

namespace {

// A message is words: these, three for each piece, one for each fingerprint.
struct MessageHead {
  uint64_t magic = 0;
  uint64_t number = 0;
  uint64_t zone_bytes = 0;
  uint64_t pieces = 0;
  uint64_t fingerprints = 0;
};
constexpr uint64_t kMagic = 0x3174'6365'7269'6464;  // "ddirect1"
constexpr uint64_t kLeastZone = 4096;
constexpr uint64_t kMostZone = 2 << 20;
constexpr uint64_t kWordsOfPiece = 3;

Status no_sense(const char* why) {
  return {Code::kInvalid, std::string("a chunk that was written directly makes no sense: ") + why};
}

class Words {
 public:
  explicit Words(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t left() const { return bytes_.size() / sizeof(uint64_t); }
  uint64_t next() {
    uint64_t word = 0;
    std::memcpy(&word, bytes_.data(), sizeof word);
    bytes_ = bytes_.subspan(sizeof word);
    return word;
  }

 private:
  std::span<const std::byte> bytes_;
};

Status good(const DirectChunk& chunk) {
  const uint64_t zone = chunk.zone_bytes;
  if (!std::has_single_bit(zone) || zone < kLeastZone || zone > kMostZone) {
    return no_sense("its zones have no size that zones have");
  }
  if (chunk.number < kFirstDirectChunk) return no_sense("its file is not one of those");
  uint64_t zones = 0;
  for (const Piece& piece : chunk.pieces) {
    const bool is_whole = piece.size % zone == 0 && piece.offset % zone == 0;
    if (piece.size == 0 || piece.size > kMostDirectBytes || !is_whole) {
      return no_sense("a piece of it is not of whole zones");
    }
    zones += piece.size / zone;
  }
  if (zones == 0 || zones > kMostDirectBytes / zone) return no_sense("it is empty, or too large");
  if (zones != chunk.fingerprints.size()) return no_sense("it has other fingerprints than zones");
  return {};
}

// The end of one transfer.
class Ending {
 public:
  BulkFile::Done done() {
    return [this](const Status& status) {
      const MutexLock lock(mutex_);
      status_ = status;
      ended_.notify_all();  // with the lock held: who waits destroys this
    };
  }
  Status wait() {
    const MutexLock lock(mutex_);
    ended_.wait(mutex_, [this]() REQUIRES(mutex_) { return status_.has_value(); });
    return *status_;
  }

 private:
  Mutex mutex_;
  ConditionVariable ended_;
  std::optional<Status> status_ GUARDED_BY(mutex_);
};

// Whether the zones are as they were at the cut. Takes their fingerprints.
bool matches(std::span<const std::byte> bytes, uint64_t zone_bytes,
             std::span<const uint64_t>& fingerprints) {
  for (; !bytes.empty(); bytes = bytes.subspan(zone_bytes)) {
    if (fingerprint(bytes.first(zone_bytes)) != fingerprints.front()) return false;
    fingerprints = fingerprints.subspan(1);
  }
  return true;
}

}  // namespace

uint64_t DirectChunk::bytes() const {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.size;
  return bytes;
}

uint64_t most_direct_bytes(uint64_t slot_bytes, uint64_t zone_bytes) {
  const uint64_t words = (slot_bytes - sizeof(MessageHead)) / sizeof(uint64_t);
  const uint64_t zones = words / (kWordsOfPiece + 1);
  return std::min(zones, kMostDirectBytes / zone_bytes) * zone_bytes;
}

std::vector<std::byte> encode(const DirectChunk& chunk) {
  std::vector<uint64_t> words = {kMagic, chunk.number, chunk.zone_bytes, chunk.pieces.size(),
                                 chunk.fingerprints.size()};
  for (const Piece& piece : chunk.pieces) {
    words.insert(words.end(), {piece.range, piece.offset, piece.size});
  }
  words.insert(words.end(), chunk.fingerprints.begin(), chunk.fingerprints.end());
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

Result<DirectChunk> parse_direct_chunk(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(MessageHead) || bytes.size() % sizeof(uint64_t) != 0) {
    return no_sense("it ends too early");
  }
  Words words(bytes);
  MessageHead head{words.next(), words.next(), words.next(), words.next(), words.next()};
  if (head.magic != kMagic || head.number > UINT32_MAX) return no_sense("it is no such message");
  const uint64_t left = words.left();
  if (head.pieces > left / kWordsOfPiece ||
      head.fingerprints != left - head.pieces * kWordsOfPiece) {
    return no_sense("its length is not what it says");
  }
  DirectChunk chunk;
  chunk.number = static_cast<uint32_t>(head.number);
  chunk.zone_bytes = head.zone_bytes;
  for (uint64_t i = 0; i < head.pieces; ++i) {
    const uint64_t range = words.next();
    if (range > UINT32_MAX) return no_sense("a piece is of no range");
    Piece& piece = chunk.pieces.emplace_back();
    piece.range = static_cast<uint32_t>(range);
    piece.offset = words.next();
    piece.size = words.next();
  }
  chunk.fingerprints.reserve(head.fingerprints);
  for (uint64_t i = 0; i < head.fingerprints; ++i) chunk.fingerprints.push_back(words.next());
  if (Status sense = good(chunk); !sense.ok()) return sense;
  return chunk;
}

Status write_and_wait(BulkFile& file, uint64_t offset, std::span<const std::byte> bytes) {
  Ending ending;
  file.write(offset, bytes, ending.done());
  return ending.wait();
}

Status read_and_wait(BulkFile& file, uint64_t offset, std::span<std::byte> bytes) {
  Ending ending;
  file.read(offset, bytes, ending.done());
  return ending.wait();
}

Result<std::vector<Extent>> check_direct_chunk(BulkFile& file, const std::string& path,
                                               const DirectChunk& chunk, size_t part_bytes,
                                               const std::function<bool()>& gave_up) {
  auto memory = allocate_pages(part_bytes);
  if (!memory.ok()) return memory.status();
  std::vector<Extent> extents;
  std::span<const uint64_t> fingerprints(chunk.fingerprints);
  uint64_t at = kSegmentHeaderBytes;
  for (const Piece& piece : chunk.pieces) {
    for (uint64_t done = 0; done < piece.size;) {
      if (gave_up()) return Status(Code::kInvalid, "the checkpoint was abandoned");
      const Piece part{piece.range, piece.offset + done, std::min(part_bytes, piece.size - done)};
      const std::span<std::byte> bytes(memory.value().get(), part.size);
      if (Status read = read_and_wait(file, at, bytes); !read.ok()) return read;
      if (!matches(bytes, chunk.zone_bytes, fingerprints)) {
        return Status(Code::kTorn, "bytes of " + path +
                                       ", which were written from the device, are "
                                       "not those of the cut");
      }
      for (Extent& extent : describe_block({&part, 1}, bytes, Form::kStored)) {
        extent.segment = chunk.number;
        extent.segment_offset = at;
        extents.push_back(std::move(extent));
      }
      at += part.size;
      done += part.size;
    }
  }
  return extents;
}

}  // namespace gpusnap
