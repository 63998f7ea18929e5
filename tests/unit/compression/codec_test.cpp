#include "tiers/compression/codec.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <zstd.h>

#include <string>

#include "tests/unit/compression/blocks.h"
#include "tiers/compression/shuffle.h"

namespace gpusnap {
namespace {

constexpr size_t kMost = 1 << 20;
constexpr Form kForms[] = {Form::kStored, Form::kZstd, Form::kShuffle2, Form::kShuffle4,
                           Form::kShuffle8};

std::unique_ptr<Compressor> compressor(const CodecOptions& options = {}) {
  auto made = Compressor::make(options, kMost);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made.value());
}

std::unique_ptr<Decompressor> decompressor(int most_window_log = kMostWindowLog) {
  auto made = Decompressor::make(kMost, most_window_log);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made.value());
}

Bytes compressed(Form form, const Bytes& block) {
  Bytes stored(ZSTD_compressBound(block.size()));
  const auto size = compressor()->compress(form, block, stored);
  EXPECT_TRUE(size.ok()) << size.status().message();
  EXPECT_GT(size.value(), 0U);
  stored.resize(size.value());
  return stored;
}

Bytes shuffled_one_by_one(size_t width, const Bytes& from) {
  Bytes to(from);
  const size_t count = from.size() / width;
  for (size_t i = 0; i < count; ++i) {
    for (size_t p = 0; p < width; ++p) to[p * count + i] = from[i * width + p];
  }
  return to;
}

TEST(Shuffle, IsWhatItSaysAtEverySizeAndAlignment) {
  const Bytes bytes = random_block(1000);
  for (const size_t width : {size_t{2}, size_t{4}, size_t{8}}) {
    for (size_t size = 0; size < 600; ++size) {
      const size_t shift = size % 5;
      // The blocks have exactly this size, so that the sanitizers see accesses beyond it.
      const Bytes from(bytes.begin() + static_cast<ptrdiff_t>(shift),
                       bytes.begin() + static_cast<ptrdiff_t>(shift + size));
      Bytes to(size), back(size + shift);
      shuffle_bytes(width, from, to);
      ASSERT_EQ(to, shuffled_one_by_one(width, from)) << width << " " << size;
      unshuffle_bytes(width, to, std::span(back).subspan(shift));
      ASSERT_TRUE(
          std::equal(from.begin(), from.end(), back.begin() + static_cast<ptrdiff_t>(shift)))
          << width << " " << size;
    }
  }
}

TEST(Codec, GivesEveryBlockBack) {
  const auto back = decompressor();
  for (const int level : {kLeastLevel, 3, kMostLevel}) {
    const auto there = compressor({level, 0});
    for (const size_t size : {1, 2, 7, 8, 64, 1000, 4096, 65537, 300001}) {
      for (const Bytes& block : {Bytes(size), random_block(size), smooth_block<float>(size),
                                 smooth_block<double>(size), index_block(size)}) {
        for (const Form form : kForms) {
          Bytes stored(ZSTD_compressBound(size));
          const auto written = there->compress(form, block, stored);
          ASSERT_TRUE(written.ok()) << written.status().message();
          stored.resize(written.value());
          Bytes again(size, std::byte{0xee});
          const Status status = back->decompress(form, stored, again);
          ASSERT_TRUE(status.ok()) << status.message();
          ASSERT_EQ(again, block) << name_of(form) << " " << size;
        }
      }
    }
  }
}

// As `zstd -d` reads: a stream, with the limit of window that it has without options.
TEST(Codec, FramesAreThoseOfPlainZstd) {
  const Bytes block = smooth_block<float>(kMost);
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd(ZSTD_createDCtx(), ZSTD_freeDCtx);
  for (const int window_log : {0, kLeastWindowLog, kMostWindowLog}) {
    Bytes stored(ZSTD_compressBound(block.size()));
    const auto size =
        compressor({kMostLevel, window_log})->compress(Form::kShuffle4, block, stored);
    ASSERT_TRUE(size.ok()) << size.status().message();
    Bytes plain(block.size() + 1);
    ZSTD_inBuffer in{stored.data(), size.value(), 0};
    ZSTD_outBuffer out{plain.data(), plain.size(), 0};
    ASSERT_EQ(ZSTD_decompressStream(zstd.get(), &out, &in), 0U) << window_log;
    ASSERT_EQ(out.pos, block.size());
    plain.resize(out.pos);
    EXPECT_EQ(plain, shuffled_one_by_one(4, block));
    EXPECT_EQ(ZSTD_getFrameContentSize(stored.data(), size.value()), block.size());
    EXPECT_EQ(std::to_integer<int>(stored[4]) & 4, 0) << "it has a checksum";
  }
}

TEST(Codec, TheShuffleHelpsWhereElementsHaveItsWidth) {
  const Bytes floats = smooth_block<float>(kMost), doubles = smooth_block<double>(kMost);
  EXPECT_LT(compressed(Form::kShuffle4, floats).size() * 5,
            compressed(Form::kZstd, floats).size() * 4);
  EXPECT_LT(compressed(Form::kShuffle8, doubles).size() * 5,
            compressed(Form::kZstd, doubles).size() * 4);
}

TEST(Codec, SaysSoWhereItDoesNotFit) {
  const Bytes random = random_block(100000), floats = smooth_block<float>(100000);
  const auto there = compressor();
  for (const Form form : kForms) {
    Bytes to(random.size() - 1);
    const auto size = there->compress(form, random, to);
    ASSERT_TRUE(size.ok()) << size.status().message();
    EXPECT_EQ(size.value(), 0U) << name_of(form);
  }
  // And goes on afterwards.
  Bytes to(floats.size());
  const auto size = there->compress(Form::kShuffle4, floats, to);
  ASSERT_TRUE(size.ok());
  EXPECT_GT(size.value(), 0U);
}

// By this process, zstd's included. A sanitizer's allocator does not tell: 0.
size_t allocated_bytes() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

TEST(Codec, HoldsTheSameMemoryOnceWarm) {
  const Bytes block = smooth_block<float>(kMost);
  Bytes to(kMost);
  const size_t before = allocated_bytes();
  const auto there = compressor();
  ASSERT_TRUE(there->compress(Form::kShuffle4, block, to).ok());
  const size_t warm = allocated_bytes();
  EXPECT_LT(warm - before, 8 * kMost);
  for (int i = 0; i < 20; ++i) {
    for (const Form form : kForms) {
      ASSERT_TRUE(there->compress(form, std::span(block).first(kMost - 7777 * i), to).ok());
      ASSERT_EQ(allocated_bytes(), warm);
    }
  }
}

TEST(Codec, RefusesOptionsAndBlocksBeyondItsLimits) {
  for (const CodecOptions& options :
       {CodecOptions{0, 0}, CodecOptions{20, 0}, CodecOptions{-1, 0}, CodecOptions{1, 9},
        CodecOptions{1, 28}, CodecOptions{1, -1}}) {
    const auto made = Compressor::make(options, kMost);
    ASSERT_FALSE(made.ok()) << options.level << " " << options.window_log;
    EXPECT_EQ(made.status().code(), Code::kInvalid);
  }
  Bytes large(kMost + 1), to(kMost + 1);
  EXPECT_EQ(compressor()->compress(Form::kZstd, large, to).status().code(), Code::kInvalid);
  EXPECT_EQ(compressor()->compress(Form::kZstd, {}, to).status().code(), Code::kInvalid);
  const Bytes stored = compressed(Form::kZstd, Bytes(100));
  EXPECT_EQ(decompressor()->decompress(Form::kZstd, stored, large).code(), Code::kInvalid);
  EXPECT_EQ(decompressor()->decompress(Form::kZstd, stored, {}).code(), Code::kInvalid);
}

// The header of a frame with its content size in 4 bytes, and one empty last block.
Bytes crafted(int descriptor, int window, uint32_t content) {
  Bytes frame;
  for (const int byte : {0x28, 0xb5, 0x2f, 0xfd, descriptor, window}) {
    frame.push_back(static_cast<std::byte>(byte));
  }
  for (int i = 0; i < 4; ++i) frame.push_back(static_cast<std::byte>(content >> (8 * i)));
  for (const int byte : {1, 0, 0}) frame.push_back(static_cast<std::byte>(byte));
  return frame;
}

TEST(Codec, RefusesWindowsAboveItsBound) {
  constexpr int kFourBytes = 0x80;
  Bytes block(1000);
  const auto code = [&](int most_window_log, int window) {
    return decompressor(most_window_log)
        ->decompress(Form::kZstd, crafted(kFourBytes, window, 1000), block)
        .code();
  };
  EXPECT_EQ(code(27, (31 - 10) << 3), Code::kUnsupported);
  EXPECT_EQ(code(27, ((27 - 10) << 3) + 1), Code::kUnsupported);
  EXPECT_EQ(code(20, (21 - 10) << 3), Code::kUnsupported);
  EXPECT_EQ(code(20, ((20 - 10) << 3) + 1), Code::kUnsupported);
  // Let through, and found to be empty.
  EXPECT_EQ(code(20, (20 - 10) << 3), Code::kDamaged);

  const Bytes large = smooth_block<float>(kMost);
  Bytes again(kMost);
  const Bytes stored = compressed(Form::kZstd, large);
  EXPECT_TRUE(decompressor(19)->decompress(Form::kZstd, stored, again).ok());
  EXPECT_EQ(decompressor(18)->decompress(Form::kZstd, stored, again).code(), Code::kUnsupported);
}

TEST(Codec, RefusesWhatIsNotExactlyOneFrameOfThatSize) {
  const Bytes block = index_block(5000);
  const Bytes good = compressed(Form::kZstd, block);
  const auto back = decompressor();
  const auto code = [&](const Bytes& stored, size_t size) {
    Bytes to(size);
    return back->decompress(Form::kZstd, stored, to).code();
  };
  ASSERT_EQ(code(good, block.size()), Code::kOk);
  EXPECT_EQ(code(good, block.size() - 1), Code::kDamaged);
  EXPECT_EQ(code(good, block.size() + 1), Code::kDamaged);
  EXPECT_EQ(code({}, block.size()), Code::kDamaged);
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_EQ(code(longer, block.size()), Code::kDamaged);
  Bytes twice = good;
  twice.insert(twice.end(), good.begin(), good.end());
  EXPECT_EQ(code(twice, block.size()), Code::kDamaged);
  EXPECT_EQ(code(twice, 2 * block.size()), Code::kDamaged);
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_EQ(code(Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(size)), block.size()),
              Code::kDamaged)
        << size;
  }
  EXPECT_EQ(code(block, block.size()), Code::kDamaged);
  // A dictionary's number.
  EXPECT_EQ(code(crafted(0x81, 0, 0x01010101), 1000), Code::kUnsupported);
  // No content size.
  EXPECT_EQ(code(crafted(0x00, 0, 1000), 1000), Code::kDamaged);
  // A skippable frame, alone and behind a good one; zstd would pass over it.
  Bytes skippable;
  for (const int byte : {0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}) {
    skippable.push_back(static_cast<std::byte>(byte));
  }
  EXPECT_EQ(code(skippable, 1000), Code::kDamaged);
  Bytes followed = good;
  followed.insert(followed.end(), skippable.begin(), skippable.end());
  EXPECT_EQ(code(followed, block.size()), Code::kDamaged);
}

TEST(Codec, TakesDamageOfAnyKind) {
  const auto back = decompressor();
  std::mt19937_64 random(7);
  for (const Form form : kCompressedForms) {
    const Bytes block = smooth_block<float>(20000);
    const Bytes good = compressed(form, block);
    Bytes to(block.size());
    for (int i = 0; i < 2000; ++i) {
      Bytes bad = good;
      for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
        bad[random() % bad.size()] ^= static_cast<std::byte>(1U << random() % 8);
      }
      const Status status = back->decompress(form, bad, to);
      EXPECT_TRUE(status.ok() || !status.message().empty());
    }
    ASSERT_TRUE(back->decompress(form, good, to).ok());
    EXPECT_EQ(to, block);
  }
}

TEST(Codec, KnowsTheFormsOfFiles) {
  for (unsigned value = 0; value < 256; ++value) {
    const bool known = is_form(static_cast<uint8_t>(value));
    EXPECT_EQ(known, value <= 4) << value;
    const std::string name = name_of(static_cast<Form>(value));
    EXPECT_EQ(name == "unknown", !known) << value;
    if (known) continue;
    Bytes stored(10), to(10);
    EXPECT_EQ(decompressor()->decompress(static_cast<Form>(value), stored, to).code(),
              Code::kUnsupported);
  }
}

}  // namespace
}  // namespace gpusnap
