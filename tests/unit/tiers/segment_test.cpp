#include "tiers/segment.h"

#include <algorithm>
#include <random>

#include "fault_file_system.h"
#include "support.h"
#include "tiers/checksum.h"

namespace gpusnap::test {
namespace {

using Bytes = std::vector<std::byte>;

// Compressible: small numbers.
Bytes numbers(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() % 5); });
  return bytes;
}

class SegmentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(files_.make_folder("/store").ok());
    compressor_ = std::move(Compressor::make({}, 1 << 20).value());
  }

  // As one block, each of `saved` a piece of a range of its own, from `first` on.
  Status add(SegmentWriter& segments, uint32_t first, std::span<const Bytes> saved, Form form) {
    Bytes all;
    std::vector<Piece> pieces;
    std::vector<uint64_t> checksums;
    for (const Bytes& bytes : saved) {
      pieces.push_back({first++, 0, bytes.size()});
      checksums.push_back(checksum(bytes));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    Bytes to(all.size());
    const auto size = compressor_->compress(form, all, to);
    EXPECT_TRUE(size.ok() && size.value() > 0);
    return segments.add({pieces, checksums, form, std::span(to).first(size.value())});
  }

  Result<Bytes> read(const SegmentWriter& writer, const Extent& extent) {
    const std::string path = "/store/" + writer.segments()[extent.segment].file;
    const auto file = files_.open(path);
    if (!file.ok()) return file.status();
    Bytes bytes(extent.size);
    if (Status good = reader_.read(*file.value(), path, extent, bytes); !good.ok()) return good;
    return bytes;
  }

  void flip(const std::string& path, uint64_t at, int bit) {
    Bytes bytes = files_.content(path);
    bytes.at(at) ^= std::byte{1} << bit;
    files_.put(path, std::move(bytes));
  }

  SegmentWriter writer(uint64_t segment_bytes) {
    return {files_, "/store", {"job", "a", 7, 0}, segment_bytes};
  }

  FaultFileSystem files_;
  std::unique_ptr<Compressor> compressor_;
  ExtentReader reader_;
};

TEST_F(SegmentTest, HoldsExtentsInEveryForm) {
  SegmentWriter segments = writer(1 << 30);
  std::vector<Bytes> saved;
  for (const Form form : kCompressedForms) {
    const size_t first = saved.size();
    for (const size_t size : {100'000 + first * 3001, size_t{1}, size_t{4096}}) {
      saved.push_back(numbers(size, static_cast<unsigned>(size)));
    }
    const auto range = static_cast<uint32_t>(first);
    ASSERT_TRUE(add(segments, range, std::span(saved).subspan(first), form).ok());
    saved.push_back(numbers(5000, 2));
    ASSERT_TRUE(segments.add(range + 3, 0, saved.back()).ok());
  }
  ASSERT_TRUE(segments.finish().ok());
  ASSERT_EQ(segments.extents().size(), saved.size());
  for (size_t i = saved.size(); i-- > 0;) {  // not in order, sizes up and down
    const Extent& extent = segments.extents()[i];
    EXPECT_EQ(extent.range, i);
    const auto bytes = read(segments, extent);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_EQ(bytes.value(), saved[i]);
    EXPECT_TRUE(i % 4 == 3 || extent.stored() < extent.block_bytes / 2);
  }
}

TEST_F(SegmentTest, IsNotDividedByABlock) {
  SegmentWriter segments = writer(16 << 10);
  std::vector<Bytes> saved;
  for (unsigned i = 0; i < 4; ++i) {
    saved.push_back(numbers(60'000, i));  // about 17 KiB: more than a segment has room for
    ASSERT_TRUE(add(segments, i, std::span(saved).last(1), Form::kZstd).ok());
  }
  ASSERT_TRUE(segments.finish().ok());
  ASSERT_EQ(segments.extents().size(), 4U);
  EXPECT_EQ(segments.segments().size(), 4U);
  for (size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(read(segments, segments.extents()[i]).value(), saved[i]);
  }
}

TEST_F(SegmentTest, ManifestsThatDifferAboutABlockAreReadEachForItself) {
  SegmentWriter segments = writer(1 << 30);
  const Bytes saved[] = {numbers(3000, 1), numbers(50, 1)};
  ASSERT_TRUE(add(segments, 0, saved, Form::kZstd).ok());
  ASSERT_TRUE(segments.finish().ok());
  Extent wrong = segments.extents()[1];
  wrong.block_bytes += 10'000;
  wrong.within += 10'000;
  EXPECT_EQ(read(segments, segments.extents()[1]).value(), saved[1]);
  EXPECT_EQ(read(segments, wrong).status().code(), Code::kDamaged);
  EXPECT_EQ(read(segments, segments.extents()[0]).value(), saved[0]);
}

TEST_F(SegmentTest, DamageToABlockIsFound) {
  SegmentWriter segments = writer(1 << 30);
  const Bytes saved = numbers(3000, 1);
  ASSERT_TRUE(add(segments, 0, {&saved, 1}, Form::kShuffle2).ok());
  ASSERT_TRUE(segments.finish().ok());
  const Extent extent = segments.extents()[0];
  const std::string path = "/store/" + segments.segments()[0].file;
  for (uint64_t at = extent.segment_offset; at < extent.segment_offset + extent.stored(); ++at) {
    for (int bit = 0; bit < 8; bit += 3) {
      flip(path, at, bit);
      reader_ = {};  // it keeps the block
      const auto bytes = read(segments, extent);
      // A bit of a frame may mean nothing: then the bytes are those that were saved.
      if (bytes.ok()) {
        EXPECT_EQ(bytes.value(), saved);
      } else {
        EXPECT_EQ(bytes.status().code(), Code::kDamaged);
        expect_message(bytes.status(), path);
      }
      flip(path, at, bit);
    }
  }
  reader_ = {};
  EXPECT_EQ(read(segments, extent).value(), saved);
}

}  // namespace
}  // namespace gpusnap::test
