// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/part_manifest.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "saver.h"
#include "tiers/format.h"

namespace gpusnap {
namespace {

using Needs = CheckpointReceiver::Needs;

Manifest small_manifest() {
  Manifest manifest;
  manifest.job = "demo";
  manifest.epoch = 3;
  manifest.run = "abc123";
  return manifest;
}

TEST(PartManifest, IsPutTogetherInTheOrderOfItsSlots) {
  ManifestText text;
  text.journal = ManifestText::Journal{2, 5, 9};
  const std::vector<std::byte> bytes = test::manifest_message(small_manifest(), text);
  const std::span<const std::byte> all(bytes);
  PartManifest manifest;
  ManifestText::Journal journal;
  EXPECT_EQ(manifest.needs(journal), Needs::kUnknown);
  manifest.add(12, all.subspan(40));
  manifest.add(11, all.first(40));
  ASSERT_TRUE(manifest.assemble().ok());
  EXPECT_EQ(manifest.manifest().epoch, 3U);
  EXPECT_EQ(manifest.manifest().run, "abc123");
  EXPECT_EQ(manifest.needs(journal), Needs::kJournal);
  EXPECT_EQ(journal, *text.journal);
  EXPECT_TRUE(manifest.assemble().ok());  // again
}

TEST(PartManifest, MayNeedNoJournal) {
  PartManifest manifest;
  manifest.add(0, test::manifest_message(small_manifest(), {}));
  ASSERT_TRUE(manifest.assemble().ok());
  ManifestText::Journal journal;
  EXPECT_EQ(manifest.needs(journal), Needs::kNone);
}

TEST(PartManifest, RefusesOtherBytesThanItHas) {
  const std::vector<std::byte> bytes = test::manifest_message(small_manifest(), {});
  PartManifest manifest;
  manifest.add(0, std::span(bytes).first(bytes.size() - 1));
  EXPECT_EQ(manifest.assemble().code(), Code::kInvalid);
  ManifestText::Journal journal;
  EXPECT_EQ(manifest.needs(journal), Needs::kUnknown);
}

TEST(PartManifest, ReleasesSlotsThatStillWait) {
  PartManifest manifest;
  std::vector<std::pair<int, bool>> released;
  for (int i = 0; i < 3; ++i) {
    manifest.add_waiting({static_cast<uint64_t>(i), {}, [&released, i](bool stored) {
                            released.emplace_back(i, stored);
                          }});
  }
  const PartManifest::Slot first = manifest.take_waiting();
  EXPECT_EQ(first.sequence, 0U);
  first.release(true);
  manifest.release_waiting();
  manifest.release_waiting();
  EXPECT_EQ(released, (std::vector<std::pair<int, bool>>{{0, true}, {1, false}, {2, false}}));
}

Extent extent_in(uint32_t segment, uint64_t at) {
  Extent extent;
  extent.size = 100;
  extent.segment = segment;
  extent.segment_offset = at;
  return extent;
}

TEST(ManifestExtents, LieInSegmentsByTheirIndex) {
  Manifest manifest;
  const std::map<uint32_t, MovedChunk> moved;
  ManifestExtents extents(manifest, moved);
  extents.add_segment(7, {"seven", 1000});
  extents.add_segment(3, {"three", 2000});
  std::vector<Extent> stored = {extent_in(3, 64), extent_in(7, 128)};
  extents.add_extents(stored);
  ASSERT_EQ(manifest.segments.size(), 2U);
  EXPECT_EQ(manifest.segments[1].file, "three");
  ASSERT_EQ(manifest.extents.size(), 2U);
  EXPECT_EQ(manifest.extents[0].segment, 1U);
  EXPECT_EQ(manifest.extents[1].segment, 0U);
  EXPECT_EQ(manifest.extents[1].segment_offset, 128U);
}

TEST(ManifestExtents, OfAChunkLieWhereItWasMovedTo) {
  Manifest manifest;
  const std::map<uint32_t, MovedChunk> moved = {{5, {5, 7, 10000, 300}}};
  ManifestExtents extents(manifest, moved);
  extents.add_segment(7, {"seven", 1000});
  SegmentStore::StoredBlock in_chunk;
  in_chunk.in_chunk = true;
  in_chunk.file = 5;
  in_chunk.extents = {extent_in(5, kSegmentHeaderBytes + 200)};
  SegmentStore::StoredBlock in_segment;
  in_segment.file = 7;
  in_segment.extents = {extent_in(7, kSegmentHeaderBytes)};
  extents.add_blocks(std::vector{in_chunk, in_segment});
  ASSERT_EQ(manifest.extents.size(), 2U);
  EXPECT_EQ(manifest.extents[0].segment, 0U);
  EXPECT_EQ(manifest.extents[0].segment_offset, 10200U);
  EXPECT_EQ(manifest.extents[1].segment_offset, kSegmentHeaderBytes);
}

TEST(ManifestExtents, HaveToBeInFilesThatAreKnown) {
  Manifest manifest;
  const std::map<uint32_t, MovedChunk> moved;
  ManifestExtents extents(manifest, moved);
  std::vector<Extent> stored = {extent_in(3, 64)};
  EXPECT_THROW(extents.add_extents(stored), std::out_of_range);
}

}  // namespace
}  // namespace gpusnap
