#include "tiers/segment.h"

#include <algorithm>
#include <random>

#include "fault_file_system.h"
#include "support.h"
#include "tiers/checksum.h"

namespace gpusnap::test {
namespace {

using Bytes = std::vector<std::byte>;

const std::string kPath = "/store/r0-a-0.segment";

// Compressible: small numbers.
Bytes numbers(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() % 5); });
  return bytes;
}

// A segment by hand, with blocks in forms of the test's choice.
class ExtentReaderTest : public ::testing::Test {
 protected:
  ExtentReaderTest()
      : compressor_(std::move(Compressor::make({}, 1 << 20).value())), content_(4096) {
    EXPECT_TRUE(files_.make_folder("/store").ok());
  }

  // As one block, each of `saved` a piece of a range of its own.
  void add(std::span<const Bytes> saved, Form form) {
    Bytes all;
    for (const Bytes& bytes : saved) all.insert(all.end(), bytes.begin(), bytes.end());
    Bytes stored = all;
    if (form != Form::kStored) {
      const auto size = compressor_->compress(form, all, stored);
      ASSERT_TRUE(size.ok() && size.value() > 0);
      stored.resize(size.value());
    }
    Extent extent;
    extent.form = form;
    extent.block_stored = stored.size();
    extent.block_bytes = all.size();
    for (const Bytes& bytes : saved) {
      extent.segment_offset = content_.size() + (form == Form::kStored ? extent.within : 0);
      extent.size = bytes.size();
      extent.checksum = checksum(bytes);
      extents_.push_back(extent);
      extent.within += bytes.size();
    }
    content_.insert(content_.end(), stored.begin(), stored.end());
    files_.put(kPath, content_);
  }

  Result<Bytes> read(const Extent& extent) {
    const auto file = files_.open(kPath);
    if (!file.ok()) return file.status();
    Bytes bytes(extent.size);
    if (Status good = reader_.read(*file.value(), kPath, extent, bytes); !good.ok()) return good;
    return bytes;
  }

  void flip(uint64_t at, int bit) {
    content_.at(at) ^= std::byte{1} << bit;
    files_.put(kPath, content_);
  }

  FaultFileSystem files_;
  std::unique_ptr<Compressor> compressor_;
  Bytes content_;
  std::vector<Extent> extents_;
  ExtentReader reader_;
};

TEST_F(ExtentReaderTest, ReadsBlocksInEveryForm) {
  std::vector<Bytes> saved;
  for (const Form form :
       {Form::kZstd, Form::kStored, Form::kShuffle2, Form::kShuffle4, Form::kShuffle8}) {
    const size_t first = saved.size();
    for (const size_t size : {100'000 + first * 3001, size_t{1}, size_t{4096}}) {
      saved.push_back(numbers(size, static_cast<unsigned>(size)));
    }
    add(std::span(saved).subspan(first), form);
  }
  ASSERT_EQ(extents_.size(), saved.size());
  for (size_t i = saved.size(); i-- > 0;) {  // not in order, sizes up and down
    const auto bytes = read(extents_[i]);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_EQ(bytes.value(), saved[i]);
  }
}

TEST_F(ExtentReaderTest, TakesManifestsThatDifferAboutABlockEachForItself) {
  const Bytes saved[] = {numbers(3000, 1), numbers(50, 1)};
  add(saved, Form::kZstd);
  Extent wrong = extents_[1];
  wrong.block_bytes += 10'000;
  wrong.within += 10'000;
  EXPECT_EQ(read(extents_[1]).value(), saved[1]);
  EXPECT_EQ(read(wrong).status().code(), Code::kDamaged);
  EXPECT_EQ(read(extents_[0]).value(), saved[0]);
}

TEST_F(ExtentReaderTest, FindsDamageToABlock) {
  const Bytes saved = numbers(3000, 1);
  add({&saved, 1}, Form::kShuffle2);
  const Extent& extent = extents_[0];
  for (uint64_t at = extent.segment_offset; at < extent.segment_offset + extent.stored(); ++at) {
    for (int bit = 0; bit < 8; bit += 3) {
      flip(at, bit);
      reader_ = {};  // it keeps the block
      const auto bytes = read(extent);
      // A bit of a frame may mean nothing: then the bytes are those that were saved.
      if (bytes.ok()) {
        EXPECT_EQ(bytes.value(), saved);
      } else {
        EXPECT_EQ(bytes.status().code(), Code::kDamaged);
        expect_message(bytes.status(), kPath);
      }
      flip(at, bit);
    }
  }
  reader_ = {};
  EXPECT_EQ(read(extent).value(), saved);
}

}  // namespace
}  // namespace gpusnap::test
