// SPDX-License-Identifier: Apache-2.0
#include "tiers/segment_store.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <list>
#include <utility>

#include "tiers/block_extents.h"
#include "tiers/checksum.h"
#include "tiers/compression/sample.h"
#include "tiers/format.h"
#include "tiers/mutex.h"
#include "tiers/no_throw.h"
#include "tiers/segment_files.h"

namespace gpusnap {
namespace {

void release(SegmentStore::Block& block, bool stored) {
  if (block.release) block.release(stored);
  block = {};
}

class Writer final : public SegmentStore {
 public:
  Writer(FileSystem& files, const std::string& folder, const Identity& identity,
         const Options& options, Compression& compression, Spawn spawn)
      : options_(options),
        compression_(compression),
        spawn_(std::move(spawn)),
        segments_(files, folder, identity, options),
        workers_(options.workers) {
    spare_.reserve(options.writes);
  }

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() override {
    abandon();
    (void)end();
  }

  Status start() {
    const MutexLock lock(mutex_);
    return start_worker();
  }

  void add(std::vector<Block> blocks) noexcept override {
    std::list<Queued> queued;
    // All of them, or none if memory has run out.
    const Status listed = no_throw("queue blocks", [&] {
      queued.resize(blocks.size());
      auto to = queued.begin();
      for (Block& block : blocks) (to++)->block = std::exchange(block, {});
      return Status();
    });
    {
      const MutexLock lock(mutex_);
      if (!stopped_ && listed.ok()) {
        queue_.splice(queue_.end(), queued);
        // Running workers go on, so a worker that cannot be started is no failure.
        for (size_t i = 0; i < blocks.size() && wants_worker(); ++i) {
          if (!start_worker().ok()) break;
        }
        work_.notify_all();
        return;
      }
      stop(listed);
    }
    for (Block& block : blocks) release(block, false);
    for (Queued& each : queued) release(each.block, false);
  }

  Status finish() noexcept override {
    if (Status ended = end(); !ended.ok()) return ended;
    Status synced = no_throw("sync segments", [&] { return segments_.finish(); });
    const MutexLock lock(mutex_);
    stop(std::move(synced));
    return status_;
  }

  void abandon() noexcept override {
    const MutexLock lock(mutex_);
    stop({Code::kInvalid, "the checkpoint was abandoned"});
  }

  Status status() const override {
    const MutexLock lock(mutex_);
    return status_;
  }

  void remove() noexcept override {
    (void)no_throw("remove segments", [&] {
      segments_.remove();
      return Status();
    });
  }

  Result<Place> take(uint64_t bytes) override {
    Result<Place> place = segments_.take(bytes);
    if (place.ok()) write_header(*place->file, false);
    return place;
  }

  Status sync() override {
    return no_throw("sync segments", [&] { return segments_.sync(); });
  }

  std::vector<Extent>& extents() override { return extents_; }
  const std::vector<SegmentRef>& segments() const override { return segments_.refs(); }

 private:
  // Kept in a list, which moves it without an allocation that can fail.
  struct Queued {
    Block block;
    bool decided = false;                 // whether it is compressed
    std::shared_ptr<ChunkCourse> course;  // null: it is not
  };
  struct Worker {
    std::unique_ptr<Compressor> compressor;
    std::unique_ptr<Sampler> sampler;
    Join join;
  };
  // A block that is written and not logged yet.
  struct Written {
    StoredBlock block;
    PlacedFile* file = nullptr;
    std::function<void(bool)> release;
    Block again;  // for a block of a chunk: the block without chunk and release
  };
  // The form in which a block goes to its file.
  struct Stored {
    Form form = Form::kStored;
    std::span<const std::byte> bytes;
    std::byte* buffer = nullptr;  // that holds them, if they are compressed
  };

  bool wants_worker() const REQUIRES(mutex_) {
    return queue_.size() > idle_ && running_ < options_.workers;
  }

  // Releases the lock meanwhile.
  Status start_worker() REQUIRES(mutex_) {
    Worker& worker = workers_[running_++];
    Status started;
    {
      const Unlocked unlocked(mutex_);
      started = no_throw("start a worker", [&] { return start_thread_of(worker); });
    }
    if (!started.ok()) --running_;
    return started;
  }

  Status start_thread_of(Worker& worker) {
    if (Status ready = equip(worker); !ready.ok()) return ready;
    Result<Join> thread = start_thread(spawn_, "checkpoint", [this, &worker] { work(worker); });
    if (!thread.ok()) return thread.status();
    worker.join = std::move(thread.value());
    return {};
  }

  Status equip(Worker& worker) {
    const CodecOptions codec = compression_.policy.codec();
    auto compressor = Compressor::make(codec, options_.block_bytes);
    if (!compressor.ok()) return compressor.status();
    auto sampler = Sampler::make(codec, compression_.clock);
    if (!sampler.ok()) return sampler.status();
    worker.compressor = std::move(compressor.value());
    worker.sampler = std::move(sampler.value());
    return {};
  }

  void work(Worker& worker) noexcept {
    const MutexLock lock(mutex_);
    for (;;) {
      ++idle_;
      work_.wait(mutex_,
                 [&]() REQUIRES(mutex_) { return !queue_.empty() || wants_log() || is_over(); });
      --idle_;
      if (wants_log()) {
        log_written();
        continue;
      }
      if (queue_.empty()) return;
      if (!queue_.front().decided) {
        decide(worker);
        continue;
      }
      Queued next = std::move(queue_.front());
      queue_.pop_front();
      Status stored;
      {
        const Unlocked unlocked(mutex_);
        stored = no_throw("store a block", [&] { return store(worker, next); });
        // Does nothing if its write is in flight.
        release(next.block, false);
      }
      if (!stored.ok()) stop(stored);
    }
  }

  // Blocks are not logged before their file has its header.
  bool wants_log() const REQUIRES(mutex_) {
    return !logging_ && std::ranges::any_of(written_blocks_, is_ready);
  }
  static bool is_ready(const Written& written) { return written.file->has_header(); }
  bool is_over() const REQUIRES(mutex_) {
    return stopped_ ||
           (finished_ && deciding_ == 0 && on_way_ == 0 && written_blocks_.empty() && !logging_);
  }

  // Releases the lock meanwhile.
  void log_written() REQUIRES(mutex_) {
    std::vector<Written> ready;
    Status logged = no_throw("note where blocks lie", [&] {
      mutex_.assert_held();
      const auto first = std::stable_partition(written_blocks_.begin(), written_blocks_.end(),
                                               [](const Written& w) { return !is_ready(w); });
      ready.assign(std::move_iterator(first), std::move_iterator(written_blocks_.end()));
      written_blocks_.erase(first, written_blocks_.end());
      return Status();
    });
    logging_ = true;
    {
      const Unlocked unlocked(mutex_);
      if (logged.ok()) logged = no_throw("note where blocks lie", [&] { return log(ready); });
      for (Written& written : ready) written.release(logged.ok());
    }
    logging_ = false;
    if (!logged.ok()) stop(logged);
    work_.notify_all();
    written_.notify_all();
  }

  Status log(const std::vector<Written>& ready) {
    std::vector<StoredBlock> blocks;
    blocks.reserve(ready.size());
    for (const Written& written : ready) blocks.push_back(written.block);
    if (options_.log) {
      if (Status logged = options_.log(blocks); !logged.ok()) return logged;
    }
    const MutexLock lock(mutex_);
    for (StoredBlock& block : blocks) {
      if (!block.in_chunk) std::ranges::move(block.extents, std::back_inserter(extents_));
    }
    return {};
  }

  Status store(Worker& worker, Queued& queued) {
    Block& block = queued.block;
    if (block.chunk && block.chunk->has_failed()) block.chunk.reset();
    if (Status good = check(block); !good.ok()) return good;
    const Result<Stored> packed = pack(worker, block, queued.course.get());
    if (!packed.ok()) return packed.status();
    StoredBlock described{block.sequence, block.chunk != nullptr, 0,
                          describe_block(block.pieces, block.bytes, packed->form), 0};
    if (block.chunk) {
      const bool is_known = packed->form == Form::kStored && described.extents.size() == 1 &&
                            described.extents[0].parts.empty();
      described.checksum = is_known ? described.extents[0].checksum : checksum(packed->bytes);
    }
    const Result<Place> place = place_for(block, packed->bytes.size());
    if (!place.ok()) {
      give_back(packed->buffer);
      return place.status();
    }
    put(described, place.value(), packed.value());
    auto written =
        std::make_shared<Written>(Written{std::move(described), place->file.get(), {}, {}});
    const bool is_flush = block.chunk == nullptr;
    written->release = std::exchange(block.release, nullptr);
    if (!is_flush) {
      written->again = {block.sequence, std::move(block.pieces), block.bytes, {}, {}, {}};
    }
    write(*place->file, place->offset, packed->bytes, is_flush,
          [this, written, buffer = packed->buffer](const Status& status) {
            give_back(buffer);
            const bool is_diverted = !status.ok() && written->block.in_chunk;
            return is_diverted ? divert(*written, status) : note_written(*written, status);
          });
    return {};
  }

  // The chunk did not take the block: its bytes are where they were, and go to a segment.
  Status divert(Written& written, const Status& why) {
    fail_chunk(*written.file, why);
    Block block = std::exchange(written.again, {});
    block.release = std::exchange(written.release, nullptr);
    Status queued = put_back(block);
    // A worker is there: the write in flight keeps it.
    work_.notify_one();
    if (!queued.ok()) release(block, false);
    return queued;
  }

  Status put_back(Block& block) {
    const MutexLock lock(mutex_);
    if (stopped_) return status_;
    return no_throw("queue a block", [&] {
      mutex_.assert_held();
      queue_.emplace_back().block = std::move(block);
      return Status();
    });
  }

  void fail_chunk(PlacedFile& chunk, const Status& why) {
    if (chunk.fail() && options_.on_chunk_failure) options_.on_chunk_failure(chunk, why);
  }

  Result<Place> place_for(const Block& block, uint64_t bytes) {
    if (block.chunk == nullptr) return take(bytes);
    write_header(*block.chunk, true);
    return Place{block.chunk, block.chunk->take(bytes)};
  }

  void write_header(PlacedFile& file, bool is_chunk) {
    if (!file.begin_header()) return;
    write(file, 0, file.header(), false, [this, &file, is_chunk](const Status& status) {
      if (!status.ok() && !is_chunk) return status;
      // Only the log finds blocks in a chunk: without a header only the chunk fails.
      if (!status.ok()) fail_chunk(file, status);
      const MutexLock lock(mutex_);
      file.header_written();
      work_.notify_all();
      return Status();
    });
  }

  // Lets a worker log the block.
  Status note_written(Written& written, const Status& status) {
    Status noted = !status.ok() ? status : no_throw("store a block", [&] {
      const MutexLock lock(mutex_);
      written_blocks_.push_back(std::move(written));
      return Status();
    });
    if (noted.ok()) {
      work_.notify_one();
    } else {
      written.release(false);
    }
    return noted;
  }

  Status check(const Block& block) const {
    if (!are_bytes_of(block.pieces, block.bytes.size())) {
      return {Code::kInvalid, "cannot write a checkpoint: the pieces are not the slot's bytes"};
    }
    return block.check ? block.check(block.bytes) : Status();
  }

  Result<Stored> pack(Worker& worker, const Block& block, ChunkCourse* course) {
    const Form form = course != nullptr ? course->next() : Form::kStored;
    if (form == Form::kStored) return Stored{form, block.bytes, nullptr};
    std::byte* buffer = take_buffer();
    if (buffer == nullptr) return status();
    const int64_t start = compression_.clock.now_ns();
    const auto size =
        worker.compressor->compress(form, block.bytes, {buffer, block.bytes.size() - 1});
    const bool shrank = size.ok() && size.value() > 0;
    if (size.ok()) {
      course->done({block.bytes.size(), shrank ? size.value() : block.bytes.size(),
                    compression_.clock.now_ns() - start},
                   compression_.rate.share());
    }
    if (shrank) return Stored{form, {buffer, size.value()}, buffer};
    give_back(buffer);
    if (!size.ok()) return size.status();
    return Stored{Form::kStored, block.bytes, nullptr};
  }

  // Decides for the first block in the queue and for the undecided ones after it, a chunk's at
  // most. Releases the lock meanwhile; until it is done, no other thread has these blocks.
  void decide(Worker& worker) noexcept REQUIRES(mutex_) {
    std::list<Queued> group;
    // While the store's throughput is not known, one block at a time.
    const size_t most = compression_.rate.share() > 0 ? blocks_per_chunk() : 1;
    auto end = queue_.begin();
    for (size_t i = 0; i < most && end != queue_.end() && !end->decided; ++i) ++end;
    group.splice(group.begin(), queue_, queue_.begin(), end);
    ++deciding_;
    {
      const Unlocked unlocked(mutex_);
      decide_for(group, worker);
    }
    --deciding_;
    if (!stopped_) queue_.splice(queue_.begin(), group);
    work_.notify_all();
    if (group.empty()) return;
    const Unlocked unlocked(mutex_);
    for (Queued& each : group) release(each.block, false);
  }

  void decide_for(std::list<Queued>& group, Worker& worker) noexcept {
    std::shared_ptr<ChunkCourse> course;
    // Without a decision they are stored uncompressed, which is right, too.
    (void)no_throw("sample blocks", [&] {
      course = course_of(worker, group);
      return Status();
    });
    for (Queued& each : group) {
      each.course = course;
      each.decided = true;
    }
  }

  // Null: the blocks are stored uncompressed.
  std::shared_ptr<ChunkCourse> course_of(Worker& worker, const std::list<Queued>& group) {
    const Situation chunk = situation_of(group);
    if (!compression_.policy.wants_sample(chunk)) return nullptr;
    std::vector<std::span<const std::byte>> blocks;
    blocks.reserve(group.size());
    for (const Queued& each : group) blocks.push_back(each.block.bytes);
    const auto sample = worker.sampler->take(blocks);
    const Decision decision =
        compression_.policy.decide(chunk, sample.ok() ? sample.value() : Sample());
    if (decision.form == Form::kStored) return nullptr;
    return std::make_shared<ChunkCourse>(compression_.policy, chunk, decision);
  }

  // A single block counts as one of a chunk that comes block by block, with equal blocks.
  Situation situation_of(const std::list<Queued>& group) {
    uint64_t bytes = 0;
    for (const Queued& each : group) bytes += each.block.bytes.size();
    const uint64_t block_bytes = (bytes + group.size() - 1) / group.size();
    return {group.size() > 1 ? bytes : blocks_per_chunk() * bytes, block_bytes, options_.workers,
            compression_.rate.share(), compression_.rate.busy_seconds()};
  }

  uint64_t blocks_per_chunk() const {
    return std::max<uint64_t>(options_.chunk_bytes / options_.block_bytes, 1);
  }

  static void put(StoredBlock& block, const Place& place, const Stored& stored) {
    block.file = place.file->number();
    const uint64_t bytes = block.extents.back().within + block.extents.back().size;
    for (Extent& extent : block.extents) {
      extent.segment = block.file;
      extent.segment_offset = place.offset;
      extent.form = stored.form;
      if (stored.form == Form::kStored) {
        extent.segment_offset += std::exchange(extent.within, 0);
      } else {
        extent.block_stored = stored.bytes.size();
        extent.block_bytes = bytes;
      }
    }
  }

  // `then` is called when the bytes are not needed any more, without a lock held; a failure that it
  // returns fails the store. `is_flush`: the write measures the throughput of the store. A write in
  // flight does not own the file: closing a file waits for its writes.
  void write(PlacedFile& file, uint64_t offset, std::span<const std::byte> bytes, bool is_flush,
             std::function<Status(const Status&)> then) {
    {
      const MutexLock lock(mutex_);
      written_.wait(mutex_, [&]() REQUIRES(mutex_) { return on_way_ < options_.writes; });
      ++on_way_;
      if (is_flush && ++flushes_on_way_ == 1) compression_.rate.enter();
    }
    if (is_flush) compression_.rate.begun(bytes.size());
    file.file().write(offset, bytes,
                      [this, is_flush, bytes = bytes.size(),
                       then = std::move(then)](const Status& status) mutable {
                        if (is_flush) compression_.rate.ended(bytes, status.ok());
                        const Status whole = then(status);
                        then = nullptr;  // destroys its captures while the file still exists
                        const MutexLock lock(mutex_);
                        if (!whole.ok()) stop(whole);
                        --on_way_;
                        if (is_flush && --flushes_on_way_ == 0) compression_.rate.leave();
                        // Under the lock: a waiter for the last write may destroy the store.
                        work_.notify_all();
                        written_.notify_all();
                      });
  }

  // Null if the store has failed meanwhile.
  std::byte* take_buffer() {
    const MutexLock lock(mutex_);
    written_.wait(mutex_,
                  [&]() REQUIRES(mutex_) { return buffers_out_ < options_.writes || stopped_; });
    if (stopped_) return nullptr;
    ++buffers_out_;
    if (spare_.empty()) {
      // Not initialised.
      buffers_.emplace_back(new std::byte[options_.block_bytes]);
      return buffers_.back().get();
    }
    std::byte* buffer = spare_.back();
    spare_.pop_back();
    return buffer;
  }

  void give_back(std::byte* buffer) {
    if (buffer == nullptr) return;
    const MutexLock lock(mutex_);
    spare_.push_back(buffer);  // within its reserved capacity
    --buffers_out_;
    written_.notify_all();
  }

  // Releases waiting blocks at once. Releases the lock meanwhile.
  void stop(Status status) noexcept REQUIRES(mutex_) {
    if (stopped_ || status.ok()) return;
    stopped_ = true;
    status_ = std::move(status);
    work_.notify_all();
    written_.notify_all();
    while (!queue_.empty()) {
      Block block = std::move(queue_.front().block);
      queue_.pop_front();
      const Unlocked unlocked(mutex_);
      release(block, false);
    }
    const Status why = status_;
    const Unlocked unlocked(mutex_);
    if (options_.on_failure) options_.on_failure(why);
  }

  // Ends the blocks and waits until no write is in flight.
  Status end() noexcept {
    {
      const MutexLock lock(mutex_);
      finished_ = true;
      work_.notify_all();
    }
    for (Worker& worker : workers_) {
      if (worker.join) std::exchange(worker.join, {})();
    }
    const MutexLock lock(mutex_);
    written_.wait(mutex_, [&]() REQUIRES(mutex_) { return on_way_ == 0; });
    // After a failure these blocks are not logged.
    std::vector<Written> left = std::exchange(written_blocks_, {});
    {
      const Unlocked unlocked(mutex_);
      for (Written& written : left) written.release(false);
    }
    return status_;
  }

  const Options options_;
  Compression& compression_;
  const Spawn spawn_;
  SegmentFiles segments_;

  mutable Mutex mutex_;
  ConditionVariable work_;     // for a worker
  ConditionVariable written_;  // a write has ended, a buffer is free
  std::list<Queued> queue_ GUARDED_BY(mutex_);
  std::vector<Worker> workers_;  // the vector itself does not change
  uint32_t running_ GUARDED_BY(mutex_) = 0;
  uint32_t idle_ GUARDED_BY(mutex_) = 0;
  uint32_t deciding_ GUARDED_BY(mutex_) = 0;  // workers that hold a group
  std::vector<std::unique_ptr<std::byte[]>> buffers_ GUARDED_BY(mutex_);
  std::vector<std::byte*> spare_ GUARDED_BY(mutex_);
  uint32_t buffers_out_ GUARDED_BY(mutex_) = 0;
  uint32_t on_way_ GUARDED_BY(mutex_) = 0;                  // writes
  uint32_t flushes_on_way_ GUARDED_BY(mutex_) = 0;          // of those, to segments
  std::vector<Written> written_blocks_ GUARDED_BY(mutex_);  // not logged yet
  bool logging_ GUARDED_BY(mutex_) = false;                 // a worker logs blocks
  std::vector<Extent> extents_;               // under the lock until finish() has returned
  bool finished_ GUARDED_BY(mutex_) = false;  // no more blocks
  bool stopped_ GUARDED_BY(mutex_) = false;   // after a failure
  Status status_ GUARDED_BY(mutex_);          // the first failure
};

}  // namespace

uint64_t SegmentStore::StoredBlock::stored() const {
  const Extent& last = extents.back();
  if (last.form != Form::kStored) return last.block_stored;
  return last.segment_offset + last.size - offset();
}

Result<std::unique_ptr<SegmentStore>> SegmentStore::start(
    FileSystem& files, const std::string& folder, const Identity& identity, const Options& options,
    Compression& compression, const Spawn& spawn) {
  using Started = Result<std::unique_ptr<SegmentStore>>;
  return no_throw("start writing a checkpoint", [&]() -> Started {
    auto store = std::make_unique<Writer>(files, folder, identity, options, compression, spawn);
    if (Status started = store->start(); !started.ok()) return started;
    return std::unique_ptr<SegmentStore>(std::move(store));
  });
}

}  // namespace gpusnap
