// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/journal_spill.h"

#include <array>
#include <optional>

#include "tiers/backend/folders.h"
#include "tiers/checksum.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

// A record is a head of six little-endian numbers of eight bytes, and the slot's bytes:
//   magic "GSSPILL1"   sequence   offset   bytes   checksum of the bytes   checksum of what is
//   before
constexpr uint64_t kMagic = 0x314c'4c49'5053'5347;
constexpr size_t kNumbers = 6;
constexpr size_t kHeadBytes = kNumbers * sizeof(uint64_t);
using Head = std::array<std::byte, kHeadBytes>;

void put(Head& head, size_t number, uint64_t value) {
  for (size_t i = 0; i < sizeof value; ++i) {
    head[number * sizeof value + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

uint64_t take(const Head& head, size_t number) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof value; ++i) {
    value |= std::to_integer<uint64_t>(head[number * sizeof value + i]) << (8 * i);
  }
  return value;
}

uint64_t checksum_of(const Head& head) {
  return checksum(std::span(head).first(kHeadBytes - sizeof(uint64_t)));
}

Head head_of(const SpilledSlot& slot) {
  Head head;
  put(head, 0, kMagic);
  put(head, 1, slot.sequence);
  put(head, 2, slot.offset);
  put(head, 3, slot.bytes);
  put(head, 4, slot.checksum);
  put(head, 5, checksum_of(head));
  return head;
}

// Empty: the bytes are no head of a record.
std::optional<SpilledSlot> slot_of(const Head& head, uint64_t place) {
  if (take(head, 0) != kMagic || take(head, 5) != checksum_of(head)) return std::nullopt;
  return SpilledSlot{take(head, 1), take(head, 2), take(head, 3), take(head, 4), place};
}

}  // namespace

uint64_t SpillWriter::size_with(uint64_t bytes) const {
  return size_ + kHeadBytes + bytes;
}

Result<SpilledSlot> SpillWriter::append(uint64_t sequence, uint64_t offset,
                                        std::span<const std::byte> bytes) {
  const SpilledSlot slot{sequence, offset, bytes.size(), checksum(bytes), size_ + kHeadBytes};
  if (status_.ok()) status_ = open();
  if (status_.ok()) status_ = file_->append(head_of(slot));
  if (status_.ok()) status_ = file_->append(bytes);
  if (!status_.ok()) return status_;
  size_ = size_with(bytes.size());
  return slot;
}

Status SpillWriter::open() {
  if (file_) return {};
  return no_throw("keep a journal on a local tier", [&]() -> Status {
    auto file = in_folder_of(files_, path_, [&] { return files_.create(path_); });
    if (!file.ok()) return file.status();
    file_ = std::move(file.value());
    return {};
  });
}

Result<std::vector<SpilledSlot>> find_spilled(FileSystem& files, const std::string& path) {
  const auto file = files.open(path);
  if (!file.ok()) return file.status();
  const uint64_t size = file.value()->size();
  std::vector<SpilledSlot> found;
  for (uint64_t at = 0; size - at >= kHeadBytes;) {
    Head head;
    if (Status read = file.value()->read(at, head); !read.ok()) return read;
    at += kHeadBytes;
    const auto slot = slot_of(head, at);
    if (!slot || slot->bytes > size - at) break;
    found.push_back(*slot);
    at += slot->bytes;
  }
  return found;
}

Result<std::vector<std::byte>> read_spilled(FileSystem& files, const std::string& path,
                                            const SpilledSlot& slot) {
  using Bytes = Result<std::vector<std::byte>>;
  return no_throw("read a journal on a local tier", [&]() -> Bytes {
    const auto file = files.open(path);
    if (!file.ok()) return file.status();
    std::vector<std::byte> bytes(slot.bytes);
    if (Status read = file.value()->read(slot.place, bytes); !read.ok()) return read;
    if (checksum(bytes) != slot.checksum) {
      return Status(Code::kDamaged, path + " does not hold what was written to it");
    }
    return bytes;
  });
}

}  // namespace gpusnap
