#include "tiers/part_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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
#include "tiers/segment_store.h"

namespace gpusnap::test {
namespace {

constexpr size_t kSlotBytes = 512 << 10;

// One range of memory, saved in slots of pieces that begin and end anywhere.
class PartReaderTest : public ::testing::Test {
 protected:
  void save(uint64_t bytes, const char* how, unsigned seed) {
    random_.seed(seed);
    memory_.resize(bytes);
    // Of which a half shrinks.
    for (size_t i = 0; i < bytes; ++i) {
      const bool is_noise = i / kSlotBytes % 2 == 1;
      memory_[i] = static_cast<std::byte>(is_noise ? random_() : random_() % 3);
    }
    Compression compression(parse_compression(how).value(), monotonic_clock());
    SegmentStore::Options options;
    options.block_bytes = kSlotBytes;
    options.segment_bytes = 2 * kSlotBytes;
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
    while (end < memory_.size() && end - begin < kSlotBytes && pieces.size() < 5) {
      const uint64_t most = std::min(memory_.size() - end, kSlotBytes - (end - begin));
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

  // Each byte of these that is right, once; what else is not zero is counted as wrong.
  Status read(const std::vector<std::pair<uint64_t, uint64_t>>& wanted) {
    std::vector<std::byte> read(memory_.size());
    std::vector<int> times(memory_.size());
    PlainReadBuffers buffers(4);
    PartReaderOptions options;
    options.reads = 4;
    const Status status =
        read_pieces(files_, job_, {&manifest_, 1}, pieces_of(wanted), options, buffers,
                    [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
                      for (const ReadPiece& piece : pieces) {
                        std::memcpy(&read[piece.offset], &bytes[piece.at], piece.size);
                        for (uint64_t i = 0; i < piece.size; ++i) ++times[piece.offset + i];
                      }
                      return Status();
                    });
    if (!status.ok()) return status;
    std::vector<int> expected(memory_.size());
    for (const auto& [begin, end] : wanted) {
      std::fill_n(expected.begin() + static_cast<ptrdiff_t>(begin), end - begin, 1);
    }
    EXPECT_EQ(times, expected);
    for (const auto& [begin, end] : wanted) {
      EXPECT_TRUE(std::equal(read.begin() + static_cast<ptrdiff_t>(begin),
                             read.begin() + static_cast<ptrdiff_t>(end),
                             memory_.begin() + static_cast<ptrdiff_t>(begin)));
    }
    return status;
  }

  // A bit of that byte of the memory, where it is stored as it is.
  bool damage(uint64_t byte) {
    for (const Extent& extent : manifest_.extents) {
      if (byte < extent.offset || byte >= extent.offset + extent.size) continue;
      if (extent.form != Form::kStored) return false;
      const std::string path =
          job_.folder + "/" + epoch_folder(7) + "/" + manifest_.segments[extent.segment].file;
      std::vector<std::byte> bytes = files_.content(path);
      bytes.at(extent.segment_offset + (byte - extent.offset)) ^= std::byte{1};
      files_.put(path, std::move(bytes));
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

TEST_F(PartReaderTest, AnyBytesComeBackOnce) {
  unsigned seed = 1;
  for (const char* how : {"off", "1", "auto"}) {
    save((5 << 20) + 12345, how, seed++);
    ASSERT_TRUE(read({{0, memory_.size()}}).ok());
    for (int round = 0; round < 20; ++round) {
      std::vector<std::pair<uint64_t, uint64_t>> wanted;
      for (uint64_t at = random_() % 300'000; at < memory_.size(); at += random_() % 300'000) {
        const uint64_t end = std::min<uint64_t>(at + 1 + random_() % 200'000, memory_.size());
        wanted.emplace_back(at, end);
        at = end;
      }
      const Status status = read(wanted);
      ASSERT_TRUE(status.ok()) << how << " " << round << ": " << status.message();
    }
    for (const std::string& path : files_.paths()) files_.erase(path);
  }
}

TEST_F(PartReaderTest, APartIsRightOrItIsNotHandedOut) {
  save(3 << 20, "off", 9);
  constexpr uint64_t kPart = Extent::kPartBytes;
  for (int round = 0; round < 30; ++round) {
    const uint64_t byte = random_() % memory_.size();
    ASSERT_TRUE(damage(byte));
    const Status wrong = read({{byte, byte + 1}});
    EXPECT_EQ(wrong.code(), Code::kDamaged);
    expect_message(wrong, "the checksum is wrong");
    // What is beside it needs nothing of it.
    std::vector<std::pair<uint64_t, uint64_t>> others;
    if (byte >= kPart) others.emplace_back(0, byte / kPart * kPart);
    if (byte / kPart * kPart + kPart < memory_.size()) {
      others.emplace_back(byte / kPart * kPart + kPart, memory_.size());
    }
    const Status right = read(others);
    EXPECT_TRUE(right.ok()) << right.message();
    ASSERT_TRUE(damage(byte));  // as it was
  }
}

// As manifests before version 5 have it.
TEST_F(PartReaderTest, AnExtentWithOneChecksumIsReadWhole) {
  save(3 << 20, "off", 11);
  for (Extent& extent : manifest_.extents) {
    extent.checksum = checksum(std::span(memory_).subspan(extent.offset, extent.size));
    extent.parts.clear();
  }
  EXPECT_TRUE(read({{0, memory_.size()}}).ok());
  EXPECT_TRUE(read({{100'000, 100'001}, {2'000'000, 2'500'000}}).ok());
}

TEST_F(PartReaderTest, ASegmentIsCheckedToItsLastByte) {
  save((3 << 20) + 777, "1", 12);
  PlainReadBuffers buffers(4);
  const auto check = [&] {
    Status first;
    for (uint32_t i = 0; i < manifest_.segments.size(); ++i) {
      Status checked = check_segment(files_, job_, manifest_, i, {}, buffers, [](uint64_t) {});
      if (first.ok()) first = std::move(checked);
    }
    return first;
  };
  EXPECT_TRUE(check().ok());
  for (const SegmentRef& ref : manifest_.segments) {
    const std::string path = job_.folder + "/" + epoch_folder(7) + "/" + ref.file;
    const std::vector<std::byte> right = files_.content(path);
    for (int round = 0; round < 20; ++round) {
      std::vector<std::byte> wrong = right;
      wrong.at(random_() % wrong.size()) ^= std::byte{16};
      files_.put(path, std::move(wrong));
      EXPECT_EQ(check().code(), Code::kDamaged);
    }
    files_.put(path, right);
  }
  EXPECT_TRUE(check().ok());
}

}  // namespace
}  // namespace gpusnap::test
