#include "tiers/compression/pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tiers/checksum.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

void release(Block& block) {
  if (block.release) block.release();
  block = {};
}

std::unique_ptr<std::byte[]> buffer_of(size_t bytes) {
  // Not touched before it is used.
  return std::unique_ptr<std::byte[]>(new std::byte[bytes]);
}

// Puts what comes out together into large writes.
class Writes {
 public:
  Writes(BlockSink& sink, size_t write_bytes)
      : sink_(sink), size_(write_bytes), buffer_(buffer_of(write_bytes)) {}

  // What makes up whole writes goes straight from `bytes`.
  Status append(std::span<const std::byte> bytes) {
    offset_ += bytes.size();
    while (!bytes.empty()) {
      if (used_ == 0 && bytes.size() >= size_) {
        const size_t whole = bytes.size() / size_ * size_;
        if (Status written = sink_.append(bytes.first(whole)); !written.ok()) return written;
        bytes = bytes.subspan(whole);
        continue;
      }
      const size_t part = std::min(bytes.size(), size_ - used_);
      std::memcpy(buffer_.get() + used_, bytes.data(), part);
      used_ += part;
      bytes = bytes.subspan(part);
      if (used_ < size_) break;
      if (Status written = flush(); !written.ok()) return written;
    }
    return {};
  }

  Status finish() {
    if (Status written = flush(); !written.ok()) return written;
    return sink_.done();
  }

  uint64_t offset() const { return offset_; }  // of what is appended next

 private:
  Status flush() {
    if (used_ == 0) return {};
    return sink_.append({buffer_.get(), std::exchange(used_, 0)});
  }

  BlockSink& sink_;
  const size_t size_;
  const std::unique_ptr<std::byte[]> buffer_;
  size_t used_ = 0;
  uint64_t offset_ = 0;
};

// A place in the second ring. Its taker's own until it is ready, then the store thread's.
struct ResultPlace {
  std::unique_ptr<std::byte[]> buffer;
  bool ready = false;
  Block block;  // what is stored as it is keeps its bytes until then
  std::span<const std::byte> bytes;
  PackedBlock packed;
};

class Pipeline final : public CompressionPipeline {
 public:
  Pipeline(const PipelineOptions& options, BlockSink& sink, Clock& clock, Spawn spawn,
           Packed packed)
      : options_(options),
        clock_(clock),
        spawn_(std::move(spawn)),
        packed_(std::move(packed)),
        writes_(sink, options.write_bytes),
        waiting_(options.queue_blocks),
        results_(options.result_blocks),
        workers_(options.workers),
        most_workers_(options.workers) {
    for (ResultPlace& place : results_) place.buffer = buffer_of(options.block_bytes);
  }

  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline() override {
    abandon();
    join();
  }

  Status start() {
    Result<Join> store = start_thread(spawn_, "store", [this] { store_all(); });
    if (!store.ok()) return store.status();
    join_store_ = std::move(store.value());
    std::unique_lock lock(mutex_);
    return start_worker(lock);
  }

  Status add(Block block) noexcept override {
    std::unique_lock lock(mutex_);
    if (block.bytes.empty() || block.bytes.size() > options_.block_bytes) {
      stop(lock, no_block(block.bytes.size()));
    } else if (finished_) {
      stop(lock, {Code::kInvalid, "a block was added to a stream that had ended"});
    }
    room_.wait(lock, [&] { return stopped_ || added_ - taken_ < waiting_.size(); });
    if (stopped_) {
      const Status status = status_;
      lock.unlock();
      release(block);
      return status;
    }
    waiting_[added_++ % waiting_.size()] = std::move(block);
    if (takeable() > idle_ && running_ < most_workers_) {
      // Those that are there go on, so that there is no other is no failure.
      (void)start_worker(lock);
    }
    work_.notify_one();
    return {};
  }

  Status finish() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      finished_ = true;
      work_.notify_all();
      ready_.notify_all();
    }
    join();
    const std::lock_guard lock(mutex_);
    return status_;
  }

  void abandon() noexcept override {
    std::unique_lock lock(mutex_);
    if (!ended_) stop(lock, {Code::kInvalid, "the stream was abandoned"});
  }

  void set_workers(uint32_t most) noexcept override {
    const std::lock_guard lock(mutex_);
    most_workers_ = std::clamp(most, 1U, options_.workers);
    work_.notify_all();
  }

  PipelineCounts counts() const override {
    const std::lock_guard lock(mutex_);
    PipelineCounts counts = counts_;
    counts.workers = running_;
    return counts;
  }

 private:
  struct Worker {
    std::unique_ptr<Compressor> compressor;
    Join join;  // called, or about to be, when it does not run any more
    bool running = false;
  };

  Status no_block(size_t bytes) const {
    return {Code::kInvalid, "cannot compress a block of " + std::to_string(bytes) +
                                " bytes: this stream takes 1 to " +
                                std::to_string(options_.block_bytes)};
  }

  // Blocks that wait and have a place in the second ring.
  uint64_t takeable() const { return std::min(added_, stored_ + results_.size()) - taken_; }

  // By the thread that adds. Lets the lock go meanwhile.
  Status start_worker(std::unique_lock<std::mutex>& lock) noexcept {
    const auto free = std::find_if(workers_.begin(), workers_.end(),
                                   [](const Worker& worker) { return !worker.running; });
    free->running = true;
    ++running_;
    lock.unlock();
    Status started = no_throw("start a compression worker", [&]() -> Status {
      if (free->join) std::exchange(free->join, {})();
      if (!free->compressor) {
        auto made = Compressor::make(options_.codec, options_.block_bytes);
        if (!made.ok()) return made.status();
        free->compressor = std::move(made.value());
      }
      Result<Join> thread =
          start_thread(spawn_, "compression", [this, &worker = *free] { work(worker); });
      if (!thread.ok()) return thread.status();
      free->join = std::move(thread.value());
      return {};
    });
    lock.lock();
    if (!started.ok()) {
      free->running = false;
      --running_;
    }
    return started;
  }

  void work(Worker& worker) noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      work_.wait(lock, [&] {
        return stopped_ || running_ > most_workers_ || takeable() > 0 ||
               (finished_ && taken_ == added_);
      });
      --idle_;
      if (stopped_ || running_ > most_workers_ || takeable() == 0) break;
      Block block = std::move(waiting_[taken_ % waiting_.size()]);
      ResultPlace& place = results_[taken_ % results_.size()];
      ++taken_;
      ++busy_;
      room_.notify_one();
      lock.unlock();
      const Status packed = no_throw(
          "compress a block", [&] { return pack(*worker.compressor, std::move(block), place); });
      lock.lock();
      --busy_;
      place.ready = true;
      if (!packed.ok()) stop(lock, packed);
      ready_.notify_all();
    }
    worker.running = false;
    --running_;
    // What woke this one may have been meant for one that stays, or they can all go.
    work_.notify_one();
  }

  Status pack(Compressor& compressor, Block&& block, ResultPlace& place) {
    place.block = std::move(block);
    const std::span<const std::byte> bytes = place.block.bytes;
    Form form = place.block.course ? place.block.course->next() : place.block.form;
    place.bytes = bytes;
    if (form != Form::kStored) {
      const int64_t start = clock_.now_ns();
      const Result<size_t> size =
          compressor.compress(form, bytes, {place.buffer.get(), bytes.size() - 1});
      if (!size.ok()) return size.status();
      const bool shrank = size.value() > 0;
      if (place.block.course) {
        place.block.course->done(
            {bytes.size(), shrank ? size.value() : bytes.size(), clock_.now_ns() - start});
      }
      if (shrank) place.bytes = {place.buffer.get(), size.value()};
      if (!shrank) form = Form::kStored;
    }
    place.packed = {place.block.tag,    form,         0,
                    place.bytes.size(), bytes.size(), checksum(place.bytes)};
    if (form != Form::kStored) release(place.block);
    return {};
  }

  void store_all() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      ResultPlace& next = results_[stored_ % results_.size()];
      ready_.wait(lock, [&] { return stopped_ || next.ready || (finished_ && stored_ == added_); });
      if (stopped_ || !next.ready) break;
      lock.unlock();
      const Status stored = no_throw("store a block", [&] { return store(next); });
      lock.lock();
      next.ready = false;
      ++stored_;
      if (!stored.ok()) stop(lock, stored);
      work_.notify_one();
    }
    if (!stopped_) {
      lock.unlock();
      const Status done = no_throw("end a stream", [&] { return writes_.finish(); });
      lock.lock();
      if (!done.ok()) stop(lock, done);
    }
    ended_ = true;
    // Only what failed has left anything.
    ready_.wait(lock, [&] { return busy_ == 0; });
    lock.unlock();
    for (ResultPlace& place : results_) release(place.block);
  }

  Status store(ResultPlace& place) {
    place.packed.offset = writes_.offset();
    const Status written = writes_.append(place.bytes);
    release(place.block);
    if (!written.ok()) return written;
    if (packed_) packed_(place.packed);
    const std::lock_guard lock(mutex_);
    ++counts_.blocks;
    counts_.compressed_blocks += place.packed.form != Form::kStored ? 1 : 0;
    counts_.bytes += place.packed.bytes;
    counts_.stored_bytes += place.packed.stored_bytes;
    return {};
  }

  // What waits is released at once, and not when the sink comes back. Lets the lock go meanwhile.
  void stop(std::unique_lock<std::mutex>& lock, Status status) noexcept {
    if (stopped_) return;
    stopped_ = true;
    status_ = std::move(status);
    room_.notify_all();
    work_.notify_all();
    ready_.notify_all();
    while (taken_ < added_) {
      Block block = std::move(waiting_[taken_++ % waiting_.size()]);
      lock.unlock();
      release(block);
      lock.lock();
    }
  }

  // Once. By the thread that adds.
  void join() noexcept {
    for (Worker& worker : workers_) {
      if (worker.join) std::exchange(worker.join, {})();
    }
    if (join_store_) std::exchange(join_store_, {})();
  }

  const PipelineOptions options_;
  Clock& clock_;
  const Spawn spawn_;
  const Packed packed_;
  Writes writes_;  // the store thread's own

  mutable std::mutex mutex_;
  std::condition_variable room_;      // in the first ring
  std::condition_variable work_;      // for a worker
  std::condition_variable ready_;     // for the store thread
  std::vector<Block> waiting_;        // the first ring
  std::vector<ResultPlace> results_;  // the second
  // Blocks are numbered from 0; number n is at n % size of each ring.
  uint64_t added_ = 0;
  uint64_t taken_ = 0;   // by workers
  uint64_t stored_ = 0;  // by the store thread
  std::vector<Worker> workers_;
  uint32_t most_workers_;
  uint32_t running_ = 0;
  uint32_t idle_ = 0;
  uint32_t busy_ = 0;      // workers with a block
  bool finished_ = false;  // no more blocks
  bool stopped_ = false;   // something failed
  bool ended_ = false;     // the store thread has done what it had to
  Status status_;          // the first failure
  PipelineCounts counts_;
  Join join_store_;
};

}  // namespace

Status check(const PipelineOptions& options) {
  const auto refuse = [](const char* what) {
    return Status(Code::kInvalid, std::string("cannot compress a stream: ") + what);
  };
  constexpr size_t kUnit = PipelineOptions::kWriteUnit;
  if (Status good = check(options.codec); !good.ok()) return refuse(good.message().c_str());
  if (options.block_bytes == 0) return refuse("blocks have no size");
  if (options.queue_blocks == 0 || options.result_blocks == 0) return refuse("a queue has no room");
  if (options.workers == 0) return refuse("there are no workers");
  if (options.write_bytes == 0 || options.write_bytes % kUnit != 0) {
    return refuse("writes are not a multiple of 1 MiB");
  }
  return {};
}

Result<std::unique_ptr<CompressionPipeline>> CompressionPipeline::start(
    const PipelineOptions& options, BlockSink& sink, Clock& clock, const Spawn& spawn,
    Packed packed) {
  using Started = Result<std::unique_ptr<CompressionPipeline>>;
  return no_throw("start a compression pipeline", [&]() -> Started {
    if (Status good = check(options); !good.ok()) return good;
    auto pipeline = std::make_unique<Pipeline>(options, sink, clock, spawn, std::move(packed));
    if (Status started = pipeline->start(); !started.ok()) return started;
    return std::unique_ptr<CompressionPipeline>(std::move(pipeline));
  });
}

}  // namespace gpusnap
