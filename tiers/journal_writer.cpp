// SPDX-License-Identifier: Apache-2.0
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/journal.h"
#include "tiers/mutex.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

constexpr size_t kWriteBytes = 1 << 20;  // goes to the sink in pieces of about this

// A place in the stream.
struct Position {
  uint64_t stream_bytes = 0;
  uint64_t entries = 0;
  bool operator==(const Position&) const = default;
  bool operator<(const Position& other) const {
    return std::tie(stream_bytes, entries) < std::tie(other.stream_bytes, other.entries);
  }
};

struct Block {
  std::vector<std::byte> data;
  // Once it has been handed over.
  size_t used = 0;
  uint32_t entries = 0;
};

// First in, first out; holds all blocks there are without allocating.
class BlockQueue {
 public:
  explicit BlockQueue(size_t most) : ring_(most) {}
  bool empty() const { return count_ == 0; }
  void push(Block* block) { ring_[(first_ + count_++) % ring_.size()] = block; }
  Block* pop() {
    Block* block = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return block;
  }

 private:
  std::vector<Block*> ring_;
  size_t first_ = 0;
  size_t count_ = 0;
};

// Turns blocks into frames and appends them to the sink. Used by the writer's thread only.
class FrameWriter {
 public:
  FrameWriter(std::unique_ptr<JournalSink> sink, int level, size_t block_bytes)
      : sink_(std::move(sink)), zstd_(ZSTD_createCCtx(), ZSTD_freeCCtx) {
    if (!zstd_) throw std::bad_alloc();
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(zstd_.get(), ZSTD_c_contentSizeFlag, 1);
    buffer_.reserve(kWriteBytes + kFrameHeaderBytes + ZSTD_compressBound(block_bytes));
  }

  Status start(const std::string& name) {
    const auto header = encode_journal_header(name);
    file_bytes_ = header.size();
    return sink_->append(header);
  }

  Status add(const Block& block) {
    const size_t bound = ZSTD_compressBound(block.used);
    const size_t at = buffer_.size();
    buffer_.resize(at + kFrameHeaderBytes + bound);
    const std::span<std::byte> stored = std::span(buffer_).subspan(at + kFrameHeaderBytes);
    const size_t size =
        ZSTD_compress2(zstd_.get(), stored.data(), stored.size(), block.data.data(), block.used);
    if (ZSTD_isError(size) != 0) {
      return {Code::kIo, std::string("cannot compress the journal: ") + ZSTD_getErrorName(size)};
    }
    const auto header = encode_frame_header(
        {static_cast<uint32_t>(size), static_cast<uint32_t>(block.used), block.entries,
         position_.entries, position_.stream_bytes, checksum(stored.first(size))});
    std::memcpy(buffer_.data() + at, header.data(), header.size());
    buffer_.resize(at + kFrameHeaderBytes + size);
    position_.stream_bytes += block.used;
    position_.entries += block.entries;
    file_bytes_ += kFrameHeaderBytes + size;
    return buffer_.size() >= kWriteBytes ? flush() : Status();
  }

  Status flush() {
    if (buffer_.empty()) return {};
    Status written = sink_->append(buffer_);
    buffer_.clear();
    return written;
  }

  Result<JournalCover> settle() {
    if (Status written = flush(); !written.ok()) return written;
    return sink_->settle();
  }

  Position position() const { return position_; }
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  const std::unique_ptr<JournalSink> sink_;
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd_;
  std::vector<std::byte> buffer_;
  Position position_;
  uint64_t file_bytes_ = 0;
};

class Writer final : public JournalWriter {
 public:
  Writer(std::string name, std::unique_ptr<JournalSink> sink, const Options& options)
      : name_(std::move(name)),
        block_bytes_(std::clamp<size_t>(options.block_bytes, 1, kMostFrameRawBytes)),
        blocks_(std::max<size_t>(options.blocks, 2)),
        full_(blocks_.size()),
        free_(blocks_.size()),
        frames_(std::move(sink), options.zstd_level, block_bytes_) {
    for (Block& block : blocks_) {
      block.data.resize(block_bytes_);
      free_.push(&block);
    }
  }

  Status start(const Spawn& spawn) {
    if (Status started = frames_.start(name_); !started.ok()) return started;
    {
      const MutexLock lock(mutex_);
      boundaries_.push_back({{}, frames_.file_bytes()});
    }
    Result<Join> thread = start_thread(spawn, "journal", [this] { body(); });
    if (!thread.ok()) return thread.status();
    join_ = std::move(thread.value());
    return {};
  }

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() override {
    if (!join_) return;
    if (has_begun()) hand_over();
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    work_.notify_one();
    join_();
  }

  void append(std::span<const std::byte> bytes, uint32_t entries) override {
    if (current_ == nullptr) [[unlikely]]
      take_block();
    std::span<const std::byte> left = bytes;
    for (size_t room; (room = static_cast<size_t>(end_ - next_)) < left.size();) {
      put(left.first(room));
      left = left.subspan(room);
      hand_over();
      take_block();
    }
    put(left);
    entries_ += entries;
  }

  JournalPart seal() override {
    if (has_begun()) hand_over();
    return {name_, 0, stream_bytes(), entries_};
  }

  Result<JournalCover> settle(JournalPart& part) override {
    const Position wanted{part.stream_bytes, part.entries};
    const MutexLock lock(mutex_);
    if (handed_over_ < wanted) return not_sealed(wanted);
    if (!wanted_ || *wanted_ < wanted) wanted_ = wanted;
    work_.notify_one();
    changed_.wait(mutex_, [&]() REQUIRES(mutex_) {
      return !status_.ok() || (settled_ && !(*settled_ < wanted));
    });
    if (!status_.ok()) return status_;
    const auto end = std::lower_bound(
        boundaries_.begin(), boundaries_.end(), wanted,
        [](const Boundary& boundary, const Position& position) { return boundary.at < position; });
    if (end == boundaries_.end() || !(end->at == wanted)) return not_sealed(wanted);
    part.file_bytes = end->file_bytes;
    return cover_;
  }

  // Only the producer changes handed_over_, so the producer reads it without the lock.
  uint64_t stream_bytes() const override { return handed_over_.stream_bytes + used(); }

 private:
  struct Boundary {
    Position at;
    uint64_t file_bytes = 0;
  };

  Status not_sealed(const Position& at) const {
    return {Code::kInvalid, "cannot settle journal part " + name_ + " up to byte " +
                                std::to_string(at.stream_bytes) + ": it was not sealed there"};
  }

  // The producer's side.
  void take_block() {
    const MutexLock lock(mutex_);
    freed_.wait(mutex_, [&]() REQUIRES(mutex_) { return !free_.empty(); });
    current_ = free_.pop();
    next_ = current_->data.data();
    end_ = next_ + block_bytes_;
  }

  size_t used() const {
    return current_ == nullptr ? 0 : static_cast<size_t>(next_ - current_->data.data());
  }
  bool has_begun() const {
    return current_ != nullptr && (used() != 0 || entries_ != handed_over_.entries);
  }

  void put(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    std::memcpy(next_, bytes.data(), bytes.size());
    next_ += bytes.size();
  }

  void hand_over() {
    {
      const MutexLock lock(mutex_);
      current_->used = used();
      current_->entries = static_cast<uint32_t>(entries_ - handed_over_.entries);
      full_.push(current_);
      handed_over_.stream_bytes += current_->used;
      handed_over_.entries = entries_;
    }
    current_ = nullptr;
    next_ = end_ = nullptr;
    work_.notify_one();
  }

  // The thread's side.
  void body() {
    const MutexLock lock(mutex_);
    for (;;) {
      work_.wait(mutex_, [&]() REQUIRES(mutex_) { return stop_ || !full_.empty() || is_due(); });
      if (is_due()) {
        settle_now();
      } else if (!full_.empty()) {
        write_block();
      } else {
        break;
      }
    }
    if (status_.ok()) status_ = frames_.flush();
  }

  // Whether it is to be settled and all that this is to cover has passed the thread. The thread
  // only.
  bool is_due() const REQUIRES(mutex_) {
    return status_.ok() && wanted_ && (!settled_ || *settled_ < *wanted_) &&
           !(frames_.position() < *wanted_);
  }

  template <class Call>
  auto unlocked_call(Call call) REQUIRES(mutex_) {
    const Unlocked unlocked(mutex_);
    return no_throw("write the journal", call);
  }

  // Releases the lock meanwhile, as settle_now() does.
  void write_block() REQUIRES(mutex_) {
    Block* block = full_.pop();
    if (status_.ok()) {
      Status written = unlocked_call([&] { return frames_.add(*block); });
      if (written.ok()) written = note_boundary();
      if (!written.ok()) fail(std::move(written));
    }
    free_.push(block);
    freed_.notify_one();
  }

  Status note_boundary() REQUIRES(mutex_) {
    return no_throw("write the journal", [&] {
      mutex_.assert_held();
      boundaries_.push_back({frames_.position(), frames_.file_bytes()});
      return Status();
    });
  }

  void settle_now() REQUIRES(mutex_) {
    const auto cover = unlocked_call([&] { return frames_.settle(); });
    if (!cover.ok()) return fail(cover.status());
    settled_ = frames_.position();
    cover_ = cover.value();
    changed_.notify_all();
  }

  void fail(Status status) REQUIRES(mutex_) {
    status_ = std::move(status);
    changed_.notify_all();
  }

  const std::string name_;
  const size_t block_bytes_;

  Block* current_ = nullptr;  // the producer's own

  Mutex mutex_;
  ConditionVariable work_;     // for the thread
  ConditionVariable freed_;    // for the producer
  ConditionVariable changed_;  // for those who wait until it is settled
  std::vector<Block> blocks_;  // each belongs to the producer, a queue or the thread
  BlockQueue full_ GUARDED_BY(mutex_);
  BlockQueue free_ GUARDED_BY(mutex_);
  Position handed_over_;  // the stream ends here for the thread; changed by the producer, locked
  std::optional<Position> wanted_ GUARDED_BY(mutex_);    // to be settled up to here
  std::optional<Position> settled_ GUARDED_BY(mutex_);   // settled up to here
  JournalCover cover_ GUARDED_BY(mutex_);                // of settled_
  std::vector<Boundary> boundaries_ GUARDED_BY(mutex_);  // ends of frames, rising
  Status status_ GUARDED_BY(mutex_);                     // the first failure, for good
  bool stop_ GUARDED_BY(mutex_) = false;

  FrameWriter frames_;  // used by the thread alone
  Join join_;
};

}  // namespace

Result<std::unique_ptr<JournalWriter>> JournalWriter::create(std::unique_ptr<JournalSink> sink,
                                                             const std::string& name,
                                                             Options options) {
  return no_throw("create a journal", [&]() -> Result<std::unique_ptr<JournalWriter>> {
    auto writer = std::make_unique<Writer>(name, std::move(sink), options);
    if (Status started = writer->start(options.spawn); !started.ok()) return started;
    return std::unique_ptr<JournalWriter>(std::move(writer));
  });
}

}  // namespace gpusnap
