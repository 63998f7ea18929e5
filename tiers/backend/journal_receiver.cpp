#include "tiers/backend/journal_receiver.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tiers/backend/checkpoint_receiver.h"
#include "tiers/backend/folders.h"
#include "tiers/backend/job_thread.h"
#include "tiers/backend/journal_spill.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

// Slots that the store was asked to take and has not: they cannot go elsewhere any more, so in an
// outage each journal keeps so many.
constexpr uint64_t kMostOnWay = 1;

// A spill's file. With the receiver's lock held.
struct Spill {
  std::string path;
  std::function<void()> give_back;  // null: an earlier backend has made it
  size_t left = 0;                  // slots in it that are not in the journal's file
  bool closed = false;              // nothing is added any more
  bool counted = false;             // among those that a backend that takes over has to find
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
    const std::lock_guard lock(mutex_);
    if (!all_arrived_) added_.insert(slot.sequence);
    waiting_.push_back(std::move(slot));
    changed_.notify_all();
  }

  void all_found() override {
    const std::lock_guard lock(mutex_);
    all_arrived_ = true;
    settle_found();
  }

  void seal(uint64_t slots) override {
    const std::lock_guard lock(mutex_);
    sealed_ = slots;
    changed_.notify_all();
  }

  bool keeps_slots() const override {
    const std::lock_guard lock(mutex_);
    return found_ && status_.ok() && spilling_ == 0 && !waiting_.empty();
  }

  void spill(SpillRoom room) override {
    const auto spill = std::make_shared<Spill>();
    spill->path = std::move(room.path);
    spill->give_back = std::move(room.give_back);
    {
      const std::lock_guard lock(mutex_);
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
      const std::lock_guard lock(mutex_);
      keeps_spills_ = true;
    }
    end();
  }

  Status make_durable(uint64_t slots, const std::function<bool()>& gave_up) override {
    constexpr auto kLook = std::chrono::milliseconds(20);
    std::unique_lock lock(mutex_);
    wanted_ = std::max(wanted_, slots);
    changed_.notify_all();
    while (status_.ok() && durable_ < slots && !left_) {
      if (sealed_ && *sealed_ < slots) {
        return {Code::kInvalid,
                "journal part " + setting_.file + " ended before the checkpoint's cut"};
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
  struct Spilled {
    SpilledSlot slot;
    SpillPtr in;
  };
  // A slot that is being written to the journal's file.
  struct Writing {
    Slot slot;
    SpillPtr from;                  // null: from the staging area
    SpilledSlot spilled;            // in `from`
    std::vector<std::byte> buffer;  // of the slot's bytes then
  };

  void end() {
    const std::lock_guard lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }
  bool has_left() const {
    const std::lock_guard lock(mutex_);
    return left_;
  }

  void body() {
    if (setting_.find_spills && !take_spills()) return;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] {
        return left_ || !emptied_.empty() || (found_ && (has_work() || sync_is_due() || is_over()));
      });
      if (left_) return;
      if (!emptied_.empty()) {
        remove_emptied(lock);
      } else if (has_work()) {
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

  // With the lock held, as all below, unless they say otherwise; those that are given it let it go
  // meanwhile.
  bool has_work() const {
    if (!status_.ok()) return !waiting_.empty();
    return on_way_ < kMostOnWay && !(waiting_.empty() && spilled_.empty());
  }
  bool sync_is_due() const {
    const uint64_t wanted = std::max(wanted_, sealed_.value_or(0));
    return status_.ok() && durable_ < wanted && leading_ >= std::min(wanted, last()) &&
           leading_ > durable_;
  }
  uint64_t last() const { return sealed_.value_or(UINT64_MAX); }
  bool is_over() const {
    if (on_way_ > 0 || spilling_ > 0) return false;
    return !status_.ok() || (sealed_ && durable_ >= *sealed_);
  }

  void settle_found() {
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

  void count_leading() {
    while (!written_.empty() && *written_.begin() == leading_) {
      written_.erase(written_.begin());
      ++leading_;
    }
  }

  // Without the lock. False: it is to leave.
  bool take_spills() {
    for (;;) {
      const Status read = read_spills();
      std::unique_lock lock(mutex_);
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
      if (changed_.wait_for(lock, setting_.look_again, [&] { return left_; })) return false;
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
        const std::lock_guard lock(mutex_);
        for (const SpilledSlot& slot : slots.value()) spilled_.push_back({slot, spill});
        if (slots->empty()) {
          emptied_.push_back(spill);
          continue;
        }
        ++found;
        spill->counted = true;
      }
      if (found < setting_.spills_before) return missing(setting_.spills_before - found);
      const std::lock_guard lock(mutex_);
      set_spills(found);
      return {};
    });
  }

  // An earlier backend had other local tiers, or somebody has removed them.
  Status missing(uint32_t count) const {
    return {Code::kNotFound,
            "journal " + setting_.file + ": " + std::to_string(count) +
                " file(s) with parts of it are not on the local tiers, so it cannot be completed; "
                "GPUSNAP_SSD has to name the same folders for all programs of this node"};
  }

  void set_spills(uint32_t count) {
    spills_ = count;
    actions_.spills(count);
  }

  void write(std::unique_lock<std::mutex>& lock) {
    if (!status_.ok()) {
      unwritten_.insert(unwritten_.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
      return;
    }
    const auto writing = std::make_shared<Writing>(take_next());
    ++on_way_;
    lock.unlock();
    Status ready = open();
    if (ready.ok() && writing->from) ready = read_back(*writing);
    if (ready.ok()) {
      file_->write(writing->slot.offset, writing->slot.bytes,
                   [this, writing](const Status& status) { ended(*writing, status); });
    } else {
      ended(*writing, ready);
    }
    lock.lock();
  }

  // Slots keep memory, so they come first.
  Writing take_next() {
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

  // Without the lock.
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

  // Called without the lock. A slot that is not in the file stays in the staging area until the
  // failure was reported: a backend that takes over before that would take the slot for written.
  void ended(Writing& writing, const Status& status) {
    if (status.ok() && !writing.from) writing.slot.release(true);
    const std::lock_guard lock(mutex_);
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

  // Without the lock, by the thread of the spills.
  void move_waiting(const SpillPtr& spill, uint64_t bytes) {
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
      const std::lock_guard lock(mutex_);
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

  // Without the lock.
  std::optional<Slot> take_fitting(const SpillWriter& writer, uint64_t room) {
    const std::lock_guard lock(mutex_);
    if (left_ || waiting_.empty()) return std::nullopt;
    if (writer.size_with(waiting_.front().bytes.size()) > room) return std::nullopt;
    Slot slot = std::move(waiting_.front());
    waiting_.pop_front();
    return slot;
  }

  // Without the lock.
  void count(Spill& spill) {
    const std::lock_guard lock(mutex_);
    spill.counted = true;
    set_spills(spills_ + 1);
  }

  // Without the lock. Whether no slot is left in it.
  bool close(const SpillPtr& spill) {
    const std::lock_guard lock(mutex_);
    --spilling_;
    spill->closed = true;
    changed_.notify_all();
    if (spill->left > 0) return false;
    uncount(*spill);
    return true;
  }

  void note_if_empty(const SpillPtr& spill) {
    if (!spill->closed || spill->left > 0) return;
    uncount(*spill);
    emptied_.push_back(spill);
  }

  void uncount(Spill& spill) {
    if (std::exchange(spill.counted, false)) set_spills(spills_ - 1);
  }

  void remove_emptied(std::unique_lock<std::mutex>& lock) {
    const std::vector<SpillPtr> emptied = std::exchange(emptied_, {});
    lock.unlock();
    for (const SpillPtr& spill : emptied) remove(*spill);
    lock.lock();
  }

  // Without the lock. A file that stays does no harm: its slots would be written once more.
  void remove(Spill& spill) {
    (void)files_.remove(spill.path);
    remove_empty_folders(files_, spill.path.substr(0, spill.path.rfind('/')), 1);
    if (spill.give_back) std::exchange(spill.give_back, nullptr)();
  }

  FileSystem& files_;
  const Setting setting_;
  const std::string folder_;
  const Actions actions_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Slot> waiting_;
  std::vector<Slot> unwritten_;
  bool all_arrived_;            // that an earlier backend had seen and that are in the area
  bool spills_known_;           // of earlier backends
  bool found_;                  // both
  bool continues_ = false;      // an earlier backend has written some of the file
  std::set<uint64_t> added_;    // until then
  std::set<uint64_t> written_;  // not leading
  uint64_t leading_ = 0;        // that are written
  uint64_t durable_ = 0;
  uint64_t wanted_ = 0;
  uint64_t on_way_ = 0;  // slots
  std::optional<uint64_t> sealed_;
  bool left_ = false;
  bool keeps_spills_ = false;
  Status status_;
  std::deque<Spilled> spilled_;    // not in the file yet
  uint32_t spills_ = 0;            // that have some of these
  size_t spilling_ = 0;            // spills that slots are being moved to
  std::vector<SpillPtr> emptied_;  // to be removed

  std::unique_ptr<BulkFile> file_;  // the thread's own, as the next
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
