#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "fault_file_system.h"
#include "support.h"
#include "tests/support/journal_file.h"
#include "tiers/format.h"

namespace gpusnap::test {
namespace {

using Bytes = std::vector<std::byte>;

class JournalTest : public ::testing::Test {
 protected:
  std::unique_ptr<JournalWriter> create(const std::string& name, size_t block_bytes = 256) {
    JournalWriter::Options options;
    options.block_bytes = block_bytes;
    options.blocks = 2;
    auto writer = create_journal(files_, "/job", name, options);
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    return std::move(writer.value());
  }
  Result<std::unique_ptr<JournalReader>> open(std::vector<JournalPart> parts) {
    return JournalReader::open(files_, "/job", std::move(parts));
  }
  // All that is left, however it ends.
  static Bytes drain(JournalReader& reader, Status& end) {
    Bytes all;
    Bytes one(1);
    while ((end = reader.read(one)).ok()) all.push_back(one.front());
    return all;
  }

  FaultFileSystem files_;
};

TEST_F(JournalTest, GivesBackWhatWasAppended) {
  const auto writer = create("a-r0.journal");
  const Bytes bytes = memory_at(1, 1, 5000);
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = std::min<size_t>(at % 700, bytes.size() - at);
    writer->append(std::span(bytes).subspan(at, size), 1);
    at += size;
    if (size == 0) writer->append(std::span(bytes).subspan(at++, 1), 0);
  }
  EXPECT_EQ(writer->stream_bytes(), bytes.size());
  JournalPart part = writer->seal();
  ASSERT_TRUE(writer->settle(part).ok());
  EXPECT_EQ(part.stream_bytes, bytes.size());
  EXPECT_GT(part.file_bytes, bytes.size());
  files_.crash(Survival::kNothing);
  auto reader = open({part});
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader.value()->total_bytes(), bytes.size());
  EXPECT_EQ(reader.value()->total_entries(), part.entries);
  Bytes back(bytes.size());
  ASSERT_TRUE(reader.value()->read(std::span(back).first(3000)).ok());
  ASSERT_TRUE(reader.value()->read(std::span(back).subspan(3000)).ok());
  EXPECT_EQ(back, bytes);
  EXPECT_TRUE(reader.value()->read({}).ok());
  Bytes more(1);
  EXPECT_EQ(reader.value()->read(more).code(), Code::kNotFound);
}

TEST_F(JournalTest, EarlierPositionsStayGood) {
  const auto writer = create("a-r0.journal");
  std::vector<JournalPart> parts;
  for (int i = 0; i < 20; ++i) {
    writer->append(memory_at(1, static_cast<size_t>(i), 100), 3);
    parts.push_back(writer->seal());
  }
  // In any order, and more than once.
  for (const size_t i : {19U, 3U, 3U, 0U, 11U}) {
    ASSERT_TRUE(writer->settle(parts[i]).ok());
    Status end;
    EXPECT_EQ(drain(*open({parts[i]}).value(), end).size(), 100 * (i + 1));
    EXPECT_EQ(end.code(), Code::kNotFound) << end.message();
  }
}

TEST_F(JournalTest, AnEmptyJournalIsOne) {
  const auto writer = create("a-r0.journal");
  JournalPart part = writer->seal();
  ASSERT_TRUE(writer->settle(part).ok());
  EXPECT_EQ(part.file_bytes, kJournalHeaderBytes);
  Status end;
  EXPECT_TRUE(drain(*open({part}).value(), end).empty());
  EXPECT_EQ(end.code(), Code::kNotFound);
  EXPECT_EQ(drain(*open({}).value(), end).size(), 0U);
  EXPECT_EQ(end.code(), Code::kNotFound);
}

TEST_F(JournalTest, EntriesWithoutBytesCount) {
  const auto writer = create("a-r0.journal");
  writer->append({}, 2);
  const JournalPart first = writer->seal();
  writer->append({}, 3);
  JournalPart second = writer->seal();
  JournalPart again = first;
  ASSERT_TRUE(writer->settle(second).ok());
  ASSERT_TRUE(writer->settle(again).ok());
  EXPECT_LT(again.file_bytes, second.file_bytes);
  Status end;
  EXPECT_TRUE(drain(*open({second}).value(), end).empty());
  EXPECT_EQ(end.code(), Code::kNotFound) << end.message();
}

// Pieces that are written where they will be, as far as blocks have room, among others.
TEST_F(JournalTest, PiecesInPlaceAreLikeAnyOther) {
  const auto writer = create("a-r0.journal");
  EXPECT_EQ(writer->room(1), nullptr);  // no block has been begun
  const Bytes bytes = memory_at(1, 1, 3000);
  uint64_t pieces = 0, in_place = 0;
  for (size_t at = 0; at < bytes.size(); ++pieces) {
    const size_t size = std::min<size_t>(1 + pieces % 60, bytes.size() - at);
    // More room than is used in the end.
    if (std::byte* room = writer->room(size + 20); room != nullptr && pieces % 7 != 0) {
      std::fill_n(room, size + 20, std::byte{0xff});
      std::copy_n(bytes.data() + at, size, room);
      writer->add(size, 1);
      ++in_place;
    } else {
      writer->append(std::span(bytes).subspan(at, size), 1);
    }
    at += size;
    ASSERT_EQ(writer->stream_bytes(), at);
    ASSERT_EQ(writer->entries(), pieces + 1);
    if (pieces == 50) (void)writer->seal();
  }
  EXPECT_GT(in_place, pieces / 3);
  EXPECT_LT(in_place, pieces);
  JournalPart part = writer->seal();
  EXPECT_EQ(part.stream_bytes, bytes.size());
  EXPECT_EQ(part.entries, pieces);
  ASSERT_TRUE(writer->settle(part).ok());
  auto reader = open({part});
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader.value()->total_entries(), pieces);
  Status end;
  EXPECT_EQ(drain(*reader.value(), end), bytes);
  EXPECT_EQ(end.code(), Code::kNotFound) << end.message();
}

TEST_F(JournalTest, PartsFollowEachOther) {
  Bytes all;
  std::vector<JournalPart> parts;
  for (int i = 0; i < 3; ++i) {
    const auto writer = create("run" + std::to_string(i) + "-r0.journal");
    const Bytes bytes = memory_at(2, static_cast<size_t>(i), 400);
    writer->append(bytes, 1);
    parts.push_back(writer->seal());
    ASSERT_TRUE(writer->settle(parts.back()).ok());
    writer->append(bytes, 1);  // beyond the cut
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  Status end;
  EXPECT_EQ(drain(*open(parts).value(), end), all);
  EXPECT_EQ(end.code(), Code::kNotFound);
}

TEST_F(JournalTest, AReadMayNotReachOverTheEnd) {
  const auto writer = create("a-r0.journal");
  writer->append(memory_at(1, 1, 10), 1);
  JournalPart part = writer->seal();
  ASSERT_TRUE(writer->settle(part).ok());
  Bytes bytes(11);
  const auto reader = open({part});
  const Status status = reader.value()->read(bytes);
  EXPECT_EQ(status.code(), Code::kDamaged);
  expect_message(status, "ends inside an entry");
}

TEST_F(JournalTest, OnlySealedPositionsCanBeMadeDurable) {
  const auto writer = create("a-r0.journal");
  writer->append(memory_at(1, 1, 100), 1);
  JournalPart unsealed{"a-r0.journal", 0, 100, 1};
  EXPECT_EQ(writer->settle(unsealed).status().code(), Code::kInvalid);
  (void)writer->seal();
  JournalPart between{"a-r0.journal", 0, 50, 1};
  EXPECT_EQ(writer->settle(between).status().code(), Code::kInvalid);
  EXPECT_TRUE(writer->settle(unsealed).ok());
}

TEST_F(JournalTest, OnceFailedItStaysFailedAndNobodyWaits) {
  for (const Status& failure : {Status(Code::kNoSpace, "cannot write: disk full"),
                                Status(Code::kIo, "cannot write: EIO")}) {
    for (size_t operation = 0; operation < 3; ++operation) {
      FaultFileSystem files;
      JournalWriter::Options options;
      options.block_bytes = 64;
      options.blocks = 2;
      auto writer = create_journal(files, "/job", "a-r0.journal", options);
      ASSERT_TRUE(writer.ok());
      files.inject({operation, failure, false, false});
      writer.value()->append(memory_at(1, 1, 100), 1);
      JournalPart part = writer.value()->seal();
      const Status first = writer.value()->settle(part).status();
      EXPECT_EQ(first.message(), failure.message());
      writer.value()->append(memory_at(1, 1, 100000), 1);
      part = writer.value()->seal();
      EXPECT_EQ(writer.value()->settle(part).status().message(), failure.message());
    }
  }
}

TEST_F(JournalTest, ItsFileIsNew) {
  files_.put("/job/a-r0.journal", {});
  const auto writer = create_journal(files_, "/job", "a-r0.journal", {});
  EXPECT_FALSE(writer.ok());
  EXPECT_TRUE(files_.content("/job/a-r0.journal").empty());
}

TEST_F(JournalTest, WithoutAThreadThereIsNoFile) {
  JournalWriter::Options options;
  options.spawn = [](const std::function<void()>&) { return Join(); };
  const auto writer = create_journal(files_, "/job", "a-r0.journal", options);
  EXPECT_EQ(writer.status().code(), Code::kIo);
  EXPECT_TRUE(files_.paths().empty());
}

TEST_F(JournalTest, SyncsWhileTheProducerGoesOn) {
  const auto writer = create("a-r0.journal", 64);
  std::vector<std::thread> checkpoints;
  std::atomic<int> good = 0;
  for (int i = 0; i < 20; ++i) {
    for (int j = 0; j < 50; ++j) writer->append(memory_at(1, 1, 33), 1);
    checkpoints.emplace_back([&, part = writer->seal()]() mutable {
      if (!writer->settle(part).ok()) return;
      const auto reader = open({part});
      Status end;
      good += reader.ok() && drain(*reader.value(), end).size() == part.stream_bytes &&
              end.code() == Code::kNotFound;
    });
  }
  for (std::thread& thread : checkpoints) thread.join();
  EXPECT_EQ(good, 20);
}

TEST_F(JournalTest, TheNamesOfPartsAreNames) {
  for (const char* name : {"../secret", "", "..", "a/b"}) {
    EXPECT_EQ(open({{name, 32, 0, 0}}).status().code(), Code::kDamaged);
  }
}

// Changes one field of a frame's header and makes its checksum good.
TEST_F(JournalTest, HostileFramesAreRefused) {
  const auto writer = create("a-r0.journal", 4096);
  writer->append(memory_at(1, 1, 300), 2);
  JournalPart part = writer->seal();
  ASSERT_TRUE(writer->settle(part).ok());
  const Bytes good = files_.content("/job/a-r0.journal");
  const auto frame = decode_frame_header(std::span(good).subspan(kJournalHeaderBytes));
  ASSERT_TRUE(frame.ok());
  const auto try_frame = [&](auto change) {
    FrameHeader header = frame.value();
    change(header);
    const auto bytes = encode_frame_header(header);
    Bytes bad = good;
    std::copy(bytes.begin(), bytes.end(), bad.begin() + kJournalHeaderBytes);
    files_.put("/job/a-r0.journal", bad);
    const auto reader = open({part});
    EXPECT_TRUE(reader.ok());
    Status end;
    drain(*reader.value(), end);
    Bytes one(1);
    EXPECT_EQ(reader.value()->read(one).code(), end.code()) << "it stays so";
    return end;
  };
  EXPECT_EQ(try_frame([](FrameHeader&) {}).code(), Code::kNotFound);
  expect_message(try_frame([](FrameHeader& f) { f.raw_bytes = 64U << 20; }),
                 "not that of its content");
  expect_message(try_frame([](FrameHeader& f) { f.raw_bytes = ~0U; }), "longer than frames can be");
  expect_message(try_frame([](FrameHeader& f) { f.stored_bytes = 60U << 20; }), "cut off");
  expect_message(try_frame([](FrameHeader& f) { --f.stored_bytes; }), "checksum is wrong");
  expect_message(try_frame([](FrameHeader& f) { f.entries = 3; }), "in 3 entries instead of");
  expect_message(try_frame([](FrameHeader& f) { f.first_entry = 1; }), "out of order");
  expect_message(try_frame([](FrameHeader& f) { f.stream_offset = 1; }), "out of order");
}

}  // namespace
}  // namespace gpusnap::test
