// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/part_manifest.h"

#include <utility>

#include "tiers/format.h"

namespace gpusnap {

void PartManifest::add_waiting(Slot slot) {
  const MutexLock lock(mutex_);
  waiting_.push_back(std::move(slot));
}

PartManifest::Slot PartManifest::take_waiting() {
  const MutexLock lock(mutex_);
  Slot slot = std::move(waiting_.front());
  waiting_.pop_front();
  return slot;
}

void PartManifest::release_waiting() {
  std::deque<Slot> waiting;
  {
    const MutexLock lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const Slot& slot : waiting) slot.release(false);
}

void PartManifest::add(uint64_t sequence, std::span<const std::byte> bytes) {
  const MutexLock lock(mutex_);
  slots_[sequence].assign(bytes.begin(), bytes.end());
}

Status PartManifest::assemble() {
  if (manifest_) return {};
  std::vector<std::byte> bytes;
  {
    const MutexLock lock(mutex_);
    for (const auto& [sequence, slot] : slots_) bytes.insert(bytes.end(), slot.begin(), slot.end());
  }
  size_t text_bytes = 0;
  const Result<ManifestText> text =
      parse_manifest_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, text_bytes);
  if (!text.ok()) return text.status();
  if (bytes.size() - text_bytes != text->bytes) {
    return {Code::kInvalid, "a checkpoint's manifest came with other bytes than it has"};
  }
  Result<Manifest> manifest = decode_manifest_without_extents(std::span(bytes).subspan(text_bytes));
  if (!manifest.ok()) return manifest.status();
  manifest_ = std::move(manifest.value());
  using Needs = CheckpointReceiver::Needs;
  const MutexLock lock(mutex_);
  needs_ = text->journal ? Needs::kJournal : Needs::kNone;
  journal_ = text->journal.value_or(ManifestText::Journal());
  return {};
}

CheckpointReceiver::Needs PartManifest::needs(ManifestText::Journal& journal) const {
  const MutexLock lock(mutex_);
  journal = journal_;
  return needs_;
}

void ManifestExtents::add_segment(uint32_t number, SegmentRef segment) {
  index_[number] = static_cast<uint32_t>(manifest_.segments.size());
  manifest_.segments.push_back(std::move(segment));
}

void ManifestExtents::add_blocks(std::span<const SegmentStore::StoredBlock> blocks) {
  for (const SegmentStore::StoredBlock& block : blocks) {
    for (Extent extent : block.extents) {
      if (block.in_chunk) {
        const MovedChunk& moved = moved_.at(block.file);
        extent.segment = moved.segment;
        extent.segment_offset += moved.base - kSegmentHeaderBytes;
      }
      add(std::move(extent));
    }
  }
}

void ManifestExtents::add_extents(std::vector<Extent>& extents) {
  manifest_.extents.reserve(manifest_.extents.size() + extents.size());
  for (Extent& extent : extents) add(std::move(extent));
}

void ManifestExtents::add(Extent extent) {
  extent.segment = index_.at(extent.segment);
  manifest_.extents.push_back(std::move(extent));
}

}  // namespace gpusnap
