// SPDX-License-Identifier: Apache-2.0
//
// Journals of loops: what repeats costs next to nothing, and comes back byte for byte.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "fault_file_system.h"
#include "support.h"
#include "tests/support/journal_file.h"
#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/repeat_finder.h"

namespace gpusnap::test {
namespace {

using Stream = std::vector<std::byte>;
using Random = std::mt19937_64;
constexpr const char* kName = "a-r0.journal";

uint64_t up_to(Random& random, uint64_t most) {
  return std::uniform_int_distribution<uint64_t>(0, most)(random);
}

Stream noise(Random& random, size_t size) {
  Stream bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

void append(Stream& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// Loops within loops, whose turns may differ a little, and what comes between them.
Stream loops_by_chance(Random& random, size_t most_turn) {
  Stream all;
  for (uint64_t parts = 1 + up_to(random, 6); parts > 0; --parts) {
    append(all, noise(random, up_to(random, 700)));
    Stream turn = noise(random, 1 + up_to(random, most_turn));
    if (up_to(random, 2) == 0) {
      const Stream inner = noise(random, 1 + up_to(random, 90));
      for (uint64_t i = up_to(random, 60); i > 0; --i) append(turn, inner);
    }
    for (uint64_t turns = up_to(random, 30); turns > 0; --turns) {
      if (up_to(random, 5) == 0) turn[up_to(random, turn.size() - 1)] ^= std::byte{1};
      append(all, turn);
    }
    append(all, std::span(turn).first(up_to(random, turn.size())));
  }
  return all;
}

// The stream that a reader makes of the pieces.
void expand(const std::vector<RepeatFinder::Piece>& pieces, std::span<const std::byte> bytes,
            const RepeatFinder::Limits& limits, Stream& all) {
  size_t done = 0;
  for (const RepeatFinder::Piece& piece : pieces) {
    ASSERT_LE(piece.distance, limits.distance);
    ASSERT_LE(piece.distance, all.size());
    ASSERT_GT(piece.bytes, 0U);
    ASSERT_LE(piece.bytes, bytes.size() - done);
    for (size_t i = 0; i < piece.bytes; ++i) {
      all.push_back(piece.distance == 0 ? bytes[done + i] : all[all.size() - piece.distance]);
    }
    done += piece.bytes;
  }
  ASSERT_EQ(done, bytes.size());
}

TEST(RepeatFinder, WhatItSplitsIsTheStream) {
  uint64_t repeated = 0, total = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    RepeatFinder::Limits limits;
    if (seed % 2 != 0) limits = {1 + up_to(random, 20'000), 1 + up_to(random, 2000), 100};
    RepeatFinder finder(limits);
    const Stream stream = loops_by_chance(random, seed % 3 == 0 ? 9000 : 300);
    const uint64_t most = 1 + up_to(random, seed % 5 == 0 ? 100 : 30'000);
    Stream back;
    for (size_t at = 0; at < stream.size();) {
      const size_t size = std::min<size_t>(up_to(random, most), stream.size() - at);
      const std::span bytes = std::span(stream).subspan(at, size);
      const auto& pieces = finder.split(bytes);
      for (const auto& piece : pieces) repeated += piece.distance != 0 ? piece.bytes : 0;
      expand(pieces, bytes, limits, back);
      ASSERT_FALSE(HasFatalFailure());
      at += size;
    }
    ASSERT_EQ(back, stream);
    total += stream.size();
  }
  EXPECT_GT(repeated, total / 2);
  EXPECT_LT(repeated, total);
}

// However long the turns of a loop are, once two of them are known the rest is found whole.
TEST(RepeatFinder, TurnsOfAnyLengthAreFound) {
  for (const size_t turn : {1U, 7U, 56U, 64U, 511U, 512U, 513U, 4096U, 204'000U, 8U << 20}) {
    SCOPED_TRACE(turn);
    Random random(turn);
    const Stream once = noise(random, turn);
    Stream turns;
    for (int i = 0; i == 0 || turns.size() < 5000; ++i) append(turns, once);
    RepeatFinder finder;
    (void)finder.split(noise(random, 1000));
    (void)finder.split(turns);
    (void)finder.split(turns);
    for (int i = 0; i < 3; ++i) {
      const auto& pieces = finder.split(turns);
      ASSERT_EQ(pieces.size(), 1U);
      EXPECT_GT(pieces[0].distance, 0U);
      EXPECT_EQ(pieces[0].distance % turn, 0U);
    }
  }
}

TEST(RepeatFinder, NothingIsRepeatedFromFartherThanItMay) {
  Random random(1);
  const Stream turn = noise(random, 10'000);
  RepeatFinder finder({.distance = 9999, .run = 1000, .run_at_end = 100});
  for (int i = 0; i < 10; ++i) {
    for (const auto& piece : finder.split(turn)) EXPECT_EQ(piece.distance, 0U);
  }
}

class JournalRepeatsTest : public ::testing::Test {
 protected:
  std::unique_ptr<JournalWriter> create(size_t block_bytes) {
    JournalWriter::Options options;
    options.block_bytes = block_bytes;
    options.blocks = 2;
    auto writer = create_journal(files_, "/job", kName, options);
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    return std::move(writer.value());
  }
  // Up to there, settled.
  static JournalPart settled(JournalWriter& writer) {
    JournalPart part = writer.seal();
    const Status status = writer.settle(part).status();
    EXPECT_TRUE(status.ok()) << status.message();
    return part;
  }
  // As far as it can be read.
  Stream read(const JournalPart& part, Status& end) {
    Stream all;
    const auto reader = JournalReader::open(files_, "/job", {part});
    end = reader.status();
    Stream piece(1);
    while (reader.ok() && (end = reader.value()->read(piece)).ok()) all.push_back(piece.front());
    return all;
  }
  void expect_whole(const JournalPart& part, std::span<const std::byte> stream) {
    const auto reader = JournalReader::open(files_, "/job", {part});
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    Stream back(part.stream_bytes);
    ASSERT_TRUE(reader.value()->read(back).ok());
    EXPECT_EQ(std::memcmp(back.data(), stream.data(), back.size()), 0);
    const Status end = reader.value()->read(std::span(back).first(1));
    EXPECT_EQ(end.code(), Code::kNotFound) << end.message();
  }
  size_t frames_that_repeat() const {
    const Stream file = files_.content("/job/" + std::string(kName));
    size_t count = 0;
    for (size_t at = kJournalHeaderBytes; at < file.size();) {
      const auto header = decode_frame_header(std::span(file).subspan(at));
      EXPECT_TRUE(header.ok()) << header.status().message();
      if (!header.ok()) break;
      count += header->distance != 0 ? 1 : 0;
      at += kFrameHeaderBytes + header->stored_bytes;
    }
    return count;
  }

  FaultFileSystem files_;
};

// Sealed anywhere, each position is a journal of its own, also when the machine stops then.
TEST_F(JournalRepeatsTest, RandomLoopsComeBackFromEachPosition) {
  size_t repeats = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Stream stream = loops_by_chance(random, 3000);
    std::vector<JournalPart> parts;
    {
      const auto writer = create(seed % 2 == 0 ? 20'000 : 1 + up_to(random, 3000));
      uint64_t entries = 0;
      for (size_t at = 0; at < stream.size();) {
        const size_t size = std::min<size_t>(up_to(random, 200), stream.size() - at);
        writer->append(std::span(stream).subspan(at, size), 1);
        at += size;
        ++entries;
        if (up_to(random, 200) != 0) continue;
        parts.push_back(settled(*writer));
        ASSERT_EQ(parts.back().entries, entries);
        ASSERT_EQ(writer->stored_bytes(), parts.back().file_bytes);
      }
      parts.push_back(settled(*writer));
    }
    files_.crash(Survival::kNothing);
    for (const JournalPart& part : parts) expect_whole(part, stream);
    repeats += frames_that_repeat();
    ASSERT_TRUE(files_.remove("/job/" + std::string(kName)).ok());
  }
  EXPECT_GT(repeats, 60U);
}

// Cut off at any byte it gives the beginning of the stream and then says that it is damaged.
TEST_F(JournalRepeatsTest, CutOffAnywhereItGivesNoWrongByte) {
  Random random(7);
  const Stream stream = [&] {
    Stream all = noise(random, 300);
    const Stream turn = noise(random, 900);
    for (int i = 0; i < 20; ++i) append(all, turn);
    append(all, noise(random, 100));
    for (int i = 0; i < 20; ++i) append(all, turn);
    return all;
  }();
  JournalPart part;
  {
    const auto writer = create(2500);
    for (size_t at = 0; at < stream.size(); at += 100) {
      writer->append(std::span(stream).subspan(at, std::min<size_t>(100, stream.size() - at)), 1);
    }
    part = settled(*writer);
  }
  EXPECT_GE(frames_that_repeat(), 2U);
  expect_whole(part, stream);
  const Stream file = files_.content("/job/" + std::string(kName));
  for (size_t size = 0; size < part.file_bytes; ++size) {
    files_.put("/job/" + std::string(kName),
               Stream(file.begin(), file.begin() + static_cast<ptrdiff_t>(size)));
    JournalPart shorter = part;
    shorter.file_bytes = size;
    Status end;
    const Stream back = read(shorter, end);
    ASSERT_EQ(end.code(), Code::kDamaged) << size;
    ASSERT_LT(back.size(), stream.size());
    ASSERT_TRUE(std::ranges::equal(back, std::span(stream).first(back.size()))) << size;
  }
  for (size_t at = 0; at < part.file_bytes; ++at) {
    Stream damaged = file;
    damaged[at] ^= std::byte{4};
    files_.put("/job/" + std::string(kName), damaged);
    Status end;
    const Stream back = read(part, end);
    ASSERT_FALSE(end.code() == Code::kNotFound) << at;
    ASSERT_TRUE(std::ranges::equal(back, std::span(stream).first(back.size()))) << at;
  }
}

// Entries as launches make them.
Stream turn_of(Random& random, size_t calls) {
  Stream turn;
  for (size_t i = 0; i < calls; ++i) {
    // Heads and shapes are alike, digests are not.
    Stream entry(56);
    entry[0] = static_cast<std::byte>(up_to(random, 40));
    entry[1] = std::byte{5};
    entry[16] = static_cast<std::byte>(up_to(random, 200));
    append(entry, noise(random, 6));
    entry.resize(68);
    append(turn, entry);
  }
  return turn;
}

// The bar: a thousand equal turns of a training loop, all together, take at most 1 % of its first.
TEST_F(JournalRepeatsTest, AThousandTurnsCostNextToNothing) {
  Random random(3);
  const Stream turn = turn_of(random, 3000);
  const auto writer = create(JournalWriter::Options().block_bytes);
  const uint64_t none = settled(*writer).file_bytes;
  writer->append(turn, 3000);
  const uint64_t first = settled(*writer).file_bytes;
  for (int i = 0; i < 1000; ++i) writer->append(turn, 3000);
  const JournalPart part = settled(*writer);
  EXPECT_LE(part.file_bytes - first, (first - none) / 100);
  EXPECT_EQ(part.entries, 3000U * 1001);

  const auto reader = JournalReader::open(files_, "/job", {part});
  ASSERT_TRUE(reader.ok());
  Stream back(turn.size());
  for (int i = 0; i <= 1000; ++i) {
    ASSERT_TRUE(reader.value()->read(back).ok());
    ASSERT_TRUE(back == turn) << i;
  }
  EXPECT_EQ(reader.value()->read(back).code(), Code::kNotFound);
}

// A number that differs from turn to turn costs itself, and little around it.
TEST_F(JournalRepeatsTest, ANumberInEachTurnCostsLittle) {
  Random random(4);
  Stream turn = turn_of(random, 3000);
  const auto writer = create(JournalWriter::Options().block_bytes);
  writer->append(turn, 3000);
  const uint64_t first = settled(*writer).file_bytes;
  constexpr int kTurns = 100;
  for (int i = 0; i < kTurns; ++i) {
    const Stream loss = noise(random, 4);
    std::copy(loss.begin(), loss.end(), turn.begin() + 68 * 2000);
    writer->append(turn, 3000);
  }
  const uint64_t each = (settled(*writer).file_bytes - first) / kTurns;
  EXPECT_LE(each, 400U);
  EXPECT_GT(first, 100 * each / 2);
}

// One frame stands for at most so much.
TEST_F(JournalRepeatsTest, LongLoopsTakeSeveralFrames) {
  if (std::getenv("GPUSNAP_SOAK") == nullptr) GTEST_SKIP() << "reads and writes 2 GiB";
  Random random(5);
  const Stream turn = noise(random, 1 << 20);
  const auto writer = create(JournalWriter::Options().block_bytes);
  constexpr int kTurns = 2200;
  for (int i = 0; i < kTurns; ++i) writer->append(turn, 1);
  const JournalPart part = settled(*writer);
  EXPECT_GE(frames_that_repeat(), 3U);
  const auto reader = JournalReader::open(files_, "/job", {part});
  Stream back(turn.size());
  for (int i = 0; i < kTurns; ++i) {
    ASSERT_TRUE(reader.value()->read(back).ok());
    ASSERT_TRUE(back == turn) << i;
  }
  EXPECT_EQ(reader.value()->read(back).code(), Code::kNotFound);
}

// A reader makes no copies of the middle of a long run. The bytes before its end are right all the
// same, at each distance.
TEST_F(JournalRepeatsTest, LongRunsAreRepeatedThemselves) {
  for (const size_t size : {1000U, 262'144U, 300'007U, 3'000'000U}) {
    SCOPED_TRACE(size);
    Random random(size);
    const Stream turn = noise(random, size), other = noise(random, 700'000);
    Stream stream = other;
    for (const size_t bytes : {40U << 20, 2U << 20}) {
      for (const size_t end = stream.size() + bytes; stream.size() < end;) append(stream, turn);
      append(stream, std::span(turn).first(turn.size() / 3));
      append(stream, std::span(other).first(200'000));
      // From within the run, and from before its end.
      for (const size_t back : {7U << 20, 5'000'001U, 210'000U}) {
        const Stream again(stream.end() - back, stream.end() - back + 200'000);
        append(stream, again);
        append(stream, std::span(other).first(10));
      }
    }
    JournalPart part;
    {
      const auto writer = create(JournalWriter::Options().block_bytes);
      writer->append(stream, 1);
      part = settled(*writer);
    }
    EXPECT_GE(frames_that_repeat(), 6U);
    expect_whole(part, stream);
    ASSERT_TRUE(files_.remove("/job/" + std::string(kName)).ok());
  }
}

// Changes one field of the header of a frame that repeats, and makes its checksum good.
TEST_F(JournalRepeatsTest, HostileRepeatsAreRefused) {
  JournalPart part;
  size_t at = 0;
  {
    const auto writer = create(4096);
    writer->append(Stream(100, std::byte{1}), 1);
    const Stream bytes = memory_at(1, 1, 300);
    for (int i = 0; i < 20; ++i) writer->append(bytes, 1);
    part = settled(*writer);
  }
  const Stream good = files_.content("/job/" + std::string(kName));
  FrameHeader frame;
  for (size_t next = kJournalHeaderBytes; frame.distance == 0;) {
    at = next;
    frame = decode_frame_header(std::span(good).subspan(at)).value();
    next += kFrameHeaderBytes + frame.stored_bytes;
  }
  const auto try_frame = [&](auto change) {
    FrameHeader header = frame;
    change(header);
    const auto bytes = encode_frame_header(header);
    Stream bad = good;
    std::copy(bytes.begin(), bytes.end(), bad.begin() + static_cast<ptrdiff_t>(at));
    files_.put("/job/" + std::string(kName), bad);
    Status end;
    (void)read(part, end);
    return end;
  };
  EXPECT_EQ(try_frame([](FrameHeader&) {}).code(), Code::kNotFound);
  expect_message(try_frame([](FrameHeader& f) { f.distance = 1U << 20; }), "more than there was");
  expect_message(try_frame([](FrameHeader& f) { f.distance = 9U << 20; }),
                 "from where no frame can");
  expect_message(try_frame([](FrameHeader& f) { --f.distance; }), "other bytes than there were");
  expect_message(try_frame([](FrameHeader& f) { ++f.stored_checksum; }), "other bytes than");
  expect_message(try_frame([](FrameHeader& f) { f.raw_bytes = 1U << 30; }), "longer than its part");
  expect_message(try_frame([](FrameHeader& f) { f.raw_bytes = ~0U; }), "longer than frames can be");
  expect_message(try_frame([](FrameHeader& f) { ++f.entries; }), "entries");
}

// A part of the format's first version, as earlier releases wrote them.
TEST_F(JournalRepeatsTest, PartsOfTheFirstVersionAreRead) {
  const Stream stream = memory_at(1, 1, 5000);
  JournalPart part;
  {
    const auto writer = create(1000);
    writer->append(stream, 3);
    part = settled(*writer);
  }
  EXPECT_EQ(frames_that_repeat(), 0U);
  Stream file = files_.content("/job/" + std::string(kName));
  const auto put = [&](size_t at, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) file[at + i] = static_cast<std::byte>(value >> (8 * i));
  };
  EXPECT_EQ(file[8], std::byte{2});
  put(8, 1, 4);
  put(12, checksum(std::span(file).first(12)), 4);
  put(24, checksum(std::span(file).first(24)), 8);
  files_.put("/job/" + std::string(kName), file);
  expect_whole(part, stream);
}

}  // namespace
}  // namespace gpusnap::test
