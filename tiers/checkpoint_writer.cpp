#include "tiers/checkpoint_writer.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "tiers/chain.h"
#include "tiers/manifest_file.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

// The files of one rank's part, in the order of docs/file-format.md. Used by one thread.
class Commit {
 public:
  Commit(FileSystem& files, const CheckpointPlace& place, uint64_t segment_bytes)
      : files_(files),
        place_(place),
        folder_(place.job_folder + "/" + epoch_folder(place.epoch)),
        segments_(files, folder_, {place.job_folder_name, place.run, place.epoch, place.rank},
                  segment_bytes) {}

  Status start() { return files_.make_folder(folder_); }

  Status add(const std::vector<Piece>& pieces, std::span<const std::byte> bytes) {
    for (const Piece& piece : pieces) {
      if (piece.size == 0 || piece.size > bytes.size()) return wrong_pieces();
      Status added = segments_.add(piece.range, piece.offset, bytes.first(piece.size));
      if (!added.ok()) return added;
      bytes = bytes.subspan(piece.size);
    }
    return bytes.empty() ? Status() : wrong_pieces();
  }

  Status finish(Manifest manifest, JournalWriter* journal) {
    if (Status finished = segments_.finish(); !finished.ok()) return finished;
    if (journal != nullptr && !manifest.journal.empty()) {
      Status durable = journal->make_durable(manifest.journal.back());
      if (!durable.ok()) return durable;
    }
    manifest.extents = segments_.extents();
    manifest.segments = segments_.segments();
    if (Status fits = check(manifest); !fits.ok()) return fits;
    if (Status linked = link(manifest); !linked.ok()) return linked;
    const std::vector<std::byte> bytes = encode(manifest);
    if (bytes.empty()) return refuse("its manifest would be too large");
    // What readers would refuse is not written in the first place.
    if (const auto read_back = decode_manifest(bytes); !read_back.ok()) {
      return refuse(read_back.status().message());
    }
    if (Status synced = files_.sync_folder(folder_); !synced.ok()) return synced;
    return publish(bytes);
  }

  // After a failure at any step. What cannot be removed without risk stays, and is pruned later.
  void remove() {
    if (unpublish()) segments_.remove();
    // Other ranks may be in it.
    (void)files_.remove_folder(folder_);
  }

 private:
  // Finds the parent of an increment and makes it durable: it may have been committed by a process
  // that died before it had done so. Older ancestors are durable since the parent is.
  Status link(Manifest& manifest) const {
    if (manifest.parent == 0) return {};
    const Result<StoredManifest> parent = read_manifest(
        files_, place_.job_folder, place_.job_folder_name, manifest.parent, place_.rank);
    if (!parent.ok()) return refuse("its parent cannot be used: " + parent.status().message());
    manifest.parent_checksum = parent->checksum;
    if (Status good = check_link(manifest, parent->manifest, parent->checksum); !good.ok()) {
      return refuse(good.message());
    }
    return files_.sync_folder(place_.job_folder + "/" + epoch_folder(manifest.parent));
  }

  Status wrong_pieces() const {
    return {Code::kInvalid, "cannot write to " + folder_ + ": the pieces are not the slot's bytes"};
  }

  Status refuse(const std::string& why) const {
    return {Code::kInvalid, "cannot commit " + folder_ + ": " + why};
  }

  Status check(const Manifest& manifest) const {
    if (manifest.epoch != place_.epoch || manifest.rank != place_.rank ||
        sanitise_job(manifest.job) != place_.job_folder_name) {
      return refuse("its manifest is that of another checkpoint");
    }
    return {};
  }

  std::string temporary() const {
    return folder_ + "/" + temporary_manifest_name(place_.rank, place_.run);
  }
  std::string final_name() const { return folder_ + "/" + manifest_name(place_.rank); }

  Status publish(std::span<const std::byte> bytes) {
    Result<std::unique_ptr<WritableFile>> file = files_.create(temporary());
    if (!file.ok()) return file.status();
    stage_ = Stage::kTemporary;
    if (Status written = file.value()->append(bytes); !written.ok()) return written;
    if (Status synced = file.value()->sync(); !synced.ok()) return synced;
    file->reset();
    stage_ = Stage::kRenaming;
    if (Status renamed = files_.rename(temporary(), final_name()); !renamed.ok()) return renamed;
    stage_ = Stage::kRenamed;
    return files_.sync_folder(folder_);
  }

  // Whether it is certain that no manifest names the segments, also after a crash.
  bool unpublish() {
    switch (stage_) {
      case Stage::kNothing:
        return true;
      case Stage::kTemporary:
        (void)files_.remove(temporary());
        return true;
      case Stage::kRenaming:
        // Where the temporary name cannot be removed, the rename may have happened after all.
        return files_.remove(temporary()).ok();
      case Stage::kRenamed:
        return files_.remove(final_name()).ok() && files_.sync_folder(folder_).ok();
    }
    return false;
  }

  enum class Stage { kNothing, kTemporary, kRenaming, kRenamed };

  FileSystem& files_;
  const CheckpointPlace place_;
  const std::string folder_;
  SegmentWriter segments_;
  Stage stage_ = Stage::kNothing;
};

class Writer final : public CheckpointWriter {
 public:
  Writer(FileSystem& files, const CheckpointPlace& place, StagingPool& pool, uint64_t segment_bytes,
         std::function<void(bool)> on_end)
      : pool_(pool), commit_(files, place, segment_bytes), on_end_(std::move(on_end)) {}

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
    {
      std::lock_guard lock(mutex_);
      const Status queued = ended_ ? Status() : no_throw("queue a slot", [&] {
        queue_.push_back({merged(pieces), slot, std::move(check)});
        return Status();
      });
      if (!ended_) work_.notify_one();
      if (!ended_ && queued.ok()) return;
      note(queued);
    }
    pool_.release(slot);
  }

  void finish(Manifest manifest, JournalWriter* journal, Done done) override {
    std::lock_guard lock(mutex_);
    journal_ = journal;
    done_call_ = std::move(done);
    manifest_ = std::move(manifest);
    work_.notify_one();
  }

  void abandon() override {
    std::lock_guard lock(mutex_);
    abandoned_ = true;
    work_.notify_one();
  }

  Status wait() override {
    std::unique_lock lock(mutex_);
    decided_.wait(lock, [&] { return done(); });
    return status_;
  }

  bool done() const override { return done_.load(std::memory_order_acquire); }

 private:
  struct Load {
    std::vector<Piece> pieces;
    Slot* slot = nullptr;
    Check check;
  };

  // Neighbours become one, or scattered zones would make the manifest large.
  static std::vector<Piece> merged(std::span<const Piece> pieces) {
    std::vector<Piece> all;
    all.reserve(pieces.size());
    for (const Piece& piece : pieces) {
      if (!all.empty() && all.back().range == piece.range && piece.size > 0 &&
          all.back().offset + all.back().size == piece.offset) {
        all.back().size += piece.size;
      } else {
        all.push_back(piece);
      }
    }
    return all;
  }

  void body() {
    Status status = no_throw("write a checkpoint", [&] { return commit_.start(); });
    std::unique_lock lock(mutex_);
    note(std::move(status));
    for (;;) {
      if (!status_.ok()) fail(lock);
      work_.wait(lock, [&] {
        return abandoned_ || manifest_ || !queue_.empty() || (!status_.ok() && !done());
      });
      if (abandoned_) break;
      if (!queue_.empty()) {
        write_next(lock);
      } else if (manifest_) {
        if (!done()) commit(lock);
        break;
      }
    }
    if (!done()) {
      note({Code::kInvalid, "the checkpoint was abandoned"});
      fail(lock);
    }
    ended_ = true;
    release_queue();
    const Done tell = std::move(done_call_);
    const Status told = status_;
    lock.unlock();
    if (tell) tell(told);
  }

  // Slots come back also when nothing is written any more.
  void write_next(std::unique_lock<std::mutex>& lock) {
    const Load load = std::move(queue_.front());
    queue_.pop_front();
    if (!done()) {
      lock.unlock();
      Status written = no_throw("write a checkpoint", [&] {
        const std::span<const std::byte> bytes{load.slot->data, load.slot->used};
        Status good = load.check ? load.check(bytes) : Status();
        return good.ok() ? commit_.add(load.pieces, bytes) : good;
      });
      lock.lock();
      note(std::move(written));
    }
    pool_.release(load.slot);
  }

  void commit(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    Status committed = no_throw("commit a checkpoint",
                                [&] { return commit_.finish(std::move(*manifest_), journal_); });
    lock.lock();
    note(std::move(committed));
    if (status_.ok()) {
      end(true);
    } else {
      fail(lock);
    }
  }

  // Once. Only afterwards do others learn of the failure: by then the files are gone.
  void fail(std::unique_lock<std::mutex>& lock) {
    if (done()) return;
    lock.unlock();
    (void)no_throw("remove a checkpoint's files", [&] {
      commit_.remove();
      return Status();
    });
    lock.lock();
    end(false);
  }

  void end(bool committed) {
    on_end_(committed);
    done_.store(true, std::memory_order_release);
    decided_.notify_all();
  }

  void note(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  void release_queue() {
    for (const Load& load : queue_) pool_.release(load.slot);
    queue_.clear();
  }

  StagingPool& pool_;
  Commit commit_;  // the thread's own
  const std::function<void(bool)> on_end_;

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable decided_;
  std::deque<Load> queue_;  // no longer than the pool has slots
  std::optional<Manifest> manifest_;
  JournalWriter* journal_ = nullptr;
  Done done_call_;
  bool abandoned_ = false;
  bool ended_ = false;  // the thread takes nothing from the queue any more
  Status status_;       // the first failure, for good
  std::atomic<bool> done_{false};
  Join join_;
};

}  // namespace

Result<std::unique_ptr<CheckpointWriter>> start_checkpoint_writer(
    FileSystem& files, const CheckpointPlace& place, StagingPool& pool, uint64_t segment_bytes,
    const Spawn& spawn, std::function<void(bool committed)> on_end) {
  auto writer = std::make_unique<Writer>(files, place, pool, segment_bytes, std::move(on_end));
  if (Status started = writer->start(spawn); !started.ok()) return started;
  return std::unique_ptr<CheckpointWriter>(std::move(writer));
}

}  // namespace gpusnap
