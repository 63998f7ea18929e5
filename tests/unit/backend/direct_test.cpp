// SPDX-License-Identifier: Apache-2.0
// Chunks that a client writes to a local tier itself: what they say, how they are checked, and what
// becomes of them, whichever backend is there.
#include "tiers/direct/direct_chunk.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "backend_support.h"
#include "remote_support.h"
#include "tiers/backend/remote_writer.h"
#include "tiers/checksum.h"
#include "tiers/format.h"

namespace gpusnap::test {
namespace {

constexpr uint64_t kZone = 4096;

DirectChunk small_chunk() {
  DirectChunk chunk;
  chunk.number = kFirstDirectChunk + 3;
  chunk.zone_bytes = kZone;
  chunk.pieces = {{2, 0, 2 * kZone}, {1, 8 * kZone, kZone}};
  chunk.fingerprints = {11, 12, 13};
  return chunk;
}

TEST(DirectChunkMessage, ComesBackAsItWas) {
  const auto back = parse_direct_chunk(encode(small_chunk()));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(encode(back.value()), encode(small_chunk()));
  EXPECT_EQ(back->bytes(), 3 * kZone);
  EXPECT_EQ(back->pieces[1].offset, 8 * kZone);
}

TEST(DirectChunkMessage, IsRefusedWhereItMakesNoSense) {
  const auto refused = [](auto change) {
    DirectChunk chunk = small_chunk();
    change(chunk);
    return parse_direct_chunk(encode(chunk)).status().code() == Code::kInvalid;
  };
  EXPECT_TRUE(refused([](DirectChunk& chunk) { chunk.number = kFirstDirectChunk - 1; }));
  EXPECT_TRUE(refused([](DirectChunk& chunk) { chunk.zone_bytes = 0; }));
  EXPECT_TRUE(refused([](DirectChunk& chunk) { chunk.zone_bytes = 4 << 20; }));
  EXPECT_TRUE(refused([](DirectChunk& chunk) { chunk.pieces[0].size -= 1; }));
  EXPECT_TRUE(refused([](DirectChunk& chunk) { chunk.pieces[0].offset = 1; }));
  EXPECT_TRUE(refused([](DirectChunk& chunk) { chunk.pieces[1].size = 0; }));
  EXPECT_TRUE(refused([](DirectChunk& chunk) { chunk.pieces[1].size = UINT64_MAX - 4095; }));
  EXPECT_TRUE(refused([](DirectChunk& chunk) { chunk.fingerprints.pop_back(); }));
  EXPECT_TRUE(refused([](DirectChunk& chunk) { chunk.pieces.clear(); }));
}

TEST(DirectChunkMessage, AnyBytesAreReadOrRefused) {
  const std::vector<std::byte> good = encode(small_chunk());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(parse_direct_chunk(std::span(good).first(size)).ok()) << size;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = good;
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = std::byte(random());
    const auto parsed = parse_direct_chunk(bytes);
    if (parsed.ok()) {
      EXPECT_EQ(encode(parsed.value()), bytes);
    }
  }
}

TEST(DirectChunkMessage, FitsIntoASlot) {
  for (const uint64_t slot : {uint64_t{8} << 10, uint64_t{2} << 20, uint64_t{64} << 20}) {
    for (const uint64_t zone : {uint64_t{4} << 10, uint64_t{64} << 10, uint64_t{2} << 20}) {
      DirectChunk chunk;
      chunk.number = kFirstDirectChunk;
      chunk.zone_bytes = zone;
      const uint64_t most = most_direct_bytes(slot, zone);
      ASSERT_GE(most, zone);
      for (uint64_t at = 0; at < most; at += zone) {
        chunk.pieces.push_back({0, at, zone});
        chunk.fingerprints.push_back(at);
      }
      const std::vector<std::byte> message = encode(chunk);
      EXPECT_LE(message.size(), slot);
      EXPECT_TRUE(parse_direct_chunk(message).ok());
    }
  }
}

// A range of each checkpoint goes directly, by what a client does; the others as ever.
class DirectTest : public SsdTest {
 protected:
  static constexpr uint32_t kRange = 2;  // of 64 KiB

  DirectTest() { begin_saver(); }

  void begin_saver() {
    saver_ = std::make_unique<Saver>(*memory_, "/store", job_);
    saver_->instead = [this](uint32_t stream, uint32_t range, std::span<const std::byte> bytes) {
      if (range != kRange) return false;
      write_directly(stream, bytes);
      return true;
    };
  }

  StagingClient::DirectFile ask(uint32_t stream) {
    saver_->client().ask_for_file(stream);
    std::optional<StagingClient::DirectFile> answer;
    EXPECT_TRUE(comes_true([&] {
      answer = saver_->client().file_answer(stream);
      return answer.has_value();
    }));
    return answer.value_or(StagingClient::DirectFile{});
  }

  void write_directly(uint32_t stream, std::span<const std::byte> bytes) {
    for (uint64_t at = 0; at < bytes.size();) {
      const StagingClient::DirectFile file = ask(stream);
      if (at_step) at_step();
      ASSERT_GE(file.bytes, kZone) << "no file";
      const uint64_t size = std::min<uint64_t>(file.bytes / kZone * kZone, bytes.size() - at);
      write(file, bytes.subspan(at, size));
      if (at_step) at_step();
      hand_over(stream, describe(file.number, at, bytes.subspan(at, size)));
      if (at_step) at_step();
      at += size;
    }
  }

  void write(const StagingClient::DirectFile& to, std::span<const std::byte> bytes) {
    auto file = files_.continue_bulk(to.path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    const Status written = write_and_wait(*file.value(), kSegmentHeaderBytes, bytes);
    EXPECT_TRUE(written.ok()) << written.message();
  }

  static DirectChunk describe(uint32_t number, uint64_t offset, std::span<const std::byte> bytes) {
    DirectChunk chunk;
    chunk.number = number;
    chunk.zone_bytes = kZone;
    chunk.pieces = {{kRange, offset, bytes.size()}};
    for (; !bytes.empty(); bytes = bytes.subspan(kZone)) {
      chunk.fingerprints.push_back(fingerprint(bytes.first(kZone)));
    }
    return chunk;
  }

  void hand_over(uint32_t stream, const DirectChunk& chunk) {
    StagingClient& client = saver_->client();
    const auto slot = client.claim(60s);
    ASSERT_TRUE(slot.ok());
    const std::vector<std::byte> message = encode(chunk);
    std::memcpy(memory_->bytes(slot.value()).data(), message.data(), message.size());
    client.hand_over(stream, slot.value(), message.size(), {}, SlotContent::kDirectChunk);
  }

  uint64_t direct_files() const {
    return static_cast<uint64_t>(std::ranges::count_if(on_ssd(), [](const std::string& path) {
      const auto name = parse_chunk_name(path.substr(path.rfind('/') + 1));
      return name && name->number >= kFirstDirectChunk;
    }));
  }

  std::unique_ptr<Saver> saver_;
  std::function<void()> at_step;
};

TEST_F(DirectTest, GoesToTheStoreAsOtherChunksDo) {
  for (const PlacementPolicy policy :
       {PlacementPolicy::kSsdOnly, PlacementPolicy::kHybridNaive, PlacementPolicy::kHybridOpt}) {
    start(policy);
    const uint64_t epoch = static_cast<uint64_t>(policy) + 1;
    const Status saved = saver_->wait(saver_->save(epoch));
    EXPECT_TRUE(saved.ok()) << saved.message();
    expect_back(epoch);
    const BackendCounters counters = backend_->counters();
    EXPECT_EQ(counters.tiers[0].cached() + counters.tiers[1].cached(), 0U);
    saver_->go();
    drain();
    begin_saver();
    expect_only_copies();
    expect_no_leftovers();
  }
  EXPECT_GE(direct_files(), 3U * 3) << "24 KiB each, and copies of what is in the store";
  saver_->go();
}

TEST_F(DirectTest, WhatIsNotAsAtTheCutIsNoCheckpoint) {
  start();
  saver_->instead = [this](uint32_t stream, uint32_t range, std::span<const std::byte> bytes) {
    if (range != kRange) return false;
    const StagingClient::DirectFile file = ask(stream);
    std::vector<std::byte> wrong(bytes.begin(), bytes.begin() + 3 * kZone);
    const DirectChunk chunk = describe(file.number, 0, wrong);
    wrong[kZone + 5] ^= std::byte{1};
    write(file, wrong);
    hand_over(stream, chunk);
    return true;
  };
  EXPECT_EQ(saver_->wait(saver_->save(1)).code(), Code::kTorn);
  EXPECT_FALSE(files_.exists("/store/demo/e1/r0.manifest"));
  saver_->go();
  drain();
  EXPECT_EQ(on_ssd(), std::vector<std::string>());
}

TEST_F(DirectTest, AShortFileIsNoCheckpoint) {
  start();
  saver_->instead = [this](uint32_t stream, uint32_t range, std::span<const std::byte> bytes) {
    if (range != kRange) return false;
    const StagingClient::DirectFile file = ask(stream);
    write(file, bytes.first(kZone));
    hand_over(stream, describe(file.number, 0, bytes.first(2 * kZone)));
    return true;
  };
  EXPECT_EQ(saver_->wait(saver_->save(1)).code(), Code::kDamaged);
  saver_->go();
  drain();
}

TEST_F(DirectTest, AFileThatWasNotGivenIsRefused) {
  start();
  saver_->instead = [this](uint32_t stream, uint32_t range, std::span<const std::byte> bytes) {
    if (range != kRange) return false;
    hand_over(stream, describe(kFirstDirectChunk + 5, 0, bytes.first(kZone)));
    return true;
  };
  EXPECT_EQ(saver_->wait(saver_->save(1)).code(), Code::kInvalid);
  saver_->go();
  drain();
}

// A tier of two chunks, of which nothing is flushed.
TEST_F(DirectTest, WithoutRoomThereIsNoFile) {
  start(PlacementPolicy::kSsdOnly, 2, 0);
  const uint32_t stream =
      saver_->client().open(StreamKind::kCheckpoint, encode(saver_->text(1))).value();
  EXPECT_GT(ask(stream).bytes, 0U);
  EXPECT_GT(ask(stream).bytes, 0U);
  EXPECT_EQ(ask(stream).bytes, 0U);
  saver_->client().abandon(stream);
  EXPECT_TRUE(comes_true([&] { return backend_->counters().tiers[1].cached() == 0; }));
  saver_->go();
  drain();
  EXPECT_EQ(on_ssd(), std::vector<std::string>());
}

TEST_F(DirectTest, WithoutALocalTierThereIsNoFile) {
  BackendTest::start();
  const uint32_t stream =
      saver_->client().open(StreamKind::kCheckpoint, encode(saver_->text(1))).value();
  EXPECT_EQ(ask(stream).bytes, 0U);
  saver_->client().abandon(stream);
  saver_->go();
  drain();
}

// A file that is asked for and not used goes with the checkpoint.
TEST_F(DirectTest, AFileThatIsNotUsedGoes) {
  start();
  saver_->instead = [this](uint32_t stream, uint32_t range, std::span<const std::byte>) {
    const uint64_t room = range == kRange ? ask(stream).bytes : 1;
    EXPECT_GT(room, 0U);
    return false;
  };
  EXPECT_TRUE(saver_->wait(saver_->save(1)).ok());
  expect_back(1);
  EXPECT_EQ(backend_->counters().tiers[1].cached(), 0U);
  saver_->go();
  drain();
  EXPECT_EQ(direct_files(), 0U);
  expect_only_copies();
}

// At each step of the client another backend takes over.
TEST_F(DirectTest, AnotherBackendGoesOn) {
  for (int at = 0; at < 9; ++at) {
    start();
    int step = 0;
    at_step = [&] {
      if (step++ != at) return;
      stop();
      start();
    };
    const auto epoch = static_cast<uint64_t>(at) + 1;
    const Status saved = saver_->wait(saver_->save(epoch));
    EXPECT_TRUE(saved.ok()) << at << ": " << saved.message();
    EXPECT_EQ(step, 9);
    expect_back(epoch);
    const BackendCounters counters = backend_->counters();
    EXPECT_EQ(counters.tiers[0].cached() + counters.tiers[1].cached(), 0U);
    saver_->go();
    drain();
    begin_saver();
    expect_only_copies();
  }
  saver_->go();
}

// While nothing is flushed: all of it is on the device, and the machine stops.
TEST_F(DirectTest, OutlivesTheMachine) {
  start(PlacementPolicy::kSsdOnly, 100, 0);
  (void)saver_->save(1);
  EXPECT_TRUE(comes_true([&] {
    const auto streams = memory_->streams();
    return std::ranges::any_of(streams, [](StreamEntry& entry) {
      return entry.held.load() != 0 && entry.held.load() == entry.word.load().life;
    });
  }));
  saver_->go();
  reboot(Survival::kNothing);
  start();
  drain();
  expect_back(1);
}

class DirectWriterTest : public ::testing::Test {
 protected:
  FaultFileSystem files_;
  StagingArea area_{8192, 2 * 8192};
};

// A backend that holds what it is given has not checked it.
TEST_F(DirectWriterTest, SealsNothingThatHasNotBeenChecked) {
  KeepingBackend backend(*area_.memory);
  backend.hold(true);
  CheckpointText text;
  text.store = "/pfs/store";
  text.job = "demo";
  text.run = "abc123";
  text.epoch = 1;
  auto writer =
      std::move(start_remote_writer(files_, *area_.pool, text, FolderMaker::kWriter, {}).value());
  ASSERT_NE(writer->direct(), nullptr);
  writer->direct()->add(small_chunk(), "/ssd/chunk");
  Manifest manifest;
  manifest.job = "demo";
  manifest.epoch = 1;
  manifest.run = "abc123";
  writer->finish(manifest, nullptr);
  EXPECT_TRUE(comes_true([&] {
    const auto received = backend.received();
    return received.size() == 1 && received[0].slots.size() == 1;
  }));
  EXPECT_FALSE(backend.received()[0].sealed);
  EXPECT_EQ(backend.received()[0].slots[0].bytes, encode(small_chunk()));
  backend.hold(false);
  EXPECT_TRUE(writer->wait().ok());
  EXPECT_TRUE(backend.received()[0].sealed);
}

}  // namespace
}  // namespace gpusnap::test
