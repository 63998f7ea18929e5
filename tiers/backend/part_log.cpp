// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/part_log.h"

#include <set>
#include <utility>

namespace gpusnap {

void PartLog::open(BlockLogWriter::Place place, std::string text,
                   std::map<uint32_t, MovedChunk> moved) {
  moved_ = std::move(moved);
  writer_ = std::make_unique<BlockLogWriter>(files_, std::move(place), std::move(text));
}

Status PartLog::note_stored(std::span<const SegmentStore::StoredBlock> blocks) {
  std::vector<std::byte> records;
  for (const SegmentStore::StoredBlock& block : blocks) {
    const std::vector<std::byte> record = encode_log_block(block);
    records.insert(records.end(), record.begin(), record.end());
  }
  if (Status noted = writer_->append(records); !noted.ok()) return noted;
  std::set<uint32_t> chunks;
  {
    const MutexLock lock(mutex_);
    for (const SegmentStore::StoredBlock& block : blocks) {
      if (!block.in_chunk) continue;
      chunks.insert(block.file);
      in_chunks_[block.file].push_back(block);
    }
  }
  progress_.add_stored(blocks.size(), chunks);
  return {};
}

Status PartLog::note_moved(const MovedChunk& moved) {
  if (Status noted = writer_->append(encode_log_moved(moved)); !noted.ok()) return noted;
  moved_[moved.chunk] = moved;
  return {};
}

Status PartLog::note_manifest(uint64_t sequence, std::span<const std::byte> bytes) {
  return writer_->append(encode_log_manifest(sequence, bytes));
}

Status PartLog::note_sealed(uint64_t slots) {
  return writer_->append(encode_log_sealed(slots));
}

Status PartLog::note_committed() {
  if (Status noted = writer_->append(encode_log_committed()); !noted.ok()) return noted;
  return writer_->sync();
}

PartLog::Blocks PartLog::blocks_in(uint32_t chunk) const {
  const MutexLock lock(mutex_);
  const auto found = in_chunks_.find(chunk);
  return found == in_chunks_.end() ? Blocks() : found->second;
}

}  // namespace gpusnap
