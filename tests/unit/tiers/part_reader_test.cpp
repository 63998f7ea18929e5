#include "tiers/part_reader.h"

#include "part_reader_support.h"

namespace gpusnap::test {
namespace {

TEST_F(PartReaderTest, AnyBytesComeBackOnce) {
  unsigned seed = 1;
  for (const char* how : {"off", "1", "auto"}) {
    save((5 << 20) + 12345, how, seed++);
    ASSERT_TRUE(read({{0, memory_.size()}}).ok());
    for (int round = 0; round < 8; ++round) {
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
    // The parts beside it need nothing of it.
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
