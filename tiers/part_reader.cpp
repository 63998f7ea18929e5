// SPDX-License-Identifier: Apache-2.0
#include "tiers/part_reader.h"

#include <algorithm>
#include <utility>

#include "tiers/chain.h"
#include "tiers/format.h"
#include "tiers/names.h"
#include "tiers/page_memory.h"
#include "tiers/unit_reader.h"

namespace gpusnap {

namespace {

ReadSegment segment_of(const JobPlace& job, const Manifest& manifest, uint32_t index) {
  ReadSegment segment;
  segment.manifest = &manifest;
  segment.index = index;
  segment.folder = job.folder + "/" + epoch_folder(manifest.epoch);
  segment.size = manifest.segments[index].size;
  return segment;
}

}  // namespace

PlainReadBuffers::~PlainReadBuffers() {
  for (std::byte* buffer : all_) PageMemory(buffer).reset();
}

Result<std::byte*> PlainReadBuffers::take(bool) {
  if (!free_.empty()) {
    std::byte* const buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  if (all_.size() >= most_) return nullptr;
  free_.reserve(all_.size() + 1);  // so that giving back does not allocate
  all_.reserve(all_.size() + 1);
  Result<PageMemory> made = allocate_pages(kBytes);
  if (!made.ok()) return made.status();
  all_.push_back(made.value().release());
  return all_.back();
}

void PlainReadBuffers::give_back(std::byte* buffer) {
  free_.push_back(buffer);
}

ReadUnits units_of(const JobPlace& job, std::span<const Manifest> chain,
                   std::span<const PlacedExtent> pieces, uint64_t most, const LocalChunks* near) {
  UnitPlan plan(most, near);
  const Manifest* last = nullptr;
  uint32_t last_segment = 0;
  for (size_t i = 0; i < pieces.size();) {
    const std::span<const PlacedExtent> same = leading_extent(pieces.subspan(i));
    const Manifest& member = chain[same.front().member];
    const Extent& extent = member.extents[same.front().extent];
    if (last != &member || last_segment != extent.segment) {
      plan.begin_segment(segment_of(job, member, extent.segment));
      last = &member;
      last_segment = extent.segment;
    }
    plan.add(extent, same);
    i += same.size();
  }
  return plan.take();
}

Status read_pieces(FileSystem& files, const JobPlace& job, std::span<const Manifest> chain,
                   std::span<const PlacedExtent> pieces, const PartReaderOptions& options,
                   ReadBuffers& buffers, const TakePieces& take, LocalChunks* near) {
  ReadUnits units = units_of(job, chain, pieces, buffers.bytes(), near);
  return UnitReader(files, job, options, buffers, std::move(units), near).run(take, {});
}

Status check_segment(FileSystem& files, const JobPlace& job, const Manifest& manifest,
                     uint32_t segment, const PartReaderOptions& options, ReadBuffers& buffers,
                     const std::function<void(uint64_t bytes)>& advance) {
  std::vector<const Extent*> extents;
  for (const Extent& extent : manifest.extents) {
    if (extent.segment == segment) extents.push_back(&extent);
  }
  std::sort(extents.begin(), extents.end(), [](const Extent* a, const Extent* b) {
    return std::pair(a->segment_offset, a->within) < std::pair(b->segment_offset, b->within);
  });
  UnitPlan plan(buffers.bytes());
  plan.begin_segment(segment_of(job, manifest, segment));
  const uint64_t size = manifest.segments[segment].size;
  uint64_t at = kSegmentHeaderUsedBytes;
  for (const Extent* extent : extents) {
    plan.add_padding(at, std::min(extent->segment_offset, size));
    plan.add(*extent, {});
    at = std::max(at, extent->segment_offset + extent->stored());
  }
  plan.add_padding(at, size);
  return UnitReader(files, job, options, buffers, plan.take(), nullptr).run({}, advance);
}

}  // namespace gpusnap
