// SPDX-License-Identifier: Apache-2.0
#include "tiers/merge.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "tiers/chain.h"
#include "tiers/mutex.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/part_reader.h"
#include "tiers/pending_manifest.h"

namespace gpusnap {

namespace {

// All ranges of a manifest one after the other: the line of bytes.
class Line {
 public:
  explicit Line(const std::vector<SavedRange>& ranges) : ranges_(ranges) {
    for (const SavedRange& range : ranges) {
      begins_.push_back(size_);
      size_ += range.size;
    }
  }

  uint64_t size() const { return size_; }
  uint64_t place(uint32_t range, uint64_t offset) const { return begins_[range] + offset; }
  uint64_t place(const PlacedExtent& piece) const { return place(piece.range, piece.offset); }

  // Returns the pieces from one place to another.
  std::vector<Piece> pieces(uint64_t begin, uint64_t end) const {
    std::vector<Piece> pieces;
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
    for (auto range = static_cast<uint32_t>(after - begins_.begin() - 1); begin < end; ++range) {
      const uint64_t offset = begin - begins_[range];
      const uint64_t size = std::min(end - begin, ranges_[range].size - offset);
      if (size > 0) pieces.push_back({range, offset, size});
      begin += size;
    }
    return pieces;
  }

 private:
  const std::vector<SavedRange>& ranges_;
  std::vector<uint64_t> begins_;
  uint64_t size_ = 0;
};

// The memory of some blocks, and the number of blocks that are still being written.
struct Window {
  std::vector<std::byte> bytes;
  size_t in_use = 0;
};

// State of the writing. After a failure, blocks are in use until all writes have ended.
struct Progressing {
  Mutex mutex;
  ConditionVariable changed;
  bool failed GUARDED_BY(mutex) = false;

  void fail() {
    const MutexLock lock(mutex);
    failed = true;
    changed.notify_all();
  }
};

// Writes the bytes of a chain to blocks of a segment store in the order of the line, so that bytes
// that increments have scattered lie together again.
class Rewriter {
 public:
  Rewriter(FileSystem& files, const MergeRequest& request, const std::vector<Manifest>& chain,
           std::vector<PlacedExtent> pieces, SegmentStore& segments, Progressing& progressing,
           const Spawn& spawn)
      : files_(files),
        request_(request),
        chain_(chain),
        line_(chain.front().ranges),
        pieces_(std::move(pieces)),
        segments_(segments),
        progressing_(progressing) {
    options_.spawn = spawn;
    options_.reads = kReads;
    const auto place = [this](const PlacedExtent& piece) { return line_.place(piece); };
    std::sort(pieces_.begin(), pieces_.end(),
              [&](const auto& a, const auto& b) { return place(a) < place(b); });
  }

  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;
  ~Rewriter() {
    if (finished_) return;
    segments_.abandon();
    (void)segments_.finish();
  }

  // Returns false if it was stopped.
  Result<bool> run() {
    const uint64_t block = request_.segments.block_bytes;
    const uint64_t step = std::max<uint64_t>(request_.window_bytes / block, 1) * block;
    bool stopped = false;
    Status status;
    size_t turn = 0;
    for (uint64_t at = 0; at < line_.size() && status.ok() && !stopped; at += step) {
      stopped = request_.stop && request_.stop();
      Window& window = windows_[turn++ % windows_.size()];
      wait_for(window);
      status = segments_.status();
      if (status.ok() && !stopped) status = fill(window, at, std::min(at + step, line_.size()));
    }
    if (stopped || !status.ok()) segments_.abandon();
    finished_ = true;
    const Status finished = segments_.finish();
    if (stopped) return false;
    if (!status.ok()) return status;
    if (!finished.ok()) return finished;
    return true;
  }

 private:
  static constexpr uint32_t kReads = 8;  // the program goes on meanwhile

  void wait_for(Window& window) {
    const MutexLock lock(progressing_.mutex);
    progressing_.changed.wait(progressing_.mutex, [&]() REQUIRES(progressing_.mutex) {
      return window.in_use == 0 || progressing_.failed;
    });
  }

  Status fill(Window& window, uint64_t begin, uint64_t end) {
    window.bytes.resize(end - begin);
    const std::vector<PlacedExtent> wanted = pieces_within(begin, end);
    Status read = read_pieces(
        files_, request_.job, chain_, wanted, options_, buffers_,
        [&](std::span<const ReadPiece> pieces, std::span<const std::byte> bytes) {
          for (const ReadPiece& piece : pieces) {
            const uint64_t place = line_.place(piece.range, piece.offset);
            std::memcpy(window.bytes.data() + (place - begin), bytes.data() + piece.at, piece.size);
          }
          return Status();
        });
    if (!read.ok()) return read;
    std::vector<SegmentStore::Block> blocks;
    for (uint64_t at = begin; at < end; at += request_.segments.block_bytes) {
      const uint64_t block_end = std::min<uint64_t>(at + request_.segments.block_bytes, end);
      blocks.push_back(block_of(window, begin, at, block_end));
    }
    {
      const MutexLock lock(progressing_.mutex);
      window.in_use += blocks.size();
    }
    segments_.add(std::move(blocks));
    return {};
  }

  // Returns the pieces, or parts of them, from one place to another, in the order of the files.
  std::vector<PlacedExtent> pieces_within(uint64_t begin, uint64_t end) {
    std::vector<PlacedExtent> found;
    for (; next_ < pieces_.size() && line_.place(pieces_[next_]) < end; ++next_) {
      PlacedExtent piece = pieces_[next_];
      const uint64_t place = line_.place(piece);
      const uint64_t skipped = std::max(begin, place) - place;
      piece.within += skipped;
      piece.offset += skipped;
      piece.size = std::min(end - place, piece.size) - skipped;
      found.push_back(piece);
      if (place + pieces_[next_].size > end) break;  // the rest is the next window's
    }
    const auto file_place = [this](const PlacedExtent& piece) {
      const Extent& extent = chain_[piece.member].extents[piece.extent];
      return std::tuple(piece.member, extent.segment, extent.segment_offset, piece.extent,
                        piece.within);
    };
    std::sort(found.begin(), found.end(),
              [&](const auto& a, const auto& b) { return file_place(a) < file_place(b); });
    return found;
  }

  SegmentStore::Block block_of(Window& window, uint64_t window_begin, uint64_t begin,
                               uint64_t end) {
    SegmentStore::Block block;
    block.pieces = line_.pieces(begin, end);
    block.bytes = std::span(window.bytes).subspan(begin - window_begin, end - begin);
    block.release = [this, &window](bool) {
      const MutexLock lock(progressing_.mutex);
      --window.in_use;
      progressing_.changed.notify_all();
    };
    return block;
  }

  FileSystem& files_;
  const MergeRequest& request_;
  const std::vector<Manifest>& chain_;
  const Line line_;
  std::vector<PlacedExtent> pieces_;  // by their places in the line
  size_t next_ = 0;                   // of those, for the next window
  SegmentStore& segments_;
  PartReaderOptions options_;
  PlainReadBuffers buffers_{kReads};
  Progressing& progressing_;
  bool finished_ = false;
  std::array<Window, 2> windows_;  // one is filled while the other is written
};

class Merge {
 public:
  Merge(FileSystem& files, const MergeRequest& request, Compression& compression,
        const Spawn& spawn)
      : files_(files),
        request_(request),
        compression_(compression),
        spawn_(spawn),
        folder_(request.job.folder + "/" + epoch_folder(request.epoch)) {}

  Result<bool> run() {
    if (Result<bool> worth = look(); !worth.ok() || !worth.value()) return worth;
    // The lock tells files of a running merge from those of a killed one.
    const auto lock = files_.lock(request_.job.folder + "/" + merge_lock_name(request_.rank));
    if (lock.status().code() == Code::kBusy) return false;
    if (!lock.ok()) return lock.status();
    // Another process may have merged it meanwhile.
    if (Result<bool> worth = look(); !worth.ok() || !worth.value()) return worth;
    return rewrite();
  }

 private:
  // Returns whether the merge is worth it. Reads the chain.
  Result<bool> look() {
    chain_.clear();
    Result<StoredManifest> stored = read();
    if (!stored.ok()) return stored.status();
    if (stored->manifest.parent == 0) return false;
    replaced_ = stored->checksum;
    chain_.push_back(std::move(stored->manifest));
    if (Status chained = read_chain(files_, request_.job, chain_); !chained.ok()) {
      // If the checkpoint is being pruned, its ancestors may be removed already.
      const auto still = read();
      return still.ok() ? chained : still.status();
    }
    Result<std::vector<PlacedExtent>> pieces = place_extents(chain_);
    if (!pieces.ok()) return pieces.status();
    pieces_ = std::move(pieces.value());
    return is_long(chain_.size() - 1) || is_much(read_bytes(chain_, pieces_));
  }

  Result<StoredManifest> read() const {
    return read_manifest(files_, request_.job.folder, request_.job.folder_name, request_.epoch,
                         request_.rank);
  }

  bool is_long(uint64_t ancestors) const {
    return ancestors >= std::max<uint64_t>(request_.chain_limit / 2, 1);
  }

  bool is_much(uint64_t read) const {
    const auto memory = static_cast<double>(chain_.front().bytes());
    return static_cast<double>(read) > request_.most_read * memory;
  }

  Result<bool> rewrite() {
    if (Status named = choose_run(); !named.ok()) return named;
    Progressing progressing;
    SegmentStore::Options options = request_.segments;
    options.on_failure = [&progressing](const Status&) { progressing.fail(); };
    auto segments = SegmentStore::start(
        files_, folder_, {request_.job.folder_name, run_, request_.epoch, request_.rank}, options,
        compression_, spawn_);
    if (!segments.ok()) return segments.status();
    SegmentStore& store = *segments.value();
    Result<bool> done =
        Rewriter(files_, request_, chain_, std::move(pieces_), store, progressing, spawn_).run();
    PendingManifest pending(files_, folder_, request_.rank, run_);
    Status published;
    if (done.ok() && done.value()) published = publish(store, pending);
    if (done.ok() && done.value() && published.ok()) return true;
    // Only if no manifest names the new segments, even after a crash.
    if (pending.take_back()) store.remove();
    if (!published.ok()) return published;
    return done;
  }

  // The names of the new segments differ from all earlier ones, including those of a killed merge.
  Status choose_run() {
    const Result<std::vector<FolderEntry>> entries = files_.entries(folder_);
    if (!entries.ok()) return entries.status();
    for (uint32_t number = 1;; ++number) {
      run_ = chain_.front().run.substr(0, 48) + "m" + std::to_string(number);
      const bool taken = std::any_of(entries->begin(), entries->end(), [this](const auto& entry) {
        const auto segment = parse_segment_name(entry.name);
        return (segment && segment->rank == request_.rank && segment->run == run_) ||
               entry.name == temporary_manifest_name(request_.rank, run_);
      });
      if (!taken) return {};
    }
  }

  Status publish(SegmentStore& segments, PendingManifest& pending) {
    Manifest merged = chain_.front();
    merged.extents = std::move(segments.extents());
    merged.segments = segments.segments();
    merged.parent = merged.parent_checksum = merged.chain = 0;
    merged.replaces = replaced_;
    for (SavedRange& range : merged.ranges) range.fresh = false;
    const std::vector<std::byte> bytes = encode(merged);
    // Does not write a manifest that readers would refuse.
    const auto read_back = decode_manifest(bytes);
    if (!read_back.ok()) {
      return {Code::kInvalid, "cannot merge " + folder_ + ": " + read_back.status().message()};
    }
    if (Status written = pending.write(bytes); !written.ok()) return written;
    // Now the segments' names are durable, too.
    if (Status synced = files_.sync_folder(folder_); !synced.ok()) return synced;
    // Does not bring back a checkpoint that has been pruned meanwhile.
    if (const auto still = read(); !still.ok()) return still.status();
    return pending.replace();
  }

  FileSystem& files_;
  const MergeRequest& request_;
  Compression& compression_;
  const Spawn& spawn_;
  const std::string folder_;
  std::string run_;  // of the new segments
  uint64_t replaced_ = 0;
  std::vector<Manifest> chain_;
  std::vector<PlacedExtent> pieces_;  // of chain_
};

}  // namespace

Result<bool> merge_if_worth(FileSystem& files, const MergeRequest& request,
                            Compression& compression, const Spawn& spawn) {
  return no_throw("merge a checkpoint",
                  [&] { return Merge(files, request, compression, spawn).run(); });
}

}  // namespace gpusnap
