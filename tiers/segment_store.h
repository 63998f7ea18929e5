// SPDX-License-Identifier: Apache-2.0
// The way of one rank's part of a checkpoint into its segments: blocks are looked at, compressed
// where that pays (compression/policy.h), and written, at the same time; the stages of the PCCR
// paper (section III), collect, compress and store, overlap.
//
// There is one queue, of blocks that wait for a worker: a worker gives the block the next free
// place in a segment, so nothing has to come out in the order in which it went in, and writes are
// on their way side by side. Blocks that are not compressed are written from where they lie.
//
// Whether blocks are compressed is decided for those of a chunk that wait at the same time: a
// worker takes them out of the queue, samples all of them, and puts them back with the decision.
//
// A block is released when it is written and logged, so that whoever comes after this process,
// should it die, finds each block in a file that the log names, or where it was.
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

// Knowledge about compression that checkpoints share. Thread-safe.
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
  // Where a block lies.
  struct StoredBlock {
    uint64_t sequence = 0;
    bool in_chunk = false;
    uint32_t file = 0;            // number of the segment, or of the chunk
    std::vector<Extent> extents;  // their segments are that number
    // XXH3 64 of the bytes as they are stored; in chunks only. 0 where they are stored as they are:
    // those of the extents count.
    uint64_t checksum = 0;

    uint64_t offset() const { return extents.front().segment_offset; }  // in the file
    uint64_t stored() const;                                            // bytes
  };
  struct Options {
    uint64_t segment_bytes = 4ULL << 30;  // a block more, at most
    size_t block_bytes = 4 << 20;         // of the largest block
    uint64_t chunk_bytes = 64 << 20;      // whether to compress is decided for so much at most
    uint32_t workers = 1;
    uint32_t writes = 8;         // on their way at the same time
    uint32_t first_segment = 0;  // the number in the first one's name
    // Called once where it fails or is abandoned, by any thread, without a lock held; also by a
    // start() that fails, before anybody has the store.
    std::function<void(const Status& why)> on_failure;
    // Notes for good (as far as this process goes) where blocks lie, in a file and with its bytes
    // written. By one thread at a time. Not ok fails the whole.
    std::function<Status(std::span<const StoredBlock>)> log;
    // A chunk takes nothing more, for that reason: what it did not take goes to segments. By any
    // thread, without a lock held.
    std::function<void(const PlacedFile& chunk, const Status& why)> on_chunk_failure;
  };
  struct Block {
    uint64_t sequence = 0;             // its number; the log's business
    std::vector<Piece> pieces;         // whose bytes these are, one after the other
    std::span<const std::byte> bytes;  // stay as they are until released
    // Not ok fails the whole, with that status. Called once, or never where it has failed before.
    std::function<Status(std::span<const std::byte>)> check;
    // Called exactly once, by any thread, without a lock held. Whether it was written and logged.
    // Does not throw.
    std::function<void(bool stored)> release;
    // Where it goes to, as long as that takes it; null: a segment.
    std::shared_ptr<PlacedFile> chunk;
  };

  // `files`, `compression` outlive it. The folder is made with the first segment.
  static Result<std::unique_ptr<SegmentStore>> start(FileSystem& files, const std::string& folder,
                                                     const Identity& identity,
                                                     const Options& options,
                                                     Compression& compression, const Spawn& spawn);
  virtual ~SegmentStore() = default;  // waits for what is on its way; files stay

  // Does not wait: whoever has blocks bounds their number. Blocks that are added together are
  // sampled together (compression/sample.h). Any thread.
  virtual void add(std::vector<Block> blocks) noexcept = 0;
  // No more blocks: waits until all are in segments, and durable; their names are not. The first
  // failure, if there was one. Once; one thread.
  virtual Status finish() noexcept = 0;
  // Ends it at any moment, as a failure does. Does not wait. Any thread.
  virtual void abandon() noexcept = 0;
  // Whether anything has failed; any thread.
  virtual Status status() const = 0;
  // After finish(), or the end of a failure: removes all files that were made. Errors are of no
  // consequence: what stays is pruned later.
  virtual void remove() noexcept = 0;

  // A place for so many bytes in a segment, for whoever writes them there itself: they have to be
  // written before finish().
  struct Place {
    std::shared_ptr<PlacedFile> file;
    uint64_t offset = 0;
  };
  virtual Result<Place> take(uint64_t bytes) = 0;
  // Makes all that has been written so far durable, but not the files' names.
  virtual Status sync() = 0;

  // After finish(). Extents of blocks in chunks are not among them. An extent's segment is the
  // number in its segment's name. There are many extents: the caller may move them away.
  virtual std::vector<Extent>& extents() = 0;
  virtual const std::vector<SegmentRef>& segments() const = 0;
};

}  // namespace gpusnap
