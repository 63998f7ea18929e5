#include "tiers/backend/remote_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "fault_file_system.h"
#include "remote_support.h"
#include "tiers/backend/journal_stream.h"
#include "tiers/format.h"

namespace gpusnap {
namespace {

using namespace std::chrono_literals;
using test::FaultFileSystem;
using test::KeepingBackend;
using test::Received;
using test::StagingArea;

CheckpointText text(uint64_t epoch = 1) {
  CheckpointText text;
  text.store = "/pfs/store";
  text.job = "demo";
  text.run = "abc123";
  text.epoch = epoch;
  return text;
}

Manifest manifest() {
  Manifest manifest;
  manifest.job = "demo";
  manifest.epoch = 1;
  manifest.run = "abc123";
  return manifest;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class RemoteWriterTest : public ::testing::Test {
 protected:
  std::unique_ptr<CheckpointWriter> begin() {
    auto writer = start_remote_writer(files_, pool_, text(), FolderMaker::kWriter, {});
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    return std::move(writer.value());
  }

  Slot* filled(const std::string& content) {
    Slot* slot = pool_.acquire().value();
    std::memcpy(slot->data, content.data(), content.size());
    slot->used = content.size();
    return slot;
  }

  void write(CheckpointWriter& writer, const std::string& content,
             CheckpointWriter::Check check = {}) {
    const Piece piece{0, 0, content.size()};
    writer.write({&piece, 1}, filled(content), std::move(check));
  }

  FaultFileSystem files_;
  StagingArea area_{8192, 2 * 8192};
  StagingPool& pool_ = *area_.pool;
};

TEST_F(RemoteWriterTest, HandsOverDataAndTheManifest) {
  KeepingBackend backend(*area_.memory);
  Status told(Code::kIo, "nothing was told");
  {
    const auto writer = begin();
    for (const char* content : {"one", "two", "three", "four"}) write(*writer, content);
    writer->finish(manifest(), nullptr, [&](const Status& end) { told = end; });
    EXPECT_TRUE(writer->wait().ok()) << writer->wait().message();
    EXPECT_TRUE(writer->done());
  }
  EXPECT_TRUE(told.ok()) << told.message();
  const auto received = backend.received();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].text, encode(text()));
  EXPECT_TRUE(received[0].sealed);
  ASSERT_EQ(received[0].slots.size(), 5U);
  EXPECT_EQ(received[0].slots[2].bytes, bytes_of("three"));
  ASSERT_EQ(received[0].slots[2].pieces.size(), 1U);
  EXPECT_EQ(received[0].slots[2].pieces[0].size, 5U);
  EXPECT_TRUE(received[0].slots[4].pieces.empty());
  size_t head = 0;
  const auto& last = received[0].slots[4].bytes;
  const auto parsed =
      parse_manifest_text({reinterpret_cast<const char*>(last.data()), last.size()}, head);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->bytes, last.size() - head);
  EXPECT_FALSE(parsed->journal.has_value());
  EXPECT_EQ(area_.free_slots(), 2U);
}

TEST_F(RemoteWriterTest, AManifestMayNeedManySlots) {
  KeepingBackend backend(*area_.memory);
  Manifest large = manifest();
  for (uint32_t i = 0; i < 2000; ++i) {
    SavedRange range;
    range.address = 4096 * (i + 1);
    range.size = 1;
    range.name = "variable " + std::to_string(i);
    large.ranges.push_back(range);
  }
  const auto writer = begin();
  writer->finish(large, nullptr);
  ASSERT_TRUE(writer->wait().ok()) << writer->wait().message();
  const auto received = backend.received();
  ASSERT_GT(received.at(0).slots.size(), 2U);
  std::vector<std::byte> all;
  for (const auto& slot : received[0].slots) {
    EXPECT_TRUE(slot.pieces.empty());
    all.insert(all.end(), slot.bytes.begin(), slot.bytes.end());
  }
  size_t head = 0;
  const auto parsed =
      parse_manifest_text({reinterpret_cast<const char*>(all.data()), all.size()}, head);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(std::vector(all.begin() + static_cast<ptrdiff_t>(head), all.end()), encode(large));
}

TEST_F(RemoteWriterTest, MergesNeighboursAndSpreadsManyPieces) {
  KeepingBackend backend(*area_.memory);
  ASSERT_EQ(pool_.pieces_per_slot(), 2U);
  const auto writer = begin();
  const std::vector<Piece> pieces = {{0, 0, 1}, {0, 1, 2}, {1, 0, 1},
                                     {2, 0, 1}, {3, 0, 2}, {5, 9, 1}};
  writer->write(pieces, filled("aaabcddf"));
  writer->finish(manifest(), nullptr);
  ASSERT_TRUE(writer->wait().ok()) << writer->wait().message();
  const auto slots = backend.received().at(0).slots;
  ASSERT_EQ(slots.size(), 4U);
  EXPECT_EQ(slots[0].bytes, bytes_of("aaab"));
  EXPECT_EQ(slots[0].pieces.at(0).size, 3U);
  EXPECT_EQ(slots[1].bytes, bytes_of("cdd"));
  EXPECT_EQ(slots[1].pieces.at(1).range, 3U);
  EXPECT_EQ(slots[2].bytes, bytes_of("f"));
  EXPECT_EQ(slots[2].pieces.at(0).offset, 9U);
}

TEST_F(RemoteWriterTest, TellsTheBackendsOutcome) {
  KeepingBackend backend(*area_.memory, [](const Received&) {
    return Status(Code::kNoSpace, "cannot write: disk full");
  });
  Status told;
  {
    const auto writer = begin();
    writer->finish(manifest(), nullptr, [&](const Status& end) { told = end; });
    EXPECT_EQ(writer->wait().code(), Code::kNoSpace);
  }
  EXPECT_EQ(told.message(), "cannot write: disk full");
}

TEST_F(RemoteWriterTest, AFailureOfTheBackendIsKnownBeforeTheEnd) {
  KeepingBackend backend(*area_.memory);
  const auto writer = begin();
  write(*writer, "one");
  backend.fail({Code::kNoSpace, "cannot write: disk full"});
  while (!writer->done()) write(*writer, "more");  // many more than the pool has
  EXPECT_EQ(writer->wait().code(), Code::kNoSpace);
}

// Also where slots come after it: they give nothing up, and who wants to know is told why it
// failed.
TEST_F(RemoteWriterTest, AnEarlyFailureIsTold) {
  KeepingBackend backend(*area_.memory);
  files_.inject(
      {.failure = Status(Code::kNoSpace, "cannot make folder: disk full"), .persists = true});
  Status told;
  {
    const auto writer = begin();
    while (!writer->done()) std::this_thread::yield();
    write(*writer, "one");
    std::this_thread::sleep_for(1ms);  // so that it might take itself for abandoned
    writer->finish(manifest(), nullptr, [&](const Status& end) { told = end; });
    EXPECT_EQ(writer->wait().code(), Code::kNoSpace);
  }
  EXPECT_EQ(told.message(), "cannot make folder: disk full");
  EXPECT_EQ(area_.free_slots(), 2U);
}

TEST_F(RemoteWriterTest, TornBytesAreNotHandedOver) {
  KeepingBackend backend(*area_.memory);
  const auto writer = begin();
  std::string seen;
  write(*writer, "good", [&](std::span<const std::byte> bytes) {
    seen.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status();
  });
  write(*writer, "torn", [](auto) { return Status(Code::kTorn, "zone 3 was overwritten"); });
  EXPECT_EQ(writer->wait().code(), Code::kTorn);
  EXPECT_EQ(seen, "good");
  writer->finish(manifest(), nullptr);
  while (backend.received().empty() || !backend.received()[0].abandoned) std::this_thread::yield();
  EXPECT_LE(backend.received().at(0).slots.size(), 1U);
}

TEST_F(RemoteWriterTest, PiecesThatAreNotTheSlotsBytesAreRefused) {
  KeepingBackend backend(*area_.memory);
  const std::vector<std::vector<Piece>> wrong = {
      {}, {{0, 0, 3}}, {{0, 0, 5}}, {{0, 0, 4}, {1, 0, 0}}, {{0, 0, 2}, {1, 0, UINT64_MAX}}};
  for (const std::vector<Piece>& pieces : wrong) {
    const auto writer = begin();
    writer->write(pieces, filled("four"));
    EXPECT_EQ(writer->wait().code(), Code::kInvalid);
  }
}

TEST_F(RemoteWriterTest, MayBeAbandonedAtAnyMoment) {
  std::mt19937 random(1);
  KeepingBackend backend(*area_.memory);
  for (int round = 0; round < 200; ++round) {
    backend.hold(round % 3 == 0);
    auto writer = begin();
    const unsigned writes = random() % 3;
    for (unsigned i = 0; i < writes; ++i) {
      if (const auto slot = pool_.acquire(0ns); slot.ok()) {
        slot.value()->used = 1;
        const Piece piece{0, 0, 1};
        writer->write({&piece, 1}, slot.value());
      }
    }
    if (random() % 2 == 0) writer->finish(manifest(), nullptr);
    if (random() % 2 == 0) writer->abandon();
    backend.hold(false);
    writer.reset();
  }
  while (area_.free_slots() < 2) std::this_thread::yield();
}

TEST_F(RemoteWriterTest, WhoGoesAwayAbandons) {
  KeepingBackend backend(*area_.memory);
  {
    const auto writer = begin();
    write(*writer, "one");
  }
  while (!backend.received().empty() && !backend.received()[0].abandoned) {
    std::this_thread::yield();
  }
  EXPECT_EQ(files_.paths(), std::vector<std::string>{});
}

TEST_F(RemoteWriterTest, ABackendThatHasGoneForGoodIsAFailure) {
  area_.memory->header().server.store(0);
  const auto writer = begin();
  write(*writer, "one");
  write(*writer, "two");
  writer->finish(manifest(), nullptr);
  EXPECT_EQ(writer->wait().code(), Code::kIo);
}

TEST_F(RemoteWriterTest, AnotherBackendGoesOn) {
  std::optional<KeepingBackend> backend;
  ServerWatch watch(*area_.memory, [&] {
    backend.emplace(*area_.memory);
    return Status();
  });
  StagingPool pool(*area_.memory, *area_.client, watch);
  auto started = start_remote_writer(files_, pool, text(), FolderMaker::kWriter, {});
  ASSERT_TRUE(started.ok());
  const auto& writer = started.value();
  for (int i = 0; i < 5; ++i) {
    Slot* slot = pool.acquire().value();
    slot->used = 1;
    const Piece piece{0, 0, 1};
    writer->write({&piece, 1}, slot);
  }
  writer->finish(manifest(), nullptr);
  EXPECT_TRUE(writer->wait().ok()) << writer->wait().message();
  EXPECT_EQ(backend->received().at(0).slots.size(), 6U);
}

class JournalStreamTest : public RemoteWriterTest {
 protected:
  std::unique_ptr<JournalWriter> open(size_t block_bytes = 512) {
    auto sink = open_journal_stream(pool_, "/pfs/store/demo/abc123-r0.journal");
    EXPECT_TRUE(sink.ok()) << sink.status().message();
    JournalWriter::Options options;
    options.block_bytes = block_bytes;
    auto journal = JournalWriter::create(std::move(sink.value()), "abc123-r0.journal", options);
    EXPECT_TRUE(journal.ok()) << journal.status().message();
    return std::move(journal.value());
  }
  // Others each time: the journal stores what it has had before only once.
  std::vector<std::byte> noise(size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    return bytes;
  }
  std::mt19937_64 random_{7};
  // The file, as the slots of that many make it.
  static std::vector<std::byte> file_of(const Received& stream, size_t slots) {
    std::vector<std::byte> file;
    for (size_t i = 0; i < slots; ++i) {
      const auto& slot = stream.slots.at(i);
      EXPECT_EQ(slot.pieces.size(), 1U);
      file.resize(std::max<size_t>(file.size(), slot.pieces[0].offset + slot.bytes.size()));
      std::copy(slot.bytes.begin(), slot.bytes.end(),
                file.begin() + static_cast<ptrdiff_t>(slot.pieces[0].offset));
    }
    return file;
  }
};

TEST_F(JournalStreamTest, IsAFileUpToEachCut) {
  KeepingBackend backend(*area_.memory);
  std::vector<std::pair<JournalPart, JournalCover>> cuts;
  std::vector<std::byte> written;
  {
    const auto journal = open();
    for (size_t i = 1; i < 6; ++i) {
      const auto bytes = noise(3000 * i);
      written.insert(written.end(), bytes.begin(), bytes.end());
      journal->append(bytes, 7);
      JournalPart part = journal->seal();
      const auto cover = journal->settle(part);
      ASSERT_TRUE(cover.ok()) << cover.status().message();
      cuts.emplace_back(part, cover.value());
    }
  }
  const auto received = backend.received();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_TRUE(received[0].sealed);
  EXPECT_EQ(received[0].kind, StreamKind::kJournal);
  for (const auto& [part, cover] : cuts) {
    FaultFileSystem files;
    ASSERT_TRUE(files.make_folder("/job").ok());
    const auto file = files.create("/job/" + part.file);
    const auto bytes = file_of(received[0], cover.slots);
    EXPECT_EQ(bytes.size(), part.file_bytes);
    ASSERT_TRUE(file.value()->append(bytes).ok());
    auto reader = JournalReader::open(files, "/job", {part});
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    std::vector<std::byte> read(part.stream_bytes);
    ASSERT_TRUE(reader.value()->read(read).ok());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), written.begin()));
  }
}

TEST_F(JournalStreamTest, HoldsNoSlotWhileItGrows) {
  KeepingBackend backend(*area_.memory);
  const auto journal = open();
  JournalPart part = journal->seal();
  ASSERT_TRUE(journal->settle(part).ok());
  for (int i = 0; i < 20; ++i) journal->append(noise(700), 1);
  while (area_.free_slots() < 2) std::this_thread::yield();
  EXPECT_EQ(backend.received().at(0).slots.size(), 1U);
}

// Two slots in all, and a checkpoint that takes each one that it can get.
TEST_F(JournalStreamTest, AndACheckpointShareAPoolOfTwo) {
  KeepingBackend backend(*area_.memory);
  const auto journal = open();
  for (int round = 0; round < 10; ++round) {
    const auto writer = begin();
    for (int i = 0; i < 20;) {
      journal->append(noise(2000), 1);
      const auto slot = pool_.acquire(0ns);
      if (!slot.ok()) continue;
      slot.value()->used = 8192;
      const Piece piece{0, 0, 8192};
      writer->write({&piece, 1}, slot.value());
      ++i;
    }
    Manifest described = manifest();
    described.journal = {journal->seal()};
    writer->finish(std::move(described), journal.get());
    ASSERT_TRUE(writer->wait().ok()) << writer->wait().message();
  }
}

TEST_F(JournalStreamTest, FailsWithItsStream) {
  KeepingBackend backend(*area_.memory);
  const auto journal = open();
  backend.fail({Code::kNoSpace, "cannot write the journal: disk full"});
  JournalPart part;
  do {
    journal->append(noise(5000), 1);
    part = journal->seal();
  } while (journal->settle(part).ok());
  EXPECT_EQ(journal->settle(part).status().code(), Code::kNoSpace);
  for (int i = 0; i < 100; ++i) journal->append(noise(5000), 1);  // and holds nobody up
  const auto writer = begin();
  Manifest described = manifest();
  described.journal = {part};
  writer->finish(std::move(described), journal.get());
  EXPECT_EQ(writer->wait().code(), Code::kNoSpace);
}

TEST_F(JournalStreamTest, IsDoneWithWhereTheBackendHasGone) {
  area_.memory->header().server.store(0);
  const auto journal = open();
  for (int i = 0; i < 100; ++i) journal->append(noise(5000), 1);
  JournalPart part = journal->seal();
  EXPECT_EQ(journal->settle(part).status().code(), Code::kIo);
}

}  // namespace
}  // namespace gpusnap
