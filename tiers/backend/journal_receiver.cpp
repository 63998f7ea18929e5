// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/journal_receiver.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tiers/backend/checkpoint_receiver.h"
#include "tiers/backend/folders.h"
#include "tiers/backend/job_thread.h"
#include "tiers/backend/journal_spill.h"
#include "tiers/mutex.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

// The most slots that are being written to the store at once. They cannot go elsewhere any more, so
// each journal keeps this many in an outage.
constexpr uint64_t kMostOnWay = 1;

// The file of a spill. Guarded by the receiver's lock.
struct Spill {
  std::string path;
  std::function<void()> give_back;  // null: an earlier backend has made it
  size_t left = 0;                  // slots in it that are not in the journal's file
  bool closed = false;              // takes no more slots
  bool counted = false;             // a backend that takes over has to find it
};
using SpillPtr = std::shared_ptr<Spill>;

class Journal final : public JournalReceiver {
 public:
  Journal(FileSystem& files, Setting setting, Actions actions)
      : files_(files),
        setting_(std::move(setting)),
        folder_(setting_.file.substr(0, setting_.file.rfind('/'))),
        actions_(std::move(actions)),
        all_arrived_(setting_.before == 0),
        spills_known_(!setting_.find_spills),
        found_(all_arrived_ && spills_known_),
        spiller_(setting_.spawn, "spill", {[this] { return has_left(); }, [](const Status&) {}}) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() override {
    end();
    if (join_) join_();
    spiller_.end();
    spiller_.join();
    file_.reset();
    for (Slot& slot : waiting_) slot.release(false);
    for (const Slot& slot : unwritten_) slot.release(false);
    for (const SpillPtr& spill : emptied_) remove(*spill);
    if (keeps_spills_) return;
    for (const Spilled& each : spilled_) remove(*each.in);
  }

  Status start() {
    Result<Join> thread = start_thread(setting_.spawn, "journal", [this] { body(); });
    if (!thread.ok()) return thread.status();
    join_ = std::move(thread.value());
    return {};
  }

  void add(Slot slot) override {
    const MutexLock lock(mutex_);
    if (!all_arrived_) added_.insert(slot.sequence);
    waiting_.push_back(std::move(slot));
    changed_.notify_all();
  }

  void all_found() override {
    const MutexLock lock(mutex_);
    all_arrived_ = true;
    settle_found();
  }

  void seal(uint64_t slots) override {
    const MutexLock lock(mutex_);
    sealed_ = slots;
    changed_.notify_all();
  }

  bool keeps_slots() const override {
    const MutexLock lock(mutex_);
    return found_ && status_.ok() && spilling_ == 0 && !waiting_.empty();
  }

  void spill(SpillRoom room) override {
    const auto spill = std::make_shared<Spill>();
    spill->path = std::move(room.path);
    spill->give_back = std::move(room.give_back);
    {
      const MutexLock lock(mutex_);
      ++spilling_;
    }
    JobThread::Job job = [this, spill, bytes = room.bytes] {
      move_waiting(spill, bytes);
      return Status();
    };
    if (spiller_.add(job)) return;
    (void)close(spill);
    spill->give_back();
  }

  void leave() override {
    {
      const MutexLock lock(mutex_);
      keeps_spills_ = true;
    }
    end();
  }

  Status make_durable(uint64_t slots, const std::function<bool()>& gave_up) override {
    constexpr auto kLook = std::chrono::milliseconds(20);
    const MutexLock lock(mutex_);
    wanted_ = std::max(wanted_, slots);
    changed_.notify_all();
    while (status_.ok() && durable_ < slots && !left_) {
      if (sealed_ && *sealed_ < slots) {
        return {Code::kInvalid,
                "journal part " + setting_.file + " ended before the checkpoint's cut"};
      }
      changed_.wait_for(mutex_, kLook);
      const Unlocked unlocked(mutex_);
      if (gave_up()) return {Code::kInvalid, "the checkpoint was abandoned"};
    }
    if (!status_.ok()) return status_;
    return durable_ >= slots ? Status() : Status(Code::kBusy, "the backend ends");
  }

 private:
  struct Spilled {
    SpilledSlot slot;
    SpillPtr in;
  };
  // A slot that is being written to the journal's file.
  struct Writing {
    Slot slot;
    SpillPtr from;                  // null: from the staging area
    SpilledSlot spilled;            // in `from`
    std::vector<std::byte> buffer;  // the slot's bytes, if it comes from a spill
  };

  void end() {
    const MutexLock lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }
  bool has_left() const {
    const MutexLock lock(mutex_);
    return left_;
  }

  void body() {
    if (setting_.find_spills && !take_spills()) return;
    const std::optional<Status> status = work();
    if (status) actions_.ended(*status);
  }

  // Runs until the journal is complete or has failed. Empty: the backend left before that.
  std::optional<Status> work() {
    const MutexLock lock(mutex_);
    for (;;) {
      changed_.wait(mutex_, [&]() REQUIRES(mutex_) {
        return left_ || !emptied_.empty() || (found_ && (has_work() || sync_is_due() || is_over()));
      });
      if (left_) return std::nullopt;
      if (!emptied_.empty()) {
        remove_emptied();
      } else if (has_work()) {
        write();
      } else if (sync_is_due()) {
        sync();
      } else {
        return status_;
      }
    }
  }

  bool has_work() const REQUIRES(mutex_) {
    if (!status_.ok()) return !waiting_.empty();
    return on_way_ < kMostOnWay && !(waiting_.empty() && spilled_.empty());
  }
  bool sync_is_due() const REQUIRES(mutex_) {
    const uint64_t wanted = std::max(wanted_, sealed_.value_or(0));
    return status_.ok() && durable_ < wanted && leading_ >= std::min(wanted, last()) &&
           leading_ > durable_;
  }
  uint64_t last() const REQUIRES(mutex_) { return sealed_.value_or(UINT64_MAX); }
  bool is_over() const REQUIRES(mutex_) {
    if (on_way_ > 0 || spilling_ > 0) return false;
    return !status_.ok() || (sealed_ && durable_ >= *sealed_);
  }

  void settle_found() REQUIRES(mutex_) {
    if (!all_arrived_ || !spills_known_ || found_) return;
    for (const Spilled& each : spilled_) added_.insert(each.slot.sequence);
    for (uint64_t sequence = 0; sequence < setting_.before; ++sequence) {
      if (added_.count(sequence) == 0) written_.insert(sequence);
    }
    continues_ = !written_.empty();
    found_ = true;
    added_.clear();
    count_leading();
    changed_.notify_all();
  }

  void count_leading() REQUIRES(mutex_) {
    while (!written_.empty() && *written_.begin() == leading_) {
      written_.erase(written_.begin());
      ++leading_;
    }
  }

  // Returns false if the backend leaves.
  bool take_spills() {
    for (;;) {
      const Status read = read_spills();
      const MutexLock lock(mutex_);
      if (read.ok()) {
        spills_known_ = true;
        settle_found();
        return true;
      }
      spilled_.clear();
      if (!is_of_device(read)) {
        status_ = read;
        spills_known_ = true;
        settle_found();
        return true;
      }
      if (changed_.wait_for(mutex_, setting_.look_again, [&]() REQUIRES(mutex_) { return left_; }))
        return false;
    }
  }

  Status read_spills() {
    return no_throw("look for a journal on local tiers", [&]() -> Status {
      const auto paths = setting_.find_spills();
      if (!paths.ok()) return paths.status();
      uint32_t found = 0;
      for (const std::string& path : paths.value()) {
        const auto slots = find_spilled(files_, path);
        if (!slots.ok()) return slots.status();
        const auto spill = std::make_shared<Spill>(Spill{path, {}, slots->size(), true, false});
        const MutexLock lock(mutex_);
        for (const SpilledSlot& slot : slots.value()) spilled_.push_back({slot, spill});
        if (slots->empty()) {
          emptied_.push_back(spill);
          continue;
        }
        ++found;
        spill->counted = true;
      }
      if (found < setting_.spills_before) return missing(setting_.spills_before - found);
      const MutexLock lock(mutex_);
      set_spills(found);
      return {};
    });
  }

  // An earlier backend had other local tiers, or the files were removed.
  Status missing(uint32_t count) const {
    return {Code::kNotFound,
            "journal " + setting_.file + ": " + std::to_string(count) +
                " file(s) with parts of it are not on the local tiers, so it cannot be completed; "
                "GPUSNAP_SSD has to name the same folders for all programs of this node"};
  }

  void set_spills(uint32_t count) REQUIRES(mutex_) {
    spills_ = count;
    actions_.spills(count);
  }

  // Releases the lock meanwhile.
  void write() REQUIRES(mutex_) {
    if (!status_.ok()) {
      unwritten_.insert(unwritten_.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
      return;
    }
    const auto writing = std::make_shared<Writing>(take_next());
    ++on_way_;
    const Unlocked unlocked(mutex_);
    Status ready = open();
    if (ready.ok() && writing->from) ready = read_back(*writing);
    if (ready.ok()) {
      file_->write(writing->slot.offset, writing->slot.bytes,
                   [this, writing](const Status& status) { ended(*writing, status); });
    } else {
      ended(*writing, ready);
    }
  }

  // Takes waiting slots before spilled ones: they hold memory.
  Writing take_next() REQUIRES(mutex_) {
    Writing next;
    if (!waiting_.empty()) {
      next.slot = std::move(waiting_.front());
      waiting_.pop_front();
      return next;
    }
    next.from = spilled_.front().in;
    next.spilled = spilled_.front().slot;
    next.slot.sequence = next.spilled.sequence;
    next.slot.offset = next.spilled.offset;
    spilled_.pop_front();
    return next;
  }

  Status read_back(Writing& writing) const {
    auto bytes = read_spilled(files_, writing.from->path, writing.spilled);
    if (!bytes.ok()) return bytes.status();
    writing.buffer = std::move(bytes.value());
    writing.slot.bytes = writing.buffer;
    return {};
  }

  Status open() {
    if (file_) return {};
    return no_throw("open a journal", [&]() -> Status {
      auto file = files_.continue_bulk(setting_.file);
      if (file.status().code() == Code::kNotFound && !continues_) {
        if (Status made = files_.make_folder(folder_); !made.ok()) return made;
        file = files_.create_bulk(setting_.file, 0);
      }
      if (!file.ok()) return file.status();
      file_ = std::move(file.value());
      return {};
    });
  }

  // A slot that is not in the file stays in the staging area until the failure was reported: a
  // backend that takes over before that would take the slot for written.
  void ended(Writing& writing, const Status& status) EXCLUDES(mutex_) {
    if (status.ok() && !writing.from) writing.slot.release(true);
    const MutexLock lock(mutex_);
    --on_way_;
    if (status.ok()) {
      if (writing.slot.sequence >= leading_) written_.insert(writing.slot.sequence);
      count_leading();
    } else if (!writing.from) {
      unwritten_.push_back(writing.slot);
    }
    if (!status.ok() && status_.ok()) status_ = status;
    if (writing.from) {
      if (status.ok()) --writing.from->left;
      if (!status.ok()) spilled_.push_back({writing.spilled, writing.from});
      note_if_empty(writing.from);
    }
    changed_.notify_all();
  }

  // Releases the lock meanwhile.
  void sync() REQUIRES(mutex_) {
    const uint64_t leading = leading_;
    const Status synced = sync_file(leading);
    if (synced.ok()) {
      durable_ = leading;
    } else if (status_.ok()) {
      status_ = synced;
    }
    changed_.notify_all();
  }

  Status sync_file(uint64_t leading) REQUIRES(mutex_) {
    const Unlocked unlocked(mutex_);
    Status synced = open();
    if (synced.ok()) synced = file_->sync();
    if (synced.ok() && !name_synced_) synced = files_.sync_folder(folder_);
    name_synced_ = name_synced_ || synced.ok();
    if (synced.ok()) actions_.progress(leading);
    return synced;
  }

  // Called by the spill thread.
  void move_waiting(const SpillPtr& spill, uint64_t bytes) EXCLUDES(mutex_) {
    SpillWriter writer(files_, spill->path);
    bool moved = true;
    for (bool first = true; moved; first = false) {
      std::optional<Slot> slot = take_fitting(writer, first ? UINT64_MAX : bytes);
      if (!slot) break;
      const auto stored = writer.append(slot->sequence, slot->offset, slot->bytes);
      moved = stored.ok();
      if (!moved) actions_.local_failed(spill->path, stored.status());
      if (moved && first) count(*spill);
      if (moved) slot->release(true);
      const MutexLock lock(mutex_);
      if (moved) {
        spilled_.push_back({stored.value(), spill});
        ++spill->left;
      } else {
        waiting_.push_front(std::move(*slot));
      }
      changed_.notify_all();
    }
    if (close(spill)) remove(*spill);
  }

  std::optional<Slot> take_fitting(const SpillWriter& writer, uint64_t room) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (left_ || waiting_.empty()) return std::nullopt;
    if (writer.size_with(waiting_.front().bytes.size()) > room) return std::nullopt;
    Slot slot = std::move(waiting_.front());
    waiting_.pop_front();
    return slot;
  }

  void count(Spill& spill) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    spill.counted = true;
    set_spills(spills_ + 1);
  }

  // Returns whether no slot is left in it.
  bool close(const SpillPtr& spill) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    --spilling_;
    spill->closed = true;
    changed_.notify_all();
    if (spill->left > 0) return false;
    uncount(*spill);
    return true;
  }

  void note_if_empty(const SpillPtr& spill) REQUIRES(mutex_) {
    if (!spill->closed || spill->left > 0) return;
    uncount(*spill);
    emptied_.push_back(spill);
  }

  void uncount(Spill& spill) REQUIRES(mutex_) {
    if (std::exchange(spill.counted, false)) set_spills(spills_ - 1);
  }

  // Releases the lock meanwhile.
  void remove_emptied() REQUIRES(mutex_) {
    const std::vector<SpillPtr> emptied = std::exchange(emptied_, {});
    const Unlocked unlocked(mutex_);
    for (const SpillPtr& spill : emptied) remove(*spill);
  }

  // A file that cannot be removed does no harm: its slots would be written once more.
  void remove(Spill& spill) {
    (void)files_.remove(spill.path);
    remove_empty_folders(files_, spill.path.substr(0, spill.path.rfind('/')), 1);
    if (spill.give_back) std::exchange(spill.give_back, nullptr)();
  }

  FileSystem& files_;
  const Setting setting_;
  const std::string folder_;
  const Actions actions_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Slot> waiting_ GUARDED_BY(mutex_);
  std::vector<Slot> unwritten_ GUARDED_BY(mutex_);  // after a failure
  // Whether all slots have come that an earlier backend had seen and that are in the area.
  bool all_arrived_ GUARDED_BY(mutex_);
  bool spills_known_ GUARDED_BY(mutex_);           // those of earlier backends
  bool found_ GUARDED_BY(mutex_);                  // both of the above
  std::set<uint64_t> added_ GUARDED_BY(mutex_);    // slots that came before `found_`
  std::set<uint64_t> written_ GUARDED_BY(mutex_);  // slots that are written, but not leading
  uint64_t leading_ GUARDED_BY(mutex_) = 0;        // slots from the first one on that are written
  uint64_t durable_ GUARDED_BY(mutex_) = 0;        // leading slots that are durable
  uint64_t wanted_ GUARDED_BY(mutex_) = 0;         // leading slots that are to be durable
  uint64_t on_way_ GUARDED_BY(mutex_) = 0;         // slots
  std::optional<uint64_t> sealed_ GUARDED_BY(mutex_);  // slots of the whole journal
  bool left_ GUARDED_BY(mutex_) = false;
  bool keeps_spills_ GUARDED_BY(mutex_) = false;
  Status status_ GUARDED_BY(mutex_);                  // the first failure
  std::deque<Spilled> spilled_ GUARDED_BY(mutex_);    // slots that are not in the file yet
  uint32_t spills_ GUARDED_BY(mutex_) = 0;            // spills that have some of these
  size_t spilling_ GUARDED_BY(mutex_) = 0;            // spills that slots are being moved to
  std::vector<SpillPtr> emptied_ GUARDED_BY(mutex_);  // to be removed

  // Whether an earlier backend has written some of the file. Settled before `found_`.
  bool continues_ = false;

  // Used by the journal's thread alone.
  std::unique_ptr<BulkFile> file_;
  bool name_synced_ = false;
  Join join_;
  JobThread spiller_;
};

}  // namespace

Result<std::shared_ptr<JournalReceiver>> JournalReceiver::start(FileSystem& files, Setting setting,
                                                                Actions actions) {
  using Started = Result<std::shared_ptr<JournalReceiver>>;
  return no_throw("take a journal", [&]() -> Started {
    auto journal = std::make_shared<Journal>(files, std::move(setting), std::move(actions));
    if (Status started = journal->start(); !started.ok()) return started;
    return std::shared_ptr<JournalReceiver>(std::move(journal));
  });
}

}  // namespace gpusnap
