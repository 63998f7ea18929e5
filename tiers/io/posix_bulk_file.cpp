#include "tiers/io/posix_bulk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <set>
#include <utility>

#include "tiers/io/io_file.h"
#include "tiers/io/system_call.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

constexpr uint64_t kLargestFile = std::numeric_limits<int64_t>::max();

class PosixBulkFile final : public BulkFile {
 public:
  PosixBulkFile(IoEngine& engine, std::string path, Descriptor file, int access, uint64_t size,
                uint64_t reserved)
      : engine_(engine),
        path_(std::move(path)),
        writable_(access == O_RDWR),
        file_(path_, std::move(file), access, engine.options().direct),
        size_(size),
        reserved_(reserved) {}
  PosixBulkFile(const PosixBulkFile&) = delete;
  PosixBulkFile& operator=(const PosixBulkFile&) = delete;
  ~PosixBulkFile() override {
    if (!engine_.usable()) return;  // a forked child: nothing of this is its own
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return writes_.empty() && reads_ == 0; });
  }

  uint64_t size() const override {
    const std::lock_guard lock(mutex_);
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
    std::unique_lock lock(mutex_);
    const uint64_t begun = next_ticket_;
    changed_.wait(lock, [&] { return writes_.empty() || *writes_.begin() >= begun; });
    if (!failure_.ok()) return failure_;
    int error = cut_to_size();
    lock.unlock();
    // Also for what went past the cache: sizes, places and the device's own cache.
    if (error == 0 && uninterrupted([&] { return ::fdatasync(file_.cached()); }) < 0) error = errno;
    if (error == 0) {
      file_.drop_cache();
      return {};
    }
    // The system tells an error once and then takes the bytes for written. We do not.
    lock.lock();
    return failure_ = system_failed("write", path_, error);
  }

 private:
  // With the lock held: the size covers every write that has begun, and none begins meanwhile.
  int cut_to_size() {
    if (reserved_ <= size_) return 0;
    reserved_ = 0;
    const auto cut = [this] { return ::ftruncate(file_.cached(), static_cast<off_t>(size_)); };
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
      enter(begun);
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
      const std::lock_guard lock(mutex_);
      if (failure_.ok()) failure_ = refused;
    }
    done(refused);
  }

  void enter(Transfer& transfer) {
    const std::lock_guard lock(mutex_);
    if (transfer.writing()) {
      writes_.insert(next_ticket_);
      transfer.ticket = next_ticket_++;
      size_ = std::max(size_, transfer.offset() + transfer.size());
    } else {
      ++reads_;
    }
  }

  void finished(const Transfer& transfer, const Status& status) {
    const std::lock_guard lock(mutex_);
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

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint64_t> writes_;  // tickets of those on their way
  uint64_t next_ticket_ = 0;
  uint64_t reads_ = 0;  // on their way
  uint64_t size_;
  uint64_t reserved_;  // the file's size on disk, where that may be more than was written
  Status failure_;     // the first of a write or a sync
};

// Takes the room at once, so that a full device is known at the beginning, the file lies in few
// pieces, and direct writes need not wait for each other to make it longer: file systems let those
// go side by side only within a file's size.
int take_room(int fd, uint64_t bytes, uint64_t& reserved) {
  if (bytes == 0) return 0;
  if (uninterrupted([&] { return ::fallocate(fd, 0, 0, static_cast<off_t>(bytes)); }) == 0) {
    reserved = bytes;
    return 0;
  }
  const bool no_room = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
  return no_room ? errno : 0;
}

}  // namespace

Result<std::unique_ptr<BulkFile>> create_bulk_file(IoEngine& engine, const std::string& path,
                                                   uint64_t reserve) {
  Descriptor file = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL);
  if (!file.valid()) return system_failed("create", path, errno);
  uint64_t reserved = 0;
  if (const int error = take_room(file.get(), std::min(reserve, kLargestFile), reserved);
      error != 0) {
    ::unlink(path.c_str());
    return system_failed("create", path, error);
  }
  return std::unique_ptr<BulkFile>(
      std::make_unique<PosixBulkFile>(engine, path, std::move(file), O_RDWR, 0, reserved));
}

Result<std::unique_ptr<BulkFile>> continue_bulk_file(IoEngine& engine, const std::string& path) {
  Descriptor file = open_descriptor(path, O_RDWR | O_NOFOLLOW);
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) < 0) return system_failed("open", path, errno);
  return std::unique_ptr<BulkFile>(std::make_unique<PosixBulkFile>(
      engine, path, std::move(file), O_RDWR, static_cast<uint64_t>(about.st_size), 0));
}

Result<std::unique_ptr<BulkFile>> open_bulk_file(IoEngine& engine, const std::string& path) {
  Result<OpenedFile> file = open_to_read(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<BulkFile>(std::make_unique<PosixBulkFile>(
      engine, path, std::move(file->file), O_RDONLY, file->size, 0));
}

}  // namespace gpusnap
