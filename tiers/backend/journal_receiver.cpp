#include "tiers/backend/journal_receiver.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

class Journal final : public JournalReceiver {
 public:
  Journal(FileSystem& files, std::string path, uint64_t before, Actions actions)
      : files_(files),
        path_(std::move(path)),
        folder_(path_.substr(0, path_.rfind('/'))),
        before_(before),
        actions_(std::move(actions)),
        found_(before == 0) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() override {
    leave();
    if (join_) join_();
    file_.reset();
    for (Slot& slot : waiting_) slot.release(false);
    for (const Slot& slot : unwritten_) slot.release(false);
  }

  Status start(const Spawn& spawn) {
    Result<Join> thread = start_thread(spawn, "journal", [this] { body(); });
    if (!thread.ok()) return thread.status();
    join_ = std::move(thread.value());
    return {};
  }

  void add(Slot slot) override {
    const std::lock_guard lock(mutex_);
    if (!found_) added_.insert(slot.sequence);
    waiting_.push_back(std::move(slot));
    changed_.notify_all();
  }

  void all_found() override {
    const std::lock_guard lock(mutex_);
    if (found_) return;
    for (uint64_t sequence = 0; sequence < before_; ++sequence) {
      if (added_.count(sequence) == 0) written_.insert(sequence);
    }
    continues_ = !written_.empty();
    found_ = true;
    added_.clear();
    count_leading();
    changed_.notify_all();
  }

  void seal(uint64_t slots) override {
    const std::lock_guard lock(mutex_);
    sealed_ = slots;
    changed_.notify_all();
  }

  void leave() override {
    const std::lock_guard lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }

  Status make_durable(uint64_t slots, const std::function<bool()>& gave_up) override {
    constexpr auto kLook = std::chrono::milliseconds(20);
    std::unique_lock lock(mutex_);
    wanted_ = std::max(wanted_, slots);
    changed_.notify_all();
    while (status_.ok() && durable_ < slots && !left_) {
      if (sealed_ && *sealed_ < slots) {
        return {Code::kInvalid, "journal part " + path_ + " ended before the checkpoint's cut"};
      }
      changed_.wait_for(lock, kLook);
      lock.unlock();
      const bool enough = gave_up();
      lock.lock();
      if (enough) return {Code::kInvalid, "the checkpoint was abandoned"};
    }
    if (!status_.ok()) return status_;
    return durable_ >= slots ? Status() : Status(Code::kBusy, "the backend ends");
  }

 private:
  void body() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] {
        return left_ || (found_ && (!waiting_.empty() || sync_is_due() || is_over()));
      });
      if (left_) return;
      if (!waiting_.empty()) {
        write(lock);
      } else if (sync_is_due()) {
        sync(lock);
      } else {
        break;
      }
    }
    const Status status = status_;
    lock.unlock();
    actions_.ended(status);
  }

  // With the lock held, as all below; those that are given it let it go meanwhile.
  bool sync_is_due() const {
    const uint64_t wanted = std::max(wanted_, sealed_.value_or(0));
    return status_.ok() && durable_ < wanted && leading_ >= std::min(wanted, last()) &&
           leading_ > durable_;
  }
  uint64_t last() const { return sealed_.value_or(UINT64_MAX); }
  bool is_over() const {
    if (on_way_ > 0) return false;
    return !status_.ok() || (sealed_ && durable_ >= *sealed_);
  }

  void count_leading() {
    while (!written_.empty() && *written_.begin() == leading_) {
      written_.erase(written_.begin());
      ++leading_;
    }
  }

  void write(std::unique_lock<std::mutex>& lock) {
    std::vector<Slot> slots = std::exchange(waiting_, {});
    on_way_ += slots.size();
    const bool failed = !status_.ok();
    lock.unlock();
    Status opened = failed ? Status(Code::kIo, "it has failed before") : open();
    for (Slot& slot : slots) {
      if (!opened.ok()) {
        ended(slot, opened);
        continue;
      }
      const auto shared = std::make_shared<Slot>(std::move(slot));
      file_->write(shared->offset, shared->bytes,
                   [this, shared](const Status& status) { ended(*shared, status); });
    }
    lock.lock();
  }

  Status open() {
    if (file_) return {};
    return no_throw("open a journal", [&]() -> Status {
      auto file = files_.continue_bulk(path_);
      if (file.status().code() == Code::kNotFound && !continues_) {
        if (Status made = files_.make_folder(folder_); !made.ok()) return made;
        file = files_.create_bulk(path_, 0);
      }
      if (!file.ok()) return file.status();
      file_ = std::move(file.value());
      return {};
    });
  }

  // What is not in the file stays in the area until the failure was told: a backend that takes over
  // before that would take it for written.
  void ended(const Slot& slot, const Status& status) {
    if (status.ok()) slot.release(true);
    const std::lock_guard lock(mutex_);
    --on_way_;
    if (status.ok()) {
      if (slot.sequence >= leading_) written_.insert(slot.sequence);
      count_leading();
    } else {
      unwritten_.push_back(slot);
      if (status_.ok()) status_ = status;
    }
    changed_.notify_all();
  }

  void sync(std::unique_lock<std::mutex>& lock) {
    const uint64_t leading = leading_;
    lock.unlock();
    Status synced = open();
    if (synced.ok()) synced = file_->sync();
    if (synced.ok() && !name_synced_) synced = files_.sync_folder(folder_);
    name_synced_ = name_synced_ || synced.ok();
    if (synced.ok()) actions_.progress(leading);
    lock.lock();
    if (synced.ok()) {
      durable_ = leading;
    } else if (status_.ok()) {
      status_ = synced;
    }
    changed_.notify_all();
  }

  FileSystem& files_;
  const std::string path_;
  const std::string folder_;
  const uint64_t before_;
  const Actions actions_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> waiting_;
  std::vector<Slot> unwritten_;
  bool found_;                  // all
  bool continues_ = false;      // an earlier backend has written some of it
  std::set<uint64_t> added_;    // until then
  std::set<uint64_t> written_;  // not leading
  uint64_t leading_ = 0;        // that are written
  uint64_t durable_ = 0;
  uint64_t wanted_ = 0;
  uint64_t on_way_ = 0;  // slots
  std::optional<uint64_t> sealed_;
  bool left_ = false;
  Status status_;

  std::unique_ptr<BulkFile> file_;  // the thread's own, as the next
  bool name_synced_ = false;
  Join join_;
};

}  // namespace

Result<std::shared_ptr<JournalReceiver>> JournalReceiver::start(FileSystem& files, std::string file,
                                                                uint64_t before, Actions actions,
                                                                const Spawn& spawn) {
  using Started = Result<std::shared_ptr<JournalReceiver>>;
  return no_throw("take a journal", [&]() -> Started {
    auto journal = std::make_shared<Journal>(files, std::move(file), before, std::move(actions));
    if (Status started = journal->start(spawn); !started.ok()) return started;
    return std::shared_ptr<JournalReceiver>(std::move(journal));
  });
}

}  // namespace gpusnap
