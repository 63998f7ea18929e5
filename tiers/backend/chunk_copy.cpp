// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/chunk_copy.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/mutex.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

constexpr size_t kLanes = 2;  // one reads while the other writes

// Blocks that are copied at once, and the zeros after them.
struct Batch {
  size_t first = 0;  // block
  size_t last = 0;   // the block after them
  uint64_t begin = 0;
  uint64_t end = 0;  // of the zeros
};

// Each begins with a block, and therefore at an aligned offset.
std::vector<Batch> cut_into_batches(const std::vector<ChunkBlock>& blocks, uint64_t most) {
  std::vector<Batch> batches;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (batches.empty() || blocks[i].end() - batches.back().begin > most) {
      batches.push_back({i, i, blocks[i].offset, 0});
      // Bytes before the first block are padding, too.
      if (i == 0) batches.back().begin = kSegmentHeaderBytes;
    }
    batches.back().last = i + 1;
  }
  for (size_t i = 0; i < batches.size(); ++i) {
    batches[i].end = i + 1 < batches.size() ? batches[i + 1].begin : blocks.back().end();
  }
  return batches;
}

class Copying : public std::enable_shared_from_this<Copying> {
 public:
  explicit Copying(ChunkCopy copy)
      : copy_(std::move(copy)), batches_(cut_into_batches(copy_.blocks, copy_.part_bytes)) {
    uint64_t most = 0;
    for (const Batch& batch : batches_) most = std::max(most, batch.end - batch.begin);
    for (std::vector<std::byte>& buffer : buffers_) buffer.resize(most);
  }
  void begin() {
    for (size_t lane = 0; lane < kLanes; ++lane) next(lane);
  }

 private:
  struct Outcome {
    Status status;
    bool local = false;  // the chunk's device has failed
  };

  // Begins with the next batch.
  void next(size_t lane) {
    const Batch* batch = take_batch();
    if (batch != nullptr) return read(lane, *batch);
    if (const std::optional<Outcome> outcome = end_lane()) {
      copy_.ended(outcome->status, outcome->local);
    }
  }

  // Null: none is left, or the copy has failed.
  const Batch* take_batch() {
    const MutexLock lock(mutex_);
    if (status_.ok() && copy_.gave_up()) status_ = {Code::kInvalid, "the checkpoint was abandoned"};
    return status_.ok() && next_ < batches_.size() ? &batches_[next_++] : nullptr;
  }

  // The outcome of the whole copy, from the last lane.
  std::optional<Outcome> end_lane() {
    const MutexLock lock(mutex_);
    if (++over_ < kLanes) return std::nullopt;
    return Outcome{status_, local_};
  }

  void read(size_t lane, const Batch& batch) {
    const uint64_t there = copy_.blocks[batch.last - 1].end();
    copy_.from->read(batch.begin, std::span(buffers_[lane]).first(there - batch.begin),
                     [self = shared_from_this(), lane, &batch](const Status& read) {
                       const Status good = read.ok() ? self->check(lane, batch) : read;
                       if (good.ok()) return self->write(lane, batch);
                       self->note(good, true);
                       self->next(lane);
                     });
  }

  // Compares the blocks with their checksums and clears the gaps between them.
  Status check(size_t lane, const Batch& batch) {
    const std::span<std::byte> bytes(buffers_[lane]);
    uint64_t at = batch.begin;
    for (size_t i = batch.first; i < batch.last; ++i) {
      const ChunkBlock& block = copy_.blocks[i];
      std::ranges::fill(bytes.subspan(at - batch.begin, block.offset - at), std::byte{});
      at = block.end();
      if (checksum(bytes.subspan(block.offset - batch.begin, block.bytes)) == block.checksum) {
        continue;
      }
      return {Code::kDamaged, "a checkpoint is lost: its chunk " + copy_.path +
                                  " is damaged between bytes " + std::to_string(block.offset) +
                                  " and " + std::to_string(at) +
                                  "; if that happens again, leave its device out of GPUSNAP_SSD"};
    }
    std::ranges::fill(bytes.subspan(at - batch.begin, batch.end - at), std::byte{});
    return {};
  }

  void write(size_t lane, const Batch& batch) {
    const uint64_t bytes = batch.end - batch.begin;
    copy_.rate->begun(bytes);
    copy_.to->write(copy_.offset + batch.begin - kSegmentHeaderBytes,
                    std::span(buffers_[lane]).first(bytes),
                    [self = shared_from_this(), lane, bytes](const Status& written) {
                      self->copy_.rate->ended(bytes, written.ok());
                      if (!written.ok()) self->note(written, false);
                      self->next(lane);
                    });
  }

  void note(const Status& status, bool local) {
    const MutexLock lock(mutex_);
    if (!status_.ok()) return;
    status_ = status;
    local_ = local;
  }

  const ChunkCopy copy_;
  const std::vector<Batch> batches_;
  std::vector<std::byte> buffers_[kLanes];
  Mutex mutex_;
  size_t next_ GUARDED_BY(mutex_) = 0;  // batch
  size_t over_ GUARDED_BY(mutex_) = 0;  // lanes
  Status status_ GUARDED_BY(mutex_);    // the first failure
  bool local_ GUARDED_BY(mutex_) = false;
};

// A block that is stored as it is and has no checksum of its own has one for each part of its
// extents.
void add_blocks(const SegmentStore::StoredBlock& block, std::vector<ChunkBlock>& to) {
  if (block.checksum != 0 || block.extents.front().form != Form::kStored) {
    to.push_back({block.offset(), block.stored(), block.checksum});
    return;
  }
  for (const Extent& extent : block.extents) {
    for (size_t i = 0; i < extent.part_count(); ++i) {
      const Extent::Part part = extent.part(i);
      to.push_back({extent.segment_offset + part.begin, part.end - part.begin, part.checksum});
    }
  }
}

}  // namespace

Result<std::vector<ChunkBlock>> blocks_in_chunk(
    const std::vector<SegmentStore::StoredBlock>& blocks) {
  std::vector<ChunkBlock> found;
  found.reserve(blocks.size());
  for (const SegmentStore::StoredBlock& block : blocks) add_blocks(block, found);
  std::ranges::sort(found, {}, &ChunkBlock::offset);
  for (size_t i = 1; i < found.size(); ++i) {
    if (found[i].offset < found[i - 1].end()) {
      return Status(Code::kDamaged, "blocks of a chunk overlap in its block log");
    }
  }
  return found;
}

void begin_copy(ChunkCopy copy) {
  const auto ended = copy.ended;
  const Status begun = no_throw("flush a chunk", [&] {
    std::make_shared<Copying>(std::move(copy))->begin();
    return Status();
  });
  if (!begun.ok()) ended(begun, false);
}

}  // namespace gpusnap
