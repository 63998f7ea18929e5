// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/remote_writer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "tiers/manifest.h"
#include "tiers/mutex.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {

// Time between two checks whether the backend still runs.
constexpr std::chrono::nanoseconds kBetweenLooks = std::chrono::milliseconds(200);
// The longest wait for a slot that describes a chunk: other slots may have to go first.
constexpr std::chrono::nanoseconds kBetweenTries = std::chrono::milliseconds(5);

Status abandoned() {
  return {Code::kInvalid, "the checkpoint was abandoned"};
}

// The stream of one checkpoint. Used by the writer's thread.
class Stream {
 public:
  explicit Stream(StagingPool& pool) : pool_(pool) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  // Abandons a stream that has not ended.
  ~Stream() {
    if (open_) pool_.client().abandon(index_);
  }

  Status open(const CheckpointText& text) {
    const Result<uint32_t> index = pool_.client().open(StreamKind::kCheckpoint, encode(text));
    if (!index.ok()) return index.status();
    index_ = index.value();
    open_ = true;
    return {};
  }

  // Takes the slot in any case.
  Status send(std::span<const Piece> pieces, Slot* slot) {
    const size_t most = pool_.pieces_per_slot();
    if (pieces.size() <= most) {
      pool_.client().hand_over(index_, slot->index, slot->used, pieces);
      return {};
    }
    // There are more ranges than one slot can describe. The others go into further slots after this
    // slot has been handed over: it may be the one that comes free, and the snapshot may hold all
    // others until then.
    const StagingPool::Claim claim(pool_);
    const std::vector<std::byte> bytes(slot->data, slot->data + slot->used);
    slot->used = bytes_of(pieces.first(most));
    size_t sent = slot->used;
    pool_.client().hand_over(index_, slot->index, slot->used, pieces.first(most));
    while (!(pieces = pieces.subspan(std::min(most, pieces.size()))).empty()) {
      const auto part = pieces.first(std::min(most, pieces.size()));
      const auto of_part = std::span(bytes).subspan(sent, bytes_of(part));
      if (Status put = this->put(of_part, part); !put.ok()) return put;
      sent += of_part.size();
    }
    return {};
  }

  // Sends the manifest: bytes without pieces.
  Status send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), pool_.slot_bytes()));
      if (Status put = this->put(part, {}); !put.ok()) return put;
      bytes = bytes.subspan(part.size());
    }
    return {};
  }

  // Returns false if no slot has become free within `longest`.
  Result<bool> send(const DirectChunk& chunk, std::chrono::nanoseconds longest) {
    const Result<Slot*> slot = pool_.acquire(longest);
    if (slot.status().code() == Code::kBusy) return false;
    if (!slot.ok()) return slot.status();
    const std::vector<std::byte> message = encode(chunk);
    std::memcpy(slot.value()->data, message.data(), message.size());
    const uint32_t index = slot.value()->index;
    unchecked_.emplace_back(index, pool_.client().slot_life(index));
    pool_.client().hand_over(index_, index, message.size(), {}, SlotContent::kDirectChunk);
    return true;
  }

  // Returns whether the backend has not checked all directly written chunks yet.
  bool has_unchecked() {
    std::erase_if(unchecked_, [this](const auto& slot) {
      return !pool_.client().is_filled(slot.first, slot.second);
    });
    return !unchecked_.empty();
  }

  // Returns whether the backend keeps the checkpoint in memory, and then leaves it to the backend.
  bool is_kept() {
    if (!pool_.client().is_kept(index_)) return false;
    if (std::exchange(open_, false)) pool_.client().leave(index_);
    return true;
  }

  uint32_t index() const { return index_; }
  void seal() { pool_.client().seal(index_); }

  // The outcome that the backend has reported, if any.
  std::optional<Status> outcome() {
    std::optional<Status> outcome = pool_.client().outcome(index_);
    if (outcome && std::exchange(open_, false)) pool_.client().close(index_);
    return outcome;
  }

 private:
  static uint64_t bytes_of(std::span<const Piece> pieces) {
    uint64_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.size;
    return bytes;
  }

  Status put(std::span<const std::byte> bytes, std::span<const Piece> pieces) {
    const Result<Slot*> slot = pool_.acquire();
    if (!slot.ok()) return slot.status();
    std::memcpy(slot.value()->data, bytes.data(), bytes.size());
    pool_.client().hand_over(index_, slot.value()->index, bytes.size(), pieces);
    return {};
  }

  StagingPool& pool_;
  uint32_t index_ = 0;
  bool open_ = false;
  std::vector<std::pair<uint32_t, uint32_t>> unchecked_;  // slot and life of direct chunks
};

class Writer final : public CheckpointWriter, public DirectSink {
 public:
  Writer(FileSystem& files, StagingPool& pool, const CheckpointText& text, FolderMaker maker)
      : files_(files),
        pool_(pool),
        makes_folder_(maker == FolderMaker::kWriter && !text.in_memory),
        text_(text),
        folder_(text.store + "/" + sanitise_job(text.job) + "/" + epoch_folder(text.epoch)) {}

  Status start(const Spawn& spawn) {
    Result<Join> thread = start_thread(spawn, "checkpoint", [this] { body(); });
    if (!thread.ok()) return thread.status();
    join_ = std::move(thread.value());
    return {};
  }

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() override {
    if (!join_) return;
    abandon();
    join_();
  }

  void write(std::span<const Piece> pieces, Slot* slot, Check check) override {
    bool queued = false;
    const Status added = no_throw("queue a slot", [&] {
      const MutexLock lock(mutex_);
      if (over_) return Status();  // the failure is reported at the end
      queue_.push_back({merged(pieces), slot, std::move(check)});
      queued = true;
      work_.notify_one();
      return Status();
    });
    if (queued) return;
    pool_.release(slot);
    if (added.ok()) return;
    const MutexLock lock(mutex_);
    lost_ = added;
    work_.notify_one();
  }

  void finish(Manifest manifest, JournalWriter* journal, Done done) override {
    const MutexLock lock(mutex_);
    journal_ = journal;
    done_call_ = std::move(done);
    manifest_ = std::move(manifest);
    work_.notify_one();
  }

  DirectSink* direct() override { return text_.in_memory ? nullptr : this; }

  Answer next_file(File& file) override {
    const MutexLock lock(mutex_);
    if (over_) return Answer::kNone;
    if (!stream_) return Answer::kNotYet;
    StagingClient& client = pool_.client();
    if (!std::exchange(asking_, true)) client.ask_for_file(*stream_);
    const auto answer = client.file_answer(*stream_);
    if (!answer) return Answer::kNotYet;
    asking_ = false;
    if (answer->bytes == 0) return Answer::kNone;
    file = {answer->path, answer->number, answer->bytes};
    return Answer::kFile;
  }

  void add(DirectChunk chunk, const std::string& path) override {
    const Status added = no_throw("queue a chunk", [&] {
      const MutexLock lock(mutex_);
      direct_.push_back({std::move(chunk), path});
      work_.notify_one();
      return Status();
    });
    if (added.ok()) return;
    const MutexLock lock(mutex_);
    lost_ = added;
    work_.notify_one();
  }

  void give_back(const std::string& path) override { (void)files_.remove(path); }

  void abandon() override {
    const MutexLock lock(mutex_);
    abandoned_ = true;
    work_.notify_one();
  }

  void wait_handed_over() override {
    const MutexLock lock(mutex_);
    decided_.wait(mutex_, [&]() REQUIRES(mutex_) { return sealed_ || done(); });
  }

  Status wait() override {
    const MutexLock lock(mutex_);
    decided_.wait(mutex_, [&]() REQUIRES(mutex_) { return done(); });
    return status_;
  }

  bool done() const override { return done_.load(std::memory_order_acquire); }

 private:
  struct Queued {
    std::vector<Piece> pieces;
    Slot* slot = nullptr;
    Check check;
  };
  struct QueuedChunk {
    DirectChunk chunk;
    std::string path;
  };

  void body() {
    const Status status = no_throw("hand over a checkpoint", [&] { return hand_over_all(); });
    if (const Done tell = end(status)) tell(status);
  }

  // Waits until the outcome may be reported, and returns the function to report it to.
  Done end(const Status& status) {
    const MutexLock lock(mutex_);
    over_ = true;
    for (const Queued& queued : std::exchange(queue_, {})) pool_.release(queued.slot);
    for (const QueuedChunk& queued : std::exchange(direct_, {})) give_back(queued.path);
    status_ = status;
    done_.store(true, std::memory_order_release);
    decided_.notify_all();
    // A failure is known before the end, but reported at the end.
    work_.wait(mutex_, [&]() REQUIRES(mutex_) { return abandoned_ || manifest_; });
    return std::exchange(done_call_, nullptr);
  }

  Status hand_over_all() {
    if (makes_folder_) {
      if (Status made = files_.make_folder(folder_); !made.ok()) return made;
    }
    Status status = send_and_wait();
    // Removing the folder fails if other ranks are in it. A sealed part belongs to the backend: a
    // manifest whose removal is not durable may come back, and its folder must not be taken for a
    // new one.
    const MutexLock lock(mutex_);
    if (makes_folder_ && !status.ok() && !sealed_) (void)files_.remove_folder(folder_);
    return status;
  }

  Status send_and_wait() {
    Stream stream(pool_);
    if (Status opened = stream.open(text_); !opened.ok()) return opened;
    const StreamInUse in_use(*this, stream.index());
    if (Status sent = send_all(stream); !sent.ok()) return sent;
    if (Status checked = await_checks(stream); !checked.ok()) return checked;
    if (Status sealed = seal(stream); !sealed.ok()) return sealed;
    {
      const MutexLock lock(mutex_);
      sealed_ = true;
      decided_.notify_all();
    }
    return await(stream);
  }

  // While the stream is open, next_file() may ask for files.
  class StreamInUse {
   public:
    StreamInUse(Writer& writer, uint32_t stream) : writer_(writer) {
      const MutexLock lock(writer_.mutex_);
      writer_.stream_ = stream;
    }
    ~StreamInUse() {
      const MutexLock lock(writer_.mutex_);
      writer_.stream_.reset();
    }
    StreamInUse(const StreamInUse&) = delete;
    StreamInUse& operator=(const StreamInUse&) = delete;

   private:
    Writer& writer_;
  };

  // Sends until the manifest is there. Slots come first: a chunk may wait for one of them to become
  // free.
  Status send_all(Stream& stream) {
    for (;;) {
      Queued next;
      std::optional<QueuedChunk> chunk;
      {
        const MutexLock lock(mutex_);
        if (Status served = await_work(); !served.ok()) return served;
        if (abandoned_) return abandoned();
        if (!lost_.ok()) return lost_;
        if (!queue_.empty()) {
          next = std::move(queue_.front());
          queue_.pop_front();
        } else if (!direct_.empty()) {
          chunk = std::move(direct_.front());
          direct_.pop_front();
        } else {
          return {};
        }
      }
      if (chunk) {
        if (Status sent = send(stream, std::move(*chunk)); !sent.ok()) return sent;
        continue;
      }
      Status sent = check(stream, next);
      if (!sent.ok()) {
        pool_.release(next.slot);
        return sent;
      }
      sent = stream.send(next.pieces, next.slot);
      if (!sent.ok()) return sent;
    }
  }

  // Another thread may wait for an answer of a backend that has gone. Releases the lock meanwhile.
  Status await_work() REQUIRES(mutex_) {
    const auto has_work = [&]() REQUIRES(mutex_) {
      return abandoned_ || !lost_.ok() || manifest_ || !queue_.empty() || !direct_.empty();
    };
    while (!work_.wait_for(mutex_, kBetweenLooks, has_work)) {
      if (!asking_) continue;
      if (Status served = look_at_server(); !served.ok()) return served;
    }
    return {};
  }

  Status look_at_server() REQUIRES(mutex_) {
    const Unlocked unlocked(mutex_);
    return pool_.watch().look();
  }

  // Without a free slot the chunk stays queued.
  Status send(Stream& stream, QueuedChunk queued) {
    Status status;
    if (const auto outcome = stream.outcome()) status = ended(*outcome);
    Result<bool> sent = status.ok() ? stream.send(queued.chunk, kBetweenTries) : status;
    if (sent.ok() && sent.value()) return {};
    if (!sent.ok()) {
      give_back(queued.path);
      return sent.status();
    }
    const MutexLock lock(mutex_);
    direct_.push_front(std::move(queued));
    return {};
  }

  // A sealed checkpoint is valid as it is, and the host has not seen the bytes of these chunks:
  // waits until the backend has checked them.
  Status await_checks(Stream& stream) {
    for (;;) {
      const uint32_t seen = pool_.client().changes();
      if (!stream.has_unchecked()) return {};
      if (const auto outcome = stream.outcome()) return ended(*outcome);
      {
        const MutexLock lock(mutex_);
        if (abandoned_) return abandoned();
      }
      if (Status served = pool_.watch().look(); !served.ok()) return served;
      pool_.client().wait(seen, kBetweenLooks);
    }
  }

  Status check(Stream& stream, const Queued& queued) {
    const std::span bytes{queued.slot->data, queued.slot->used};
    if (!are_bytes_of(queued.pieces, bytes.size())) {
      return {Code::kInvalid, "cannot write a checkpoint: the pieces are not the slot's bytes"};
    }
    // A backend that has ended the stream early takes no more slots.
    if (const auto outcome = stream.outcome()) return ended(*outcome);
    return queued.check ? queued.check(bytes) : Status();
  }

  static Status ended(const Status& outcome) {
    if (!outcome.ok()) return outcome;
    return {Code::kIo, "the backend ended a checkpoint that was not complete"};
  }

  // Settles the journal first: the manifest says how much of it must be durable.
  Status seal(Stream& stream) {
    ManifestText head;
    if (journal_ != nullptr && !manifest_->journal.empty()) {
      const Result<JournalCover> cover = journal_->settle(manifest_->journal.back());
      if (!cover.ok()) return cover.status();
      head.journal = {cover->stream, cover->life, cover->slots};
    }
    const std::vector<std::byte> manifest = encode(*manifest_);
    if (manifest.empty()) {
      return {Code::kInvalid, "cannot commit " + folder_ + ": its manifest would be too large"};
    }
    head.bytes = manifest.size();
    const std::string text = encode(head);
    std::vector<std::byte> all(text.size() + manifest.size());
    std::memcpy(all.data(), text.data(), text.size());
    std::memcpy(all.data() + text.size(), manifest.data(), manifest.size());
    if (Status sent = stream.send(all); !sent.ok()) return sent;
    stream.seal();
    return {};
  }

  Status await(Stream& stream) {
    for (;;) {
      const uint32_t seen = pool_.client().changes();
      if (const auto outcome = stream.outcome()) return *outcome;
      {
        const MutexLock lock(mutex_);
        if (abandoned_) return abandoned();
      }
      if (stream.is_kept()) return {};
      if (Status served = pool_.watch().look(); !served.ok()) return served;
      pool_.client().wait(seen, kBetweenLooks);
    }
  }

  FileSystem& files_;
  StagingPool& pool_;
  const bool makes_folder_;
  const CheckpointText text_;
  const std::string folder_;

  Mutex mutex_;
  ConditionVariable work_;
  ConditionVariable decided_;
  std::deque<Queued> queue_ GUARDED_BY(mutex_);
  std::deque<QueuedChunk> direct_ GUARDED_BY(mutex_);
  std::optional<uint32_t> stream_ GUARDED_BY(mutex_);  // while it is open
  bool asking_ GUARDED_BY(mutex_) = false;             // for a file for a chunk
  // Set by finish() under the lock; after that used by the writer's thread without it.
  std::optional<Manifest> manifest_;
  JournalWriter* journal_ = nullptr;
  Done done_call_ GUARDED_BY(mutex_);
  bool abandoned_ GUARDED_BY(mutex_) = false;
  Status lost_ GUARDED_BY(mutex_);          // why a slot could not be queued
  bool sealed_ GUARDED_BY(mutex_) = false;  // all has been handed over
  bool over_ GUARDED_BY(mutex_) = false;    // no more slots are taken
  Status status_ GUARDED_BY(mutex_);
  std::atomic<bool> done_{false};
  Join join_;
};

}  // namespace

Result<std::unique_ptr<CheckpointWriter>> start_remote_writer(FileSystem& files, StagingPool& pool,
                                                              const CheckpointText& text,
                                                              FolderMaker folder,
                                                              const Spawn& spawn) {
  return no_throw("begin a checkpoint", [&]() -> Result<std::unique_ptr<CheckpointWriter>> {
    auto writer = std::make_unique<Writer>(files, pool, text, folder);
    if (Status started = writer->start(spawn); !started.ok()) return started;
    return std::unique_ptr<CheckpointWriter>(std::move(writer));
  });
}

}  // namespace gpusnap
