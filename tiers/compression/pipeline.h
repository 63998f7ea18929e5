// Collecting, compressing and storing at the same time: the pipeline of the PCCR paper, with its
// double ring buffer queues (section III.B). Blocks wait in the first ring, what became of them in
// the second; a block moves on when the second has room. Two differences: there may be several
// workers between the rings, so a place in the second is taken with the block and not when it is
// done, which keeps the order; and a block that is not compressed stays where it is and only passes
// through both. What comes out is put together into large writes, which the paper does with large
// buffers in both queues; our blocks are large when they come.
//
// Memory: result_blocks * block_bytes, write_bytes, and for each worker block_bytes and zstd's
// context (for blocks of 4 MiB less than 2 MiB up to level 3, 13 MiB up to level 9, 65 MiB above).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "tiers/clock.h"
#include "tiers/compression/codec.h"
#include "tiers/compression/policy.h"
#include "tiers/spawn.h"
#include "tiers/status.h"

namespace gpusnap {

// Where a stream of blocks ends up. Called by the pipeline's store thread only.
class BlockSink {
 public:
  virtual ~BlockSink() = default;
  // At a multiple of write_bytes; a multiple of it long, but for the last. The bytes are the
  // caller's own again when this returns.
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // All was appended. Not called when something has failed before.
  virtual Status done() = 0;
};

struct Block {
  std::span<const std::byte> bytes;  // 1 to block_bytes; stay as they are until released
  uint64_t tag = 0;                  // the caller's own
  // The form, unless there is a course: then the one that it says when the block's turn comes. It
  // is told what the block took.
  Form form = Form::kStored;
  std::shared_ptr<ChunkCourse> course;
  // Called exactly once, whatever happens, by any thread, without a lock held: the bytes are not
  // needed any more. Does not throw.
  std::function<void()> release;
};

struct PackedBlock {
  uint64_t tag = 0;
  Form form = Form::kStored;  // stored as it is also where it did not shrink
  uint64_t offset = 0;        // bytes from the stream's beginning; no gaps
  uint64_t stored_bytes = 0;
  uint64_t bytes = 0;     // of the block
  uint64_t checksum = 0;  // of the stored bytes
};

struct PipelineOptions {
  static constexpr size_t kWriteUnit = 1 << 20;

  CodecOptions codec;
  size_t block_bytes = 4 << 20;  // of the largest block
  size_t queue_blocks = 8;       // the first ring
  size_t result_blocks = 4;      // the second; twice the workers is as good as more (policy.h)
  size_t write_bytes = 4 << 20;  // a multiple of kWriteUnit
  uint32_t workers = 1;          // at most at the same time
};
// kInvalid, and what is wrong.
Status check(const PipelineOptions& options);

struct PipelineCounts {
  uint64_t blocks = 0;
  uint64_t compressed_blocks = 0;
  uint64_t bytes = 0;
  uint64_t stored_bytes = 0;
  uint32_t workers = 0;  // that run now
};

// One stream of blocks. add(), finish() and the destructor are for one thread, which collects; the
// rest is thread-safe. The first error of any stage ends it: nothing more is stored, and everything
// that was added is released.
class CompressionPipeline {
 public:
  // In the order of blocks, by the store thread: where the block lies. The bytes may still wait to
  // be written with those that follow; all are in the sink when finish() is ok. Does not throw.
  using Packed = std::function<void(const PackedBlock&)>;

  // `spawn` makes the store thread and the workers: one now, more when blocks wait for them. The
  // sink and the clock outlive the pipeline.
  static Result<std::unique_ptr<CompressionPipeline>> start(const PipelineOptions& options,
                                                            BlockSink& sink, Clock& clock,
                                                            const Spawn& spawn, Packed packed);
  virtual ~CompressionPipeline() =
      default;  // abandons what was not finished; waits for the threads

  // Waits for room in the first ring. Not ok: the pipeline has failed, or the block cannot be one,
  // which is a failure like any other. The block is released in each case.
  virtual Status add(Block block) noexcept = 0;
  // No more blocks: waits until all are stored. The first failure, if there was one.
  virtual Status finish() noexcept = 0;
  // Ends it at any moment. Does not wait: the sink may be in the middle of a write.
  virtual void abandon() noexcept = 0;
  // From now on at most so many, 1 to PipelineOptions::workers; those beyond end after their block.
  virtual void set_workers(uint32_t most) noexcept = 0;
  virtual PipelineCounts counts() const = 0;
};

}  // namespace gpusnap
