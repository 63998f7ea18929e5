// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/block_log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "tiers/backend/folders.h"
#include "tiers/checksum.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

// A file is records, one after the other, little-endian:
//   4 magic "GSBR"   4 version   4 kind   4 bytes of the payload   payload   8 checksum of all that
constexpr uint32_t kMagic = 0x52425347;
constexpr uint32_t kVersion = 3;
constexpr size_t kHeadBytes = 16;
constexpr size_t kSumBytes = 8;
constexpr size_t kMostPayload = 64U << 20;
constexpr uint64_t kMostLogBytes = uint64_t{8} << 30;

enum class Kind : uint32_t {
  kText = 1,
  kBlock = 2,
  kMoved = 3,
  kManifest = 4,
  kSealed = 5,
  kCommitted = 6
};

class Put {
 public:
  template <class T>
  Put& add(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
    }
    return *this;
  }
  Put& add(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  std::vector<std::byte> take() { return std::move(bytes_); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> record(Kind kind, std::span<const std::byte> payload) {
  Put put;
  put.add(kMagic).add(kVersion).add(static_cast<uint32_t>(kind));
  put.add(static_cast<uint32_t>(payload.size())).add(payload);
  put.add(checksum(put.bytes()));
  return put.take();
}

// Numbers, as far as there are bytes; then zeros, and it is not whole.
class Take {
 public:
  explicit Take(std::span<const std::byte> from) : from_(from) {}
  template <class T>
  T next() {
    if (from_.size() < sizeof(T)) {
      whole_ = false;
      return {};
    }
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<uint64_t>(from_[i]) << (8 * i);
    from_ = from_.subspan(sizeof(T));
    return static_cast<T>(value);
  }
  std::span<const std::byte> rest() { return std::exchange(from_, {}); }
  size_t left() const { return from_.size(); }
  // All was there, and nothing is left.
  bool exact() const { return whole_ && from_.empty(); }

 private:
  std::span<const std::byte> from_;
  bool whole_ = true;
};

constexpr size_t kPieceBytes = 4 + 3 * 8;

bool take_parts(Take& take, Extent& extent) {
  const uint64_t parts = Extent::parts_in(extent.offset, extent.size);
  if (parts == 1) return true;
  if (take.left() / sizeof(uint64_t) < parts) return false;
  extent.parts.resize(parts);
  for (uint64_t& part : extent.parts) part = take.next<uint64_t>();
  return true;
}

bool take_block(Take& take, SegmentStore::StoredBlock& block) {
  block.sequence = take.next<uint64_t>();
  const auto in_chunk = take.next<uint32_t>();
  block.in_chunk = in_chunk == 1;
  block.file = take.next<uint32_t>();
  const auto offset = take.next<uint64_t>();
  const auto form = take.next<uint32_t>();
  const auto stored = take.next<uint64_t>();
  block.checksum = take.next<uint64_t>();
  const auto pieces = take.next<uint32_t>();
  if (in_chunk > 1 || form > static_cast<uint32_t>(kCompressedForms.back()) || pieces == 0 ||
      take.left() / kPieceBytes < pieces || offset < kSegmentHeaderBytes || stored == 0) {
    return false;
  }
  const bool is_plain = form == static_cast<uint32_t>(Form::kStored);
  uint64_t within = 0;
  for (uint32_t i = 0; i < pieces; ++i) {
    Extent extent;
    extent.range = take.next<uint32_t>();
    extent.offset = take.next<uint64_t>();
    extent.size = take.next<uint64_t>();
    extent.checksum = take.next<uint64_t>();
    if (extent.size == 0 || extent.size > kMostBlockBytes * 16 - within) return false;
    if (is_plain && !take_parts(take, extent)) return false;
    extent.segment = block.file;
    extent.segment_offset = offset;
    extent.form = static_cast<Form>(form);
    extent.within = within;
    within += extent.size;
    block.extents.push_back(std::move(extent));
  }
  if (is_plain ? stored != within : stored >= within) return false;
  if (offset > (uint64_t{1} << 62) || stored > (uint64_t{1} << 62)) return false;
  for (Extent& extent : block.extents) {
    if (is_plain) {
      extent.segment_offset += std::exchange(extent.within, 0);
    } else {
      extent.block_stored = stored;
      extent.block_bytes = within;
    }
  }
  return true;
}

bool take_record(Kind kind, std::span<const std::byte> payload, BlockLog& log) {
  Take take(payload);
  switch (kind) {
    case Kind::kText: {
      const auto text = take.rest();
      const std::string now(reinterpret_cast<const char*>(text.data()), text.size());
      // Logs of one part say the same.
      if (!log.text.empty() && log.text != now) return false;
      log.text = now;
      return true;
    }
    case Kind::kBlock: {
      SegmentStore::StoredBlock block;
      if (!take_block(take, block) || !take.exact()) return false;
      log.blocks.push_back(std::move(block));
      return true;
    }
    case Kind::kMoved: {
      MovedChunk moved;
      moved.chunk = take.next<uint32_t>();
      moved.segment = take.next<uint32_t>();
      moved.base = take.next<uint64_t>();
      moved.bytes = take.next<uint64_t>();
      constexpr uint64_t kMost = uint64_t{1} << 62;
      if (!take.exact() || moved.base > kMost || moved.bytes > kMost) return false;
      log.moved.push_back(moved);
      return true;
    }
    case Kind::kManifest: {
      BlockLog::ManifestSlot slot;
      slot.sequence = take.next<uint64_t>();
      const auto bytes = take.rest();
      slot.bytes.assign(bytes.begin(), bytes.end());
      if (!take.exact()) return false;
      log.manifest.push_back(std::move(slot));
      return true;
    }
    case Kind::kSealed: {
      const auto slots = take.next<uint64_t>();
      if (!take.exact() || (log.sealed && *log.sealed != slots)) return false;
      log.sealed = slots;
      return true;
    }
    case Kind::kCommitted:
      log.committed = true;
      return take.exact();
  }
  return false;
}

}  // namespace

std::vector<std::byte> encode_log_text(const std::string& text) {
  return record(Kind::kText, std::as_bytes(std::span(text)));
}

std::vector<std::byte> encode_log_block(const SegmentStore::StoredBlock& block) {
  const Extent& first = block.extents.front();
  uint64_t bytes = 0;
  for (const Extent& extent : block.extents) bytes += extent.size;
  const bool is_plain = first.form == Form::kStored;
  Put put;
  put.add(block.sequence).add(uint32_t{block.in_chunk}).add(block.file).add(first.segment_offset);
  put.add(static_cast<uint32_t>(first.form)).add(is_plain ? bytes : first.block_stored);
  put.add(block.checksum);
  put.add(static_cast<uint32_t>(block.extents.size()));
  for (const Extent& extent : block.extents) {
    put.add(extent.range).add(extent.offset).add(extent.size).add(extent.checksum);
    for (const uint64_t part : extent.parts) put.add(part);
  }
  return record(Kind::kBlock, put.bytes());
}

std::vector<std::byte> encode_log_moved(const MovedChunk& moved) {
  Put put;
  put.add(moved.chunk).add(moved.segment).add(moved.base).add(moved.bytes);
  return record(Kind::kMoved, put.bytes());
}

std::vector<std::byte> encode_log_manifest(uint64_t sequence, std::span<const std::byte> bytes) {
  Put put;
  put.add(sequence).add(bytes);
  return record(Kind::kManifest, put.bytes());
}

std::vector<std::byte> encode_log_sealed(uint64_t slots) {
  Put put;
  put.add(slots);
  return record(Kind::kSealed, put.bytes());
}

std::vector<std::byte> encode_log_committed() {
  return record(Kind::kCommitted, {});
}

Result<size_t> decode_block_log(std::span<const std::byte> bytes, BlockLog& log) {
  size_t at = 0;
  while (bytes.size() - at >= kHeadBytes + kSumBytes) {
    const auto left = bytes.subspan(at);
    Take head(left.first(kHeadBytes));
    const auto magic = head.next<uint32_t>();
    const auto version = head.next<uint32_t>();
    const auto kind = head.next<uint32_t>();
    const auto payload = head.next<uint32_t>();
    if (magic != kMagic || payload > kMostPayload) break;
    const size_t whole = kHeadBytes + payload;
    if (left.size() - kSumBytes < whole) break;
    if (Take(left.subspan(whole, kSumBytes)).next<uint64_t>() != checksum(left.first(whole))) break;
    if (version > kVersion) {
      return Status(Code::kNewer, "it is of a later version; use a later gpusnap");
    }
    if (version < kVersion) {
      return Status(Code::kDamaged, "it is of a version that was never released");
    }
    if (!take_record(static_cast<Kind>(kind), left.subspan(kHeadBytes, payload), log)) {
      return Status(Code::kDamaged, "a record in it makes no sense");
    }
    at += whole + kSumBytes;
  }
  return at;
}

Status read_block_log(FileSystem& files, const std::string& path, BlockLog& log) {
  return no_throw("read a block log", [&]() -> Status {
    const auto file = files.open(path);
    if (!file.ok()) return file.status();
    const uint64_t size = file.value()->size();
    const auto unusable = [&path](const Status& why) {
      return Status(why.code(), "block log " + path + " cannot be used: " + why.message());
    };
    if (size > kMostLogBytes) return unusable({Code::kDamaged, "it is longer than it can be"});
    std::vector<std::byte> bytes(size);
    if (Status read = file.value()->read(0, bytes); !read.ok()) return unusable(read);
    const Result<size_t> decoded = decode_block_log(bytes, log);
    return decoded.ok() ? Status() : unusable(decoded.status());
  });
}

namespace {

// By the number of its slot, the record of each.
using Seen = std::map<uint64_t, std::vector<std::byte>>;

// False where they contradict each other.
template <class Item, class Encode>
bool leave_out_repeated(std::vector<Item>& items, Seen& seen, Encode encode) {
  std::vector<Item> kept;
  for (const Item& item : items) {
    const std::vector<std::byte> record = encode(item);
    const auto [there, is_new] = seen.try_emplace(item.sequence, record);
    if (is_new) {
      kept.push_back(item);
    } else if (there->second != record) {
      return false;
    }
  }
  items = std::move(kept);
  return true;
}

}  // namespace

Status settle(BlockLog& log) {
  Seen seen;
  if (leave_out_repeated(log.blocks, seen, encode_log_block) &&
      leave_out_repeated(log.manifest, seen, [](const BlockLog::ManifestSlot& slot) {
        return encode_log_manifest(slot.sequence, slot.bytes);
      })) {
    return {};
  }
  return {Code::kDamaged, "it has a slot twice"};
}

Status BlockLogWriter::append(std::span<const std::byte> records) {
  const MutexLock lock(mutex_);
  if (!status_.ok()) return status_;
  Status done = put(records);
  if (!done.ok() && move_on(done)) done = put(records);
  return status_ = done;
}

Status BlockLogWriter::sync() {
  const MutexLock lock(mutex_);
  if (!status_.ok()) return status_;
  Status done = file_ ? Status() : put({});
  if (done.ok()) done = file_->sync();
  if (!done.ok() && !move_on(done)) status_ = done;
  return done;
}

bool BlockLogWriter::has_moved_on() const {
  const MutexLock lock(mutex_);
  return moved_on_;
}

Status BlockLogWriter::put(std::span<const std::byte> records) {
  if (!file_) {
    if (Status opened = open(); !opened.ok()) return opened;
  }
  return records.empty() ? Status() : file_->append(records);
}

bool BlockLogWriter::move_on(const Status& why) {
  if (place_.next.empty()) return false;
  place_.path = std::exchange(place_.next, {});
  file_.reset();
  moved_on_ = true;
  if (place_.on_failure) place_.on_failure(why);
  return true;
}

Status BlockLogWriter::open() {
  auto file = in_folder_of(files_, place_.path, [this] { return files_.create(place_.path); });
  if (!file.ok()) return file.status();
  file_ = std::move(file.value());
  return file_->append(encode_log_text(text_));
}

}  // namespace gpusnap
