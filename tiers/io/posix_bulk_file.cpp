// SPDX-License-Identifier: Apache-2.0
#include "tiers/io/posix_bulk_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <set>
#include <utility>

#include "tiers/io/io_file.h"
#include "tiers/io/system_call.h"
#include "tiers/mutex.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

constexpr uint64_t kLargestFile = std::numeric_limits<int64_t>::max();

// Takes room from one place of the file to another. 0, or the error.
int take_room(int fd, uint64_t begin, uint64_t end) {
  const auto take = [&] {
    return ::fallocate(fd, 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  };
  return uninterrupted(take) < 0 ? errno : 0;
}

// More than the process may write would end it by a signal.
uint64_t largest_allowed() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) < 0) return 0;
  return std::min<uint64_t>(limit.rlim_cur, kLargestFile);
}

// Direct writes go side by side only within a file's size: one that makes it longer waits for all
// others, and they for it. So the file grows ahead of them, by as much as it has, up to a limit,
// and is cut when it is synced. Thread-safe.
class RoomAhead {
 public:
  // `size`: of the file, up to which it has room.
  RoomAhead(uint64_t size, bool grows) : end_(grows ? size : kLargestFile) {}

  // Before something is written up to there. True where the file has become longer.
  bool reach(int fd, uint64_t end) {
    if (end <= end_.load(std::memory_order_acquire) || end < kLeast) return false;
    const MutexLock lock(mutex_);
    const uint64_t begin = end_.load(std::memory_order_relaxed);
    if (end <= begin) return false;
    const uint64_t wanted = std::min(end + std::min(end, kMost), largest_allowed());
    // Without room ahead the writes make the file grow. Room that a failure took all the same is
    // cut, too.
    const bool took = wanted >= end && take_room(fd, begin, wanted) == 0;
    end_.store(took ? wanted : kLargestFile, std::memory_order_release);
    return true;
  }
  // The file has been cut.
  void cut(uint64_t size) {
    const MutexLock lock(mutex_);
    if (end_.load(std::memory_order_relaxed) < kLargestFile) {
      end_.store(size, std::memory_order_release);
    }
  }

 private:
  static constexpr uint64_t kLeast = 4 << 20;  // a file with less is written at once
  static constexpr uint64_t kMost = 256 << 20;
  Mutex mutex_;
  std::atomic<uint64_t> end_;
};

class PosixBulkFile final : public BulkFile {
 public:
  // `reserved`: as `reserved_`.
  PosixBulkFile(IoEngine& engine, std::string path, Descriptor file, int access, uint64_t size,
                uint64_t reserved, bool grows_ahead)
      : engine_(engine),
        path_(std::move(path)),
        writable_(access == O_RDWR),
        file_(path_, std::move(file), access, engine.options().direct),
        ahead_(size, grows_ahead && file_.direct() >= 0),
        size_(size),
        reserved_(reserved) {}
  PosixBulkFile(const PosixBulkFile&) = delete;
  PosixBulkFile& operator=(const PosixBulkFile&) = delete;
  ~PosixBulkFile() override {
    if (!engine_.usable()) return;  // a forked child: nothing of this is its own
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [this]() REQUIRES(mutex_) { return writes_.empty() && reads_ == 0; });
  }

  uint64_t size() const override {
    const MutexLock lock(mutex_);
    return size_;
  }

  void write(uint64_t offset, std::span<const std::byte> bytes, Done done) override {
    // The engine only reads from there.
    begin(true, offset, {const_cast<std::byte*>(bytes.data()), bytes.size()}, std::move(done));
  }
  void read(uint64_t offset, std::span<std::byte> bytes, Done done) override {
    begin(false, offset, bytes, std::move(done));
  }

  Status sync() override {
    if (!engine_.usable()) return in_a_child();
    int error = 0;
    {
      const MutexLock lock(mutex_);
      const uint64_t begun = next_ticket_;
      changed_.wait(
          mutex_, [&]() REQUIRES(mutex_) { return writes_.empty() || *writes_.begin() >= begun; });
      if (!failure_.ok()) return failure_;
      error = cut_to_size();
    }
    // Also for what went past the cache: sizes, places and the device's own cache.
    if (error == 0 && uninterrupted([&] { return ::fdatasync(file_.cached()); }) < 0) error = errno;
    if (error == 0) {
      file_.drop_cache();
      return {};
    }
    // The system tells an error once and then takes the bytes for written. We do not.
    const MutexLock lock(mutex_);
    return failure_ = system_failed("write", path_, error);
  }

 private:
  // The size covers every write that has begun, and none begins while the lock is held.
  int cut_to_size() REQUIRES(mutex_) {
    if (reserved_ <= size_) return 0;
    reserved_ = 0;
    ahead_.cut(size_);
    const auto cut = [fd = file_.cached(), size = size_] {
      return ::ftruncate(fd, static_cast<off_t>(size));
    };
    return uninterrupted(cut) < 0 ? errno : 0;
  }

  class Transfer final : public IoTransfer {
   public:
    Transfer(PosixBulkFile& file, bool writing, uint64_t offset, std::span<std::byte> bytes)
        : IoTransfer(file.file_, writing, offset, bytes.data(), bytes.size()), file_(file) {}
    uint64_t ticket = 0;
    Done done;

   private:
    void ended(const IoOutcome& outcome) override {
      const Status status = file_.status_of(*this, outcome);
      done(status);
      done = {};
      file_.finished(*this, status);
    }
    PosixBulkFile& file_;
  };

  Status in_a_child() const {
    return {Code::kUnsupported, "cannot use " + path_ + ": a forked process has no threads for it"};
  }

  Status refusal(bool writing, uint64_t offset, uint64_t size) const {
    if (!engine_.usable()) return in_a_child();
    if (writing && !writable_) {
      return {Code::kInvalid, "cannot write " + path_ + ": it is open for reading"};
    }
    if (offset > kLargestFile || size > kLargestFile - offset) {
      return {Code::kInvalid, "cannot use " + path_ + " at byte " + std::to_string(offset) +
                                  ": no file is that large"};
    }
    return {};
  }

  void begin(bool writing, uint64_t offset, std::span<std::byte> bytes, Done done) {
    Status refused = no_throw("start a transfer", [&]() -> Status {
      Status status = refusal(writing, offset, bytes.size());
      if (!status.ok()) return status;
      auto transfer = std::make_unique<Transfer>(*this, writing, offset, bytes);
      Transfer& begun = *transfer;
      const bool is_longer = writing && ahead_.reach(file_.cached(), offset + bytes.size());
      enter(begun, is_longer);
      begun.done = std::move(done);
      std::unique_ptr<IoTransfer> handed = std::move(transfer);
      try {
        engine_.start(handed);
      } catch (...) {
        done = std::move(begun.done);
        finished(begun, {});
        throw;
      }
      return {};
    });
    if (refused.ok()) return;
    if (writing && engine_.usable()) {
      const MutexLock lock(mutex_);
      if (failure_.ok()) failure_ = refused;
    }
    done(refused);
  }

  // `is_longer`: the file is, for it.
  void enter(Transfer& transfer, bool is_longer) {
    const MutexLock lock(mutex_);
    if (is_longer) reserved_ = kLargestFile;
    if (transfer.writing()) {
      writes_.insert(next_ticket_);
      transfer.ticket = next_ticket_++;
      size_ = std::max(size_, transfer.offset() + transfer.size());
    } else {
      ++reads_;
    }
  }

  void finished(const Transfer& transfer, const Status& status) {
    const MutexLock lock(mutex_);
    if (transfer.writing()) {
      writes_.erase(transfer.ticket);
      if (failure_.ok()) failure_ = status;
    } else {
      --reads_;
    }
    changed_.notify_all();  // with the lock held: who waits may destroy the file
  }

  Status status_of(const Transfer& transfer, const IoOutcome& outcome) const {
    switch (outcome.kind) {
      case IoOutcome::Kind::kOk:
        return {};
      case IoOutcome::Kind::kFailed:
        return system_failed(transfer.writing() ? "write" : "read", path_, outcome.error);
      case IoOutcome::Kind::kFileEnded:
        break;
    }
    return file_ended(path_, outcome.offset, transfer.offset() + transfer.size());
  }

  IoEngine& engine_;
  const std::string path_;
  const bool writable_;
  IoFile file_;
  RoomAhead ahead_;

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::set<uint64_t> writes_ GUARDED_BY(mutex_);  // tickets of those on their way
  uint64_t next_ticket_ GUARDED_BY(mutex_) = 0;
  uint64_t reads_ GUARDED_BY(mutex_) = 0;  // on their way
  uint64_t size_ GUARDED_BY(mutex_);
  uint64_t reserved_
      GUARDED_BY(mutex_);  // the file's size on disk, where that may be more than was written
  Status failure_ GUARDED_BY(mutex_);  // the first of a write or a sync
};

// Takes the room at once, so that a full device is known at the beginning, the file lies in few
// pieces, and direct writes need not wait for each other (RoomAhead). A file system that knows no
// such thing does without.
int reserve_room(int fd, uint64_t bytes, uint64_t& reserved) {
  if (bytes == 0) return 0;
  const int error = take_room(fd, 0, bytes);
  if (error == 0) reserved = bytes;
  const bool no_room = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
  return no_room ? error : 0;
}

}  // namespace

Result<std::unique_ptr<BulkFile>> create_bulk_file(IoEngine& engine, const std::string& path,
                                                   uint64_t reserve) {
  Descriptor file = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL);
  if (!file.valid()) return system_failed("create", path, errno);
  const bool grows_ahead = reserve == kRoomAhead;
  const uint64_t wanted = grows_ahead ? 0 : std::min(reserve, kLargestFile);
  uint64_t reserved = 0;
  if (const int error = reserve_room(file.get(), wanted, reserved); error != 0) {
    ::unlink(path.c_str());
    return system_failed("create", path, error);
  }
  return std::unique_ptr<BulkFile>(std::make_unique<PosixBulkFile>(
      engine, path, out_of_the_way(std::move(file)), O_RDWR, 0, reserved, grows_ahead));
}

Result<std::unique_ptr<BulkFile>> continue_bulk_file(IoEngine& engine, const std::string& path) {
  Descriptor file = open_descriptor(path, O_RDWR | O_NOFOLLOW);
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) < 0) return system_failed("open", path, errno);
  return std::unique_ptr<BulkFile>(std::make_unique<PosixBulkFile>(
      engine, path, std::move(file), O_RDWR, static_cast<uint64_t>(about.st_size), 0, false));
}

Result<std::unique_ptr<BulkFile>> open_bulk_file(IoEngine& engine, const std::string& path) {
  Result<OpenedFile> file = open_to_read(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<BulkFile>(std::make_unique<PosixBulkFile>(
      engine, path, out_of_the_way(std::move(file->file)), O_RDONLY, file->size, 0, false));
}

}  // namespace gpusnap
