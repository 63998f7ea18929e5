// SPDX-License-Identifier: Apache-2.0
//
// One range of memory in the segments of a store, saved in slots of pieces that begin and end
// anywhere.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "fault_file_system.h"
#include "support.h"
#include "tiers/checksum.h"
#include "tiers/names.h"
#include "tiers/part_reader.h"
#include "tiers/segment_store.h"

namespace gpusnap::test {

inline constexpr size_t kReadSlotBytes = 512 << 10;

class PartReaderTest : public ::testing::Test {
 protected:
  void save(uint64_t bytes, const char* how, unsigned seed) {
    random_.seed(seed);
    memory_.resize(bytes);
    // Half of the memory shrinks when it is compressed.
    for (size_t i = 0; i < bytes; ++i) {
      const bool is_noise = i / kReadSlotBytes % 2 == 1;
      memory_[i] = static_cast<std::byte>(is_noise ? random_() : random_() % 3);
    }
    Compression compression(parse_compression(how).value(), monotonic_clock());
    SegmentStore::Options options;
    options.block_bytes = kReadSlotBytes;
    options.segment_bytes = 2 * kReadSlotBytes;
    auto store = SegmentStore::start(files_, job_.folder + "/" + epoch_folder(7),
                                     {job_.folder_name, "a", 7, 0}, options, compression, {});
    ASSERT_TRUE(store.ok()) << store.status().message();
    for (uint64_t at = 0; at < bytes;) at = add_slot(*store.value(), at);
    ASSERT_TRUE(store.value()->finish().ok());
    manifest_.epoch = 7;
    manifest_.ranges.resize(1);
    manifest_.ranges[0].size = bytes;
    manifest_.extents = store.value()->extents();
    manifest_.segments = store.value()->segments();
  }

  // Its pieces come in any order. Where it ends.
  uint64_t add_slot(SegmentStore& store, uint64_t begin) {
    std::vector<Piece> pieces;
    uint64_t end = begin;
    while (end < memory_.size() && end - begin < kReadSlotBytes && pieces.size() < 5) {
      const uint64_t most = std::min(memory_.size() - end, kReadSlotBytes - (end - begin));
      const uint64_t size = std::min<uint64_t>(1 + random_() % (300 << 10), most);
      pieces.push_back({0, end, size});
      end += size;
    }
    std::shuffle(pieces.begin(), pieces.end(), random_);
    std::vector<std::byte>& slot = slots_.emplace_back();
    for (const Piece& piece : pieces) {
      const auto bytes = std::span(memory_).subspan(piece.offset, piece.size);
      slot.insert(slot.end(), bytes.begin(), bytes.end());
    }
    store.add({{begin, std::move(pieces), slot, {}, [](bool) {}, nullptr}});
    return end;
  }

  // Places of the memory in the order that place_extents() gives them.
  std::vector<PlacedExtent> pieces_of(const std::vector<std::pair<uint64_t, uint64_t>>& wanted) {
    std::vector<PlacedExtent> pieces;
    for (const auto& [begin, end] : wanted) {
      for (uint32_t i = 0; i < manifest_.extents.size(); ++i) {
        const Extent& extent = manifest_.extents[i];
        const uint64_t from = std::max(begin, extent.offset);
        const uint64_t to = std::min(end, extent.offset + extent.size);
        if (from < to) pieces.push_back({0, i, from - extent.offset, 0, from, to - from});
      }
    }
    std::ranges::sort(pieces, {}, [this](const PlacedExtent& piece) {
      const Extent& extent = manifest_.extents[piece.extent];
      return std::tuple(extent.segment, extent.segment_offset, piece.extent, piece.within);
    });
    return pieces;
  }

  // Collects the pieces that are handed out, to be compared.
  class Taken {
   public:
    explicit Taken(const std::vector<std::byte>& memory)
        : memory_(memory), read_(memory.size()), times_(memory.size()) {}
    Status take(std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
      for (const ReadPiece& piece : pieces) {
        std::memcpy(&read_[piece.offset], &bytes[piece.at], piece.size);
        for (uint64_t i = 0; i < piece.size; ++i) ++times_[piece.offset + i];
      }
      return {};
    }
    // Each byte of these that is right, once, and no other.
    void expect(const std::vector<std::pair<uint64_t, uint64_t>>& wanted) const {
      std::vector<int> expected(memory_.size());
      for (const auto& [begin, end] : wanted) {
        std::fill_n(expected.begin() + static_cast<ptrdiff_t>(begin), end - begin, 1);
      }
      EXPECT_EQ(times_, expected);
      for (const auto& [begin, end] : wanted) {
        EXPECT_TRUE(std::equal(read_.begin() + static_cast<ptrdiff_t>(begin),
                               read_.begin() + static_cast<ptrdiff_t>(end),
                               memory_.begin() + static_cast<ptrdiff_t>(begin)));
      }
    }

   private:
    const std::vector<std::byte>& memory_;
    std::vector<std::byte> read_;
    std::vector<int> times_;
  };

  Status read(const std::vector<std::pair<uint64_t, uint64_t>>& wanted) {
    Taken taken(memory_);
    PlainReadBuffers buffers(4);
    PartReaderOptions options;
    options.reads = 4;
    const Status status =
        read_pieces(files_, job_, {&manifest_, 1}, pieces_of(wanted), options, buffers,
                    [&](auto pieces, auto bytes) { return taken.take(pieces, bytes); });
    if (status.ok()) taken.expect(wanted);
    return status;
  }

  // A bit of that byte of the memory, where it is stored as it is.
  bool damage(uint64_t byte) {
    for (const Extent& extent : manifest_.extents) {
      if (byte < extent.offset || byte >= extent.offset + extent.size) continue;
      if (extent.form != Form::kStored) return false;
      const std::string path =
          job_.folder + "/" + epoch_folder(7) + "/" + manifest_.segments[extent.segment].file;
      // For those who have it open, too.
      const uint64_t at = extent.segment_offset + (byte - extent.offset);
      const std::byte other = files_.content(path).at(at) ^ std::byte{1};
      files_.continue_bulk(path).value()->write(at, {&other, 1}, [](const Status&) {});
      return true;
    }
    return false;
  }

  FaultFileSystem files_;
  const JobPlace job_{"/store/demo", "demo"};
  std::vector<std::byte> memory_;
  std::deque<std::vector<std::byte>> slots_;
  Manifest manifest_;
  std::mt19937_64 random_;
};

}  // namespace gpusnap::test
