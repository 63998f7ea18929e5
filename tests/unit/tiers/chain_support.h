// Made-up device memory that changes between checkpoints, what it was at each of them, and
// increments of it in a store.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "support.h"
#include "tiers/clock.h"
#include "tiers/merge.h"
#include "tiers/part_reader.h"

namespace gpusnap::test {

using Random = std::mt19937_64;

inline uint64_t below(Random& random, uint64_t end) {
  return std::uniform_int_distribution<uint64_t>(0, end - 1)(random);
}

struct Allocation {
  uint64_t life = 0;
  std::vector<std::byte> bytes;
  bool operator==(const Allocation&) const = default;
};
using Image = std::map<uint64_t, Allocation>;  // by address

inline constexpr uint64_t kZone = 512;

// One rank's memory and which zones have changed since the checkpoint that it goes on from.
class DeviceMemory {
 public:
  const Image& image() const { return image_; }

  void allocate(uint64_t address, uint64_t size) {
    image_[address] = {++lives_, std::vector<std::byte>(size)};
    dirty_[address].clear();
  }
  void free(uint64_t address) {
    image_.erase(address);
    dirty_.erase(address);
  }
  void write(uint64_t address, uint64_t zone, std::byte value) {
    std::vector<std::byte>& bytes = image_.at(address).bytes;
    const uint64_t begin = zone * kZone;
    const uint64_t end = std::min<uint64_t>(begin + kZone, bytes.size());
    for (uint64_t i = begin; i < end; i += 1 + i % 3) bytes[i] = value;
    dirty_[address].insert(zone);
  }
  void change(Random& random) {
    constexpr uint64_t kAddresses = 7;
    constexpr uint64_t kStep = 0x100000;
    for (uint64_t i = below(random, 4); i > 0; --i) {
      const uint64_t address = kStep * (1 + below(random, kAddresses));
      free(address);
      // Often of the size that was there before.
      if (below(random, 3) > 0)
        allocate(address, below(random, 2) ? 3000 : 1 + below(random, 6000));
    }
    for (auto& [address, allocation] : image_) {
      const uint64_t zones = (allocation.bytes.size() + kZone - 1) / kZone;
      for (uint64_t i = below(random, 4); i > 0; --i) {
        write(address, below(random, zones), static_cast<std::byte>(below(random, 256)));
      }
    }
  }
  void clean() {
    for (auto& [address, zones] : dirty_) zones.clear();
  }
  bool is_dirty(uint64_t address, uint64_t zone) const {
    return dirty_.at(address).count(zone) > 0;
  }
  // As after a restore.
  void restore(const Image& image) {
    image_ = image;
    dirty_.clear();
    for (const auto& [address, allocation] : image_) dirty_[address];
  }

 private:
  Image image_;
  std::map<uint64_t, std::set<uint64_t>> dirty_;
  uint64_t lives_ = 0;
};

struct Parent {
  uint64_t epoch = 0;
  uint32_t chain = 0;
  Image image;
};

// One checkpoint on its way into the store, pieces of zones gathered in slots.
class Increment {
 public:
  Increment(LocalBackend& backend, const Job& job, uint64_t epoch)
      : pool_(backend.pool()),
        manifest_(manifest_of({job.name, job.run, job.rank, job.ranks, {}, 0}, epoch)) {
    writer_ =
        std::move(backend.begin(job.name, epoch, job.rank, job.run, job.segment_bytes).value());
  }

  // Full where there is no parent. Now and then a zone is saved that has not changed.
  void save(const DeviceMemory& memory, const std::optional<Parent>& parent, Random& random) {
    if (parent) {
      manifest_.parent = parent->epoch;
      manifest_.chain = parent->chain + 1;
    }
    for (const auto& [address, allocation] : memory.image()) {
      SavedRange range;
      range.address = address;
      range.size = allocation.bytes.size();
      range.life = allocation.life;
      range.fresh = !parent || !has(parent->image, address, allocation);
      manifest_.ranges.push_back(range);
      for (uint64_t at = 0; at < range.size; at += kZone) {
        const bool wanted = range.fresh || memory.is_dirty(address, at / kZone);
        if (!wanted && below(random, 8) > 0) continue;
        const uint64_t size = std::min<uint64_t>(kZone, range.size - at);
        add(at, std::span(allocation.bytes).subspan(at, size));
      }
    }
  }

  Status finish(JournalWriter* journal = nullptr, const Status& check = {}) {
    hand_over(journal, check);
    return wait();
  }
  void hand_over(JournalWriter* journal = nullptr, const Status& check = {}) {
    flush(check);
    if (journal != nullptr) {
      journal->append(journal_bytes(manifest_.epoch), 4);
      manifest_.journal.push_back(journal->seal());
    }
    writer_->finish(std::move(manifest_), journal);
  }
  Status wait() { return writer_->wait(); }

  Manifest& manifest() { return manifest_; }

 private:
  static bool has(const Image& image, uint64_t address, const Allocation& allocation) {
    const auto found = image.find(address);
    return found != image.end() && found->second.life == allocation.life &&
           found->second.bytes.size() == allocation.bytes.size();
  }

  // Into the last range.
  void add(uint64_t offset, std::span<const std::byte> bytes) {
    if (slot_ != nullptr && slot_->capacity - slot_->used < bytes.size()) flush({});
    if (slot_ == nullptr) slot_ = next_slot(pool_);
    std::memcpy(slot_->data + slot_->used, bytes.data(), bytes.size());
    slot_->used += bytes.size();
    pieces_.push_back({static_cast<uint32_t>(manifest_.ranges.size() - 1), offset, bytes.size()});
  }

  void flush(const Status& check) {
    if (slot_ == nullptr) return;
    writer_->write(pieces_, slot_, [check](std::span<const std::byte>) { return check; });
    pieces_.clear();
    slot_ = nullptr;
  }

  StagingPool& pool_;
  Manifest manifest_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::vector<Piece> pieces_;
  Slot* slot_ = nullptr;
};

// Merges a part of a job in "/pfs"; blocks are small, so that there are several windows of them.
inline Result<bool> merge_part(FileSystem& files, uint64_t epoch, uint32_t rank, uint32_t limit,
                               std::function<bool()> stop = {}, const std::string& job = "demo",
                               double most_read = 1e9) {
  Compression compression({}, monotonic_clock());
  MergeRequest request;
  request.job = {"/pfs/" + job, job};
  request.epoch = epoch;
  request.rank = rank;
  request.chain_limit = limit;
  request.most_read = most_read;
  request.segments.segment_bytes = 9 << 10;
  request.segments.block_bytes = 512;
  request.window_bytes = 8 * 512;
  request.stop = std::move(stop);
  return merge_if_worth(files, request, compression, {});
}

// Puts the pieces of a chain together; every byte must come from exactly one of them.
inline Image read_back(Store& store, const CheckpointInfo& info, uint32_t rank) {
  const auto contents = store.resolve(info, rank);
  EXPECT_TRUE(contents.ok()) << contents.status().message();
  Image image;
  if (!contents.ok()) return image;
  const std::vector<SavedRange>& ranges = contents->chain.front().ranges;
  std::vector<uint64_t> found(ranges.size());
  for (const SavedRange& range : ranges) {
    image[range.address] = {range.life, std::vector<std::byte>(range.size)};
  }
  PlainReadBuffers buffers(3);
  const Status read = store.read_all(
      info, contents.value(), buffers,
      [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
        for (const ReadPiece& piece : pieces) {
          EXPECT_EQ(piece.range, pieces.front().range);
          std::vector<std::byte>& to = image.at(ranges.at(piece.range).address).bytes;
          EXPECT_LE(piece.at + piece.size, bytes.size());
          EXPECT_LE(piece.offset + piece.size, to.size());
          std::memcpy(to.data() + piece.offset, bytes.data() + piece.at, piece.size);
          found[piece.range] += piece.size;
        }
        return Status();
      });
  EXPECT_TRUE(read.ok()) << read.message();
  for (size_t i = 0; i < ranges.size(); ++i) EXPECT_EQ(found[i], ranges[i].size);
  return image;
}

}  // namespace gpusnap::test
