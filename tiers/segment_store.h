// SPDX-License-Identifier: Apache-2.0
// Writes one rank's part of a checkpoint to its segments. Blocks are checked, compressed if that
// pays (compression/policy.h), and written. These stages overlap, like collect, compress and store
// in the PCCR paper (section III).
//
// Blocks wait for a worker in one queue. A worker gives a block the next free place in a segment,
// so blocks need not keep their order, and several writes are in flight. Uncompressed blocks are
// written from where they lie.
//
// One decision about compression is made for the blocks of a chunk that wait at the same time: a
// worker takes them out of the queue, samples all of them, and puts them back with the decision.
//
// A block is released after it is written and logged. If this process dies, the next backend
// therefore finds each block in a file that the log names, or where it was.
//
// Memory: `writes` buffers of a block each, and a compressor for each worker (compression/codec.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/clock.h"
#include "tiers/compression/policy.h"
#include "tiers/file_system.h"
#include "tiers/format.h"
#include "tiers/manifest.h"
#include "tiers/piece.h"
#include "tiers/placed_file.h"
#include "tiers/spawn.h"
#include "tiers/status.h"
#include "tiers/store_rate.h"

namespace gpusnap {

// The knowledge about compression that checkpoints share. Thread-safe.
struct Compression {
  Compression(CompressionSetting setting, Clock& clock_)
      : policy(setting), rate(clock_), clock(clock_) {}
  Policy policy;
  StoreRate rate;
  Clock& clock;
};

class SegmentStore {
 public:
  struct Identity {
    std::string job_folder_name;
    std::string run;
    uint64_t epoch = 0;
    uint32_t rank = 0;
  };
  // The location of a block.
  struct StoredBlock {
    uint64_t sequence = 0;
    bool in_chunk = false;
    uint32_t file = 0;            // number of the segment, or of the chunk
    std::vector<Extent> extents;  // with `file` as their segment
    // XXH3 64 of the stored bytes; in chunks only. 0 for uncompressed blocks: their extents have
    // checksums.
    uint64_t checksum = 0;

    uint64_t offset() const { return extents.front().segment_offset; }  // in the file
    uint64_t stored() const;                                            // bytes
  };
  struct Options {
    uint64_t segment_bytes = 4ULL << 30;  // exceeded by one block at most
    size_t block_bytes = 4 << 20;         // of the largest block
    uint64_t chunk_bytes = 64 << 20;      // the most bytes for one decision about compression
    uint32_t workers = 1;
    uint32_t writes = 8;         // in flight at the same time
    uint32_t first_segment = 0;  // the number in the name of the first segment
    // Called once if the store fails or is abandoned, by any thread, without a lock held; also by a
    // start() that fails.
    std::function<void(const Status& why)> on_failure;
    // Records where written blocks lie. Called by one thread at a time. A failure fails the store.
    std::function<Status(std::span<const StoredBlock>)> log;
    // A chunk takes no more blocks, for that reason; blocks that it did not take go to segments.
    // Called by any thread, without a lock held.
    std::function<void(const PlacedFile& chunk, const Status& why)> on_chunk_failure;
  };
  struct Block {
    uint64_t sequence = 0;             // its number, for the log
    std::vector<Piece> pieces;         // describe the bytes, one after the other
    std::span<const std::byte> bytes;  // must not change until released
    // Checks the bytes. A failure fails the store with that status. Called once, or never if the
    // store has failed before.
    std::function<Status(std::span<const std::byte>)> check;
    // Called exactly once, by any thread, without a lock held. `stored`: the block was written and
    // logged. Does not throw.
    std::function<void(bool stored)> release;
    // The chunk that the block goes to, as long as that takes blocks. Null: to a segment.
    std::shared_ptr<PlacedFile> chunk;
  };

  // `files` and `compression` outlive it. The folder is made with the first segment.
  static Result<std::unique_ptr<SegmentStore>> start(FileSystem& files, const std::string& folder,
                                                     const Identity& identity,
                                                     const Options& options,
                                                     Compression& compression, const Spawn& spawn);
  virtual ~SegmentStore() = default;  // waits for writes in flight; files stay

  // Does not wait: the caller bounds the number of blocks. Blocks that are added together are
  // sampled together (compression/sample.h). Any thread.
  virtual void add(std::vector<Block> blocks) noexcept = 0;
  // Ends the blocks, waits until all are durable in segments, though not the segments' names, and
  // returns the first failure. Called once, by one thread.
  virtual Status finish() noexcept = 0;
  // Ends the store at any moment, as a failure does. Does not wait. Any thread.
  virtual void abandon() noexcept = 0;
  // Returns the first failure so far. Any thread.
  virtual Status status() const = 0;
  // Removes all files that were made. After finish() or a failure. Ignores errors: files that stay
  // are pruned later.
  virtual void remove() noexcept = 0;

  // Reserves a place of that size in a segment for bytes that the caller writes before finish().
  struct Place {
    std::shared_ptr<PlacedFile> file;
    uint64_t offset = 0;
  };
  virtual Result<Place> take(uint64_t bytes) = 0;
  // Makes all bytes written so far durable, but not the files' names.
  virtual Status sync() = 0;

  // After finish(). Without extents of blocks in chunks. An extent's segment is the number in the
  // segment's name. There may be many extents: the caller may move them away.
  virtual std::vector<Extent>& extents() = 0;
  virtual const std::vector<SegmentRef>& segments() const = 0;
};

}  // namespace gpusnap
