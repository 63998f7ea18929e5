#include "tiers/backend/block_log.h"

#include <gtest/gtest.h>

#include "fault_file_system.h"
#include "tiers/backend/chunk_copy.h"

namespace gpusnap::test {
namespace {

SegmentStore::StoredBlock block(uint64_t sequence, Form form) {
  SegmentStore::StoredBlock block;
  block.sequence = sequence;
  block.in_chunk = sequence % 2 == 1;
  block.file = 3;
  block.checksum = 0x1234567890abcdef * sequence;
  uint64_t within = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    Extent extent;
    extent.range = i;
    extent.offset = 100 * i;
    extent.size = 10 + i;
    extent.checksum = 7 * i;
    extent.segment = 3;
    extent.form = form;
    extent.segment_offset = 4096 + (form == Form::kStored ? within : 0);
    if (form != Form::kStored) {
      extent.within = within;
      extent.block_stored = 20;
      extent.block_bytes = 33;
    }
    within += extent.size;
    block.extents.push_back(extent);
  }
  return block;
}

std::vector<std::byte> joined(const std::vector<std::vector<std::byte>>& records) {
  std::vector<std::byte> all;
  for (const auto& record : records) all.insert(all.end(), record.begin(), record.end());
  return all;
}

void expect_same(const SegmentStore::StoredBlock& a, const SegmentStore::StoredBlock& b) {
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.in_chunk, b.in_chunk);
  EXPECT_EQ(a.file, b.file);
  EXPECT_EQ(a.checksum, b.checksum);
  ASSERT_EQ(a.extents.size(), b.extents.size());
  for (size_t i = 0; i < a.extents.size(); ++i) {
    const Extent& x = a.extents[i];
    const Extent& y = b.extents[i];
    EXPECT_TRUE(x.range == y.range && x.offset == y.offset && x.size == y.size);
    EXPECT_TRUE(x.segment == y.segment && x.segment_offset == y.segment_offset);
    EXPECT_TRUE(x.checksum == y.checksum && x.form == y.form && x.within == y.within);
    EXPECT_TRUE(x.block_stored == y.block_stored && x.block_bytes == y.block_bytes);
    EXPECT_EQ(x.parts, y.parts);
  }
}

const std::vector<std::byte> kBytes(100, std::byte{5});

std::vector<std::byte> whole_log() {
  return joined({encode_log_text("text"), encode_log_block(block(0, Form::kStored)),
                 encode_log_block(block(1, Form::kShuffle4)), encode_log_moved({1, 2, 8192, 77}),
                 encode_log_manifest(2, kBytes), encode_log_sealed(3), encode_log_committed()});
}

TEST(BlockLogBytes, AreReadAsTheyWereWritten) {
  BlockLog log;
  const auto bytes = whole_log();
  EXPECT_EQ(decode_block_log(bytes, log).value(), bytes.size());
  EXPECT_EQ(log.text, "text");
  ASSERT_EQ(log.blocks.size(), 2U);
  expect_same(log.blocks[0], block(0, Form::kStored));
  expect_same(log.blocks[1], block(1, Form::kShuffle4));
  EXPECT_EQ(log.moved, (std::vector<MovedChunk>{{1, 2, 8192, 77}}));
  ASSERT_EQ(log.manifest.size(), 1U);
  EXPECT_EQ(log.manifest[0].bytes, kBytes);
  EXPECT_EQ(log.sealed, 3U);
  EXPECT_TRUE(log.committed);
}

TEST(BlockLogBytes, HaveTheChecksumsOfParts) {
  SegmentStore::StoredBlock large = block(4, Form::kStored);
  Extent& last = large.extents.back();
  last.offset = Extent::kPartBytes - 1;
  last.size = Extent::kPartBytes + 2;
  last.parts = {1, 2, 3};
  BlockLog log;
  const auto bytes = encode_log_block(large);
  EXPECT_EQ(decode_block_log(bytes, log).value(), bytes.size());
  ASSERT_EQ(log.blocks.size(), 1U);
  expect_same(log.blocks[0], large);
  for (const size_t parts : {0U, 2U, 4U}) {
    last.parts.resize(parts);
    BlockLog other;
    EXPECT_EQ(decode_block_log(encode_log_block(large), other).status().code(), Code::kDamaged);
  }
}

TEST(BlockLogBytes, EndAtTheFirstRecordThatIsNotWhole) {
  const auto bytes = whole_log();
  size_t last = 0;
  for (size_t size = 0; size <= bytes.size(); ++size) {
    BlockLog log;
    const auto read = decode_block_log(std::span(bytes).first(size), log);
    ASSERT_TRUE(read.ok());
    EXPECT_LE(read.value(), size);
    EXPECT_GE(read.value(), last);
    last = read.value();
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    BlockLog log;
    const auto read = decode_block_log(damaged, log);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_LE(read.value(), at);
  }
}

TEST(BlockLogBytes, WhatMakesNoSenseIsRefused) {
  const auto refused = [](const std::vector<std::byte>& bytes) {
    BlockLog log;
    return decode_block_log(bytes, log).status().code() == Code::kDamaged;
  };
  EXPECT_TRUE(refused(joined({encode_log_text("a"), encode_log_text("b")})));
  EXPECT_TRUE(refused(joined({encode_log_sealed(1), encode_log_sealed(2)})));
  auto wrong = block(0, Form::kStored);
  for (Extent& extent : wrong.extents) extent.segment_offset -= 4096;
  EXPECT_TRUE(refused(encode_log_block(wrong)));
  wrong = block(0, Form::kZstd);
  wrong.extents[1].size = 0;
  EXPECT_TRUE(refused(encode_log_block(wrong)));
}

TEST(BlockLogFile, IsMadeWithItsFirstRecord) {
  FaultFileSystem files;
  ASSERT_TRUE(files.make_folder("/f").ok());
  {
    BlockLogWriter log(files, {"/f/log", {}, {}}, "text");
    EXPECT_TRUE(files.paths().empty());
    EXPECT_TRUE(log.append(encode_log_sealed(9)).ok());
    EXPECT_TRUE(log.sync().ok());
  }
  BlockLog log;
  EXPECT_TRUE(read_block_log(files, "/f/log", log).ok());
  EXPECT_EQ(log.text, "text");
  EXPECT_EQ(log.sealed, 9U);
}

TEST(BlockLogFile, NothingFollowsAFailure) {
  FaultFileSystem files;
  ASSERT_TRUE(files.make_folder("/f").ok());
  BlockLogWriter log(files, {"/f/log", {}, {}}, "text");
  EXPECT_TRUE(log.append(encode_log_sealed(9)).ok());
  FaultFileSystem::Fault fault;
  fault.failure = device_failure(EIO);
  files.inject(fault);
  EXPECT_FALSE(log.append(encode_log_sealed(9)).ok());
  files.heal();
  EXPECT_FALSE(log.append(encode_log_sealed(9)).ok());
}

// Wherever the first one's device fails, the two of them say all of it, once.
TEST(BlockLogFile, AnotherOneFollowsWhereTheDeviceFails) {
  for (size_t at = 0; at < 6; ++at) {
    for (const bool takes_effect : {false, true}) {
      FaultFileSystem files;
      ASSERT_TRUE(files.make_folder("/store").ok());
      FaultFileSystem::Fault fault;
      fault.where = "/ssd/";
      fault.operation = at;
      fault.failure = device_failure(ENOSPC);
      fault.takes_effect = takes_effect;
      fault.persists = true;
      files.inject(fault);
      size_t failures = 0;
      BlockLogWriter writer(files, {"/ssd/f/log", "/store/log", [&](const Status&) { ++failures; }},
                            "text");
      EXPECT_TRUE(writer.append(encode_log_block(block(0, Form::kStored))).ok());
      EXPECT_TRUE(writer.append(encode_log_block(block(1, Form::kZstd))).ok());
      // The one that finds the failure says so, the next one is of the log that follows.
      (void)writer.sync();
      EXPECT_TRUE(writer.sync().ok());
      EXPECT_TRUE(writer.append(encode_log_manifest(2, kBytes)).ok());
      EXPECT_EQ(failures, writer.has_moved_on() ? 1U : 0U);
      BlockLog log;
      for (const char* path : {"/ssd/f/log", "/store/log"}) {
        const Status read = read_block_log(files, path, log);
        EXPECT_TRUE(read.ok() || read.code() == Code::kNotFound) << read.message();
      }
      const Status settled = settle(log);
      EXPECT_TRUE(settled.ok()) << settled.message();
      ASSERT_EQ(log.blocks.size(), 2U) << at;
      expect_same(log.blocks[0], block(0, Form::kStored));
      expect_same(log.blocks[1], block(1, Form::kZstd));
      EXPECT_EQ(log.manifest.size(), 1U);
    }
  }
}

TEST(BlockLogFile, TwoThatContradictEachOtherAreDamaged) {
  BlockLog log;
  log.blocks = {block(0, Form::kStored), block(0, Form::kStored)};
  EXPECT_TRUE(settle(log).ok());
  EXPECT_EQ(log.blocks.size(), 1U);
  log.blocks.push_back(block(0, Form::kZstd));
  EXPECT_EQ(settle(log).code(), Code::kDamaged);
  log.blocks.pop_back();
  log.manifest = {{0, kBytes}};
  EXPECT_EQ(settle(log).code(), Code::kDamaged);
}

TEST(BlockLogBytes, OverlappingBlocksOfAChunkAreRefused) {
  auto other = block(3, Form::kStored);
  auto blocks = blocks_in_chunk({block(1, Form::kStored)});
  ASSERT_TRUE(blocks.ok());
  EXPECT_EQ(blocks.value()[0].offset, 4096U);
  EXPECT_EQ(blocks.value()[0].bytes, 33U);
  EXPECT_EQ(blocks_in_chunk({block(1, Form::kStored), other}).status().code(), Code::kDamaged);
  for (Extent& extent : other.extents) extent.segment_offset += 33;
  EXPECT_TRUE(blocks_in_chunk({other, block(1, Form::kStored)}).ok());
}

}  // namespace
}  // namespace gpusnap::test
