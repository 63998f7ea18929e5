// SPDX-License-Identifier: Apache-2.0
#include <zstd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <tuple>

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/journal.h"
#include "tiers/mutex.h"
#include "tiers/no_throw.h"
#include "tiers/repeat_finder.h"

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
  bool sealed = false;  // a frame ends with it
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

  // Where an entry ends is known for whole blocks only: a block's entries count in the frame that
  // its last byte is in.
  Status add(const Block& block) {
    const std::span bytes = std::span(block.data).first(block.used);
    size_t done = 0;
    for (const RepeatFinder::Piece& piece : finder_.split(bytes)) {
      const std::span now = bytes.subspan(done, piece.bytes);
      done += piece.bytes;
      const uint32_t entries = done == bytes.size() ? block.entries : 0;
      Status added =
          piece.distance != 0 ? add_repeat(now, piece.distance, entries) : add_new(now, entries);
      if (!added.ok()) return added;
    }
    if (bytes.empty()) {
      if (Status added = add_new(bytes, block.entries); !added.ok()) return added;
    }
    if (block.sealed) end_repeat();
    return buffer_.size() >= kWriteBytes ? flush() : Status();
  }

  // Nothing is in a frame any more that may go on.
  Status finish() {
    end_repeat();
    return flush();
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

  // The end of the last frame.
  Position position() const { return position_; }
  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t stored_bytes() const { return file_bytes_ + (goes_on() ? kFrameHeaderBytes : 0); }

 private:
  bool goes_on() const { return repeat_.raw_bytes != 0; }

  Status add_new(std::span<const std::byte> bytes, uint32_t entries) {
    end_repeat();
    const size_t bound = ZSTD_compressBound(bytes.size());
    const size_t at = buffer_.size();
    buffer_.resize(at + kFrameHeaderBytes + bound);
    const std::span<std::byte> stored = std::span(buffer_).subspan(at + kFrameHeaderBytes);
    const size_t size =
        ZSTD_compress2(zstd_.get(), stored.data(), stored.size(), bytes.data(), bytes.size());
    if (ZSTD_isError(size) != 0) {
      return {Code::kIo, std::string("cannot compress the journal: ") + ZSTD_getErrorName(size)};
    }
    FrameHeader header;
    header.stored_bytes = static_cast<uint32_t>(size);
    header.raw_bytes = static_cast<uint32_t>(bytes.size());
    header.entries = entries;
    header.stored_checksum = checksum(stored.first(size));
    buffer_.resize(at + kFrameHeaderBytes + size);
    put_header(header, at);
    return {};
  }

  // A frame of these bytes, or more of the one that goes on.
  Status add_repeat(std::span<const std::byte> bytes, size_t distance, uint32_t entries) {
    if (repeat_.distance != distance || repeat_.raw_bytes > kMostRepeatedBytes - bytes.size()) {
      end_repeat();
    }
    repeat_.distance = static_cast<uint32_t>(distance);
    if (repeat_.raw_bytes < distance) {
      repeated_.add(bytes.first(std::min(bytes.size(), distance - repeat_.raw_bytes)));
    }
    repeat_.raw_bytes += static_cast<uint32_t>(bytes.size());
    repeat_.entries += entries;
    return {};
  }

  void end_repeat() {
    if (goes_on()) {
      repeat_.stored_checksum = repeated_.value();
      const size_t at = buffer_.size();
      buffer_.resize(at + kFrameHeaderBytes);
      put_header(repeat_, at);
    }
    repeat_ = {};
    repeated_.reset();
  }

  // The header of what is in the buffer from there on.
  void put_header(FrameHeader header, size_t at) {
    header.first_entry = position_.entries;
    header.stream_offset = position_.stream_bytes;
    const auto bytes = encode_frame_header(header);
    std::memcpy(buffer_.data() + at, bytes.data(), bytes.size());
    position_.stream_bytes += header.raw_bytes;
    position_.entries += header.entries;
    file_bytes_ += kFrameHeaderBytes + header.stored_bytes;
  }

  const std::unique_ptr<JournalSink> sink_;
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd_;
  std::vector<std::byte> buffer_;
  RepeatFinder finder_{{.distance = kMostRepeatDistance}};
  FrameHeader repeat_;  // not written yet; of no bytes: there is none
  Checksum repeated_;   // of the bytes that it repeats
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
    stored_bytes_ = frames_.stored_bytes();
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
    if (has_begun()) hand_over(true);
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
      hand_over(false);
      take_block();
    }
    put(left);
    entries_ += entries;
  }

  JournalPart seal() override {
    if (has_begun()) hand_over(true);
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
  uint64_t stored_bytes() const override { return stored_bytes_.load(std::memory_order_relaxed); }

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

  void hand_over(bool sealed) {
    {
      const MutexLock lock(mutex_);
      current_->sealed = sealed;
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
    if (status_.ok()) status_ = no_throw("write the journal", [&] { return frames_.finish(); });
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
      Status written = unlocked_call([&] {
        Status added = frames_.add(*block);
        stored_bytes_.store(frames_.stored_bytes(), std::memory_order_relaxed);
        return added;
      });
      if (written.ok() && block->sealed) written = note_boundary();
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
  std::vector<Boundary> boundaries_ GUARDED_BY(mutex_);  // where it was sealed, rising
  Status status_ GUARDED_BY(mutex_);                     // the first failure, for good
  bool stop_ GUARDED_BY(mutex_) = false;

  FrameWriter frames_;  // used by the thread alone
  std::atomic<uint64_t> stored_bytes_ = 0;
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
