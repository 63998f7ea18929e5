// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "tiers/file_system.h"
#include "tiers/io/folder_names.h"
#include "tiers/io/posix_bulk_file.h"
#include "tiers/io/system_call.h"
#include "tiers/mutex.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

constexpr mode_t kFolderMode = 0700;
constexpr size_t kMostBytesPerCall = size_t{1} << 30;  // Linux stops short of 2 GiB anyway

std::string parent_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(Descriptor file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  Status append(std::span<const std::byte> bytes) override {
    const std::byte* data = bytes.data();
    size_t left = bytes.size();
    while (left > 0) {
      const ssize_t written = uninterrupted(
          [&] { return ::write(file_.get(), data, std::min(left, kMostBytesPerCall)); });
      if (written <= 0) return system_failed("write", path_, written < 0 ? errno : EIO);
      data += written;
      left -= static_cast<size_t>(written);
    }
    size_ += bytes.size();
    start_write_back();
    return {};
  }

  Status sync() override {
    if (uninterrupted([&] { return ::fdatasync(file_.get()); }) < 0) {
      return system_failed("write", path_, errno);
    }
    return {};
  }

 private:
  // Lets the disk begin before sync() waits for it. Only a hint: failures show in sync().
  void start_write_back() {
    constexpr uint64_t kPiece = 8 << 20;
    if (size_ - started_ < kPiece) return;
    sync_file_range(file_.get(), static_cast<off64_t>(started_),
                    static_cast<off64_t>(size_ - started_), SYNC_FILE_RANGE_WRITE);
    started_ = size_;
  }

  Descriptor file_;
  std::string path_;
  uint64_t size_ = 0;
  uint64_t started_ = 0;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(Descriptor file, std::string path, uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}

  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, std::span<std::byte> bytes) const override {
    std::byte* data = bytes.data();
    size_t left = bytes.size();
    while (left > 0) {
      const ssize_t got = uninterrupted([&] {
        return ::pread(file_.get(), data, std::min(left, kMostBytesPerCall),
                       static_cast<off_t>(offset));
      });
      if (got < 0) return system_failed("read", path_, errno);
      if (got == 0) return file_ended(path_, offset, offset + left);
      data += got;
      left -= static_cast<size_t>(got);
      offset += static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  Descriptor file_;
  std::string path_;
  uint64_t size_;
};

// Record locks do not pass to forked children, as flock() would: a killed program's children must
// not keep its job locked. But within one process they do not exclude each other, and closing any
// descriptor of the file lets go. So what this process holds is noted here and looked at before the
// file is opened at all, and taking and letting go happen one at a time.
struct HeldLocks {
  using Id = std::pair<dev_t, ino_t>;
  Mutex mutex;
  std::set<Id> held GUARDED_BY(mutex);
};

HeldLocks& held_locks() {
  static auto* locks = new HeldLocks;  // outlives every lock, also those of static objects
  return *locks;
}

class PosixFileLock final : public FileLock {
 public:
  PosixFileLock(Descriptor file, HeldLocks::Id id) : file_(std::move(file)), id_(id) {}
  PosixFileLock(const PosixFileLock&) = delete;
  PosixFileLock& operator=(const PosixFileLock&) = delete;
  ~PosixFileLock() override {
    const MutexLock lock(held_locks().mutex);
    held_locks().held.erase(id_);
    file_.reset();
  }

 private:
  std::optional<Descriptor> file_;
  HeldLocks::Id id_;
};

Status busy(const std::string& path) {
  return {Code::kBusy, "cannot lock " + path + ": another run holds it"};
}

Status cannot_lock(const std::string& path, int error) {
  Status status = system_failed("lock", path, error);
  if (error != ENOLCK && error != ENOSYS && error != EOPNOTSUPP) return status;
  return {Code::kUnsupported, status.message() + "; its file system has no locks here: mount it " +
                                  "with them (Lustre: -o flock) or choose another folder"};
}

// Returns whether the locked file still has its name: a holder that removes its lock removes the
// file, and another process may have opened the file before that.
bool has_name(const std::string& path, const struct stat& about) {
  struct stat named {};
  return ::stat(path.c_str(), &named) == 0 && named.st_dev == about.st_dev &&
         named.st_ino == about.st_ino;
}

Result<std::unique_ptr<FileLock>> lock_file(const std::string& path) {
  HeldLocks& locks = held_locks();
  const MutexLock one_at_a_time(locks.mutex);
  struct stat about {};
  if (::stat(path.c_str(), &about) == 0 && locks.held.count({about.st_dev, about.st_ino}) > 0) {
    return busy(path);
  }
  Descriptor file = open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW);
  if (!file.valid()) return system_failed("lock", path, errno);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (uninterrupted([&] { return ::fcntl(file.get(), F_SETLK, &whole); }) < 0) {
    return errno == EACCES || errno == EAGAIN ? busy(path) : cannot_lock(path, errno);
  }
  if (::fstat(file.get(), &about) < 0) return system_failed("lock", path, errno);
  if (!has_name(path, about)) return busy(path);
  const HeldLocks::Id id{about.st_dev, about.st_ino};
  locks.held.insert(id);
  return std::unique_ptr<FileLock>(std::make_unique<PosixFileLock>(std::move(file), id));
}

Result<std::unique_ptr<ReadableFile>> open_file(const std::string& path) {
  Result<OpenedFile> file = open_to_read(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<ReadableFile>(
      std::make_unique<PosixReadableFile>(std::move(file->file), path, file->size));
}

Status shorten_file(const std::string& path, uint64_t size) {
  const Descriptor file = open_descriptor(path, O_WRONLY | O_NOFOLLOW);
  struct stat about {};
  if (!file.valid() || ::fstat(file.get(), &about) < 0) return system_failed("open", path, errno);
  const auto there = static_cast<uint64_t>(about.st_size);
  if (there < size) return file_ended(path, there, size);
  const auto cut = [&] { return ::ftruncate(file.get(), static_cast<off_t>(size)); };
  if (there > size && uninterrupted(cut) < 0) return system_failed("shorten", path, errno);
  // Makes bytes durable that others have written, too.
  if (uninterrupted([&] { return ::fsync(file.get()); }) < 0) {
    return system_failed("write", path, errno);
  }
  return {};
}

Result<std::vector<FolderEntry>> list_folder(const std::string& folder) {
  FolderNames names(folder);
  std::vector<FolderEntry> entries;
  while (const char* name = names.next()) {
    struct stat about {};
    if (::fstatat(names.descriptor(), name, &about, AT_SYMLINK_NOFOLLOW) < 0) {
      if (errno == ENOENT) continue;  // it went meanwhile
      return system_failed("read folder", folder, errno);
    }
    entries.push_back({name, S_ISDIR(about.st_mode), static_cast<uint64_t>(about.st_size),
                       about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec});
  }
  if (names.error() != 0) return system_failed("read folder", folder, names.error());
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

Status sync_folder_of(const std::string& folder) {
  const Descriptor handle = open_descriptor(folder, O_RDONLY | O_DIRECTORY);
  if (!handle.valid()) return system_failed("sync folder", folder, errno);
  // Some file systems have nothing to sync in a folder and say so.
  if (uninterrupted([&] { return ::fsync(handle.get()); }) < 0 && errno != EINVAL) {
    return system_failed("sync folder", folder, errno);
  }
  return {};
}

Status make_one_folder(const std::string& folder) {
  constexpr int kMostTries = 64;
  for (int tries = 0;; ++tries) {
    if (::mkdir(folder.c_str(), kFolderMode) == 0) {
      Status synced = sync_folder_of(parent_of(folder));
      // A parent that we may write to but not read cannot be opened, so not be synced.
      return synced.code() == Code::kPermission ? Status() : synced;
    }
    const int error = errno;
    struct stat about {};
    if (::stat(folder.c_str(), &about) == 0) {
      return S_ISDIR(about.st_mode) ? Status() : system_failed("make folder", folder, ENOTDIR);
    }
    // Another rank may have taken it away between the one and the other.
    const bool gone = error == EEXIST && errno == ENOENT;
    if (!gone || tries == kMostTries) return system_failed("make folder", folder, error);
  }
}

Status make_folders(const std::string& folder) {
  for (size_t slash = folder.find('/', 1); slash != std::string::npos;
       slash = folder.find('/', slash + 1)) {
    if (folder[slash - 1] == '/') continue;
    if (Status made = make_one_folder(folder.substr(0, slash)); !made.ok()) return made;
  }
  return folder.empty() || folder.back() == '/' ? Status() : make_one_folder(folder);
}

// A network may lose the answer of a call that was done, and repeat the call. Leaves errno alone.
bool is_same_file(const std::string& one, const std::string& other) {
  const int error = errno;
  struct stat first {
  }, second{};
  const bool same = ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 &&
                    first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  errno = error;
  return same;
}

Status rename_file(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno != EINVAL && errno != ENOSYS) return system_failed("rename to", to, errno);
  // A file system without the flag. A second name is given in one step, too: two nodes may want the
  // same one for different files.
  if (::link(from.c_str(), to.c_str()) == 0 || is_same_file(from, to)) {
    return ::unlink(from.c_str()) == 0 ? Status() : system_failed("remove", from, errno);
  }
  const bool has_links = errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS;
  if (has_links) return system_failed("rename to", to, errno);
  if (::access(to.c_str(), F_OK) == 0) return system_failed("rename to", to, EEXIST);
  if (::rename(from.c_str(), to.c_str()) < 0) return system_failed("rename to", to, errno);
  return {};
}

class PosixFileSystem final : public FileSystem {
 public:
  // Null: the process's engine, made when a bulk file is.
  explicit PosixFileSystem(IoEngine* engine) : engine_(engine) {}

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return no_throw("create a file", [&]() -> Result<std::unique_ptr<WritableFile>> {
      Descriptor file = open_descriptor(path, O_WRONLY | O_CREAT | O_EXCL);
      if (!file.valid()) return system_failed("create", path, errno);
      return std::unique_ptr<WritableFile>(
          std::make_unique<PosixWritableFile>(std::move(file), path));
    });
  }
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return no_throw("open a file", [&] { return open_file(path); });
  }
  Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path,
                                                uint64_t reserve) override {
    return no_throw("create a file", [&] { return create_bulk_file(engine(), path, reserve); });
  }
  Result<std::unique_ptr<BulkFile>> open_bulk(const std::string& path) override {
    return no_throw("open a file", [&] { return open_bulk_file(engine(), path); });
  }
  Result<std::unique_ptr<BulkFile>> continue_bulk(const std::string& path) override {
    return no_throw("open a file", [&] { return continue_bulk_file(engine(), path); });
  }
  Status shorten(const std::string& path, uint64_t size) override {
    return no_throw("shorten a file", [&] { return shorten_file(path, size); });
  }
  Result<std::vector<FolderEntry>> entries(const std::string& folder) override {
    return no_throw("read a folder", [&] { return list_folder(folder); });
  }
  Status make_folder(const std::string& folder) override {
    return no_throw("make a folder", [&] { return make_folders(folder); });
  }
  Status rename(const std::string& from, const std::string& to) override {
    return no_throw("rename a file", [&] { return rename_file(from, to); });
  }
  Status replace(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0 ? Status()
                                                   : system_failed("rename to", to, errno);
  }
  Status sync_folder(const std::string& folder) override {
    return no_throw("sync a folder", [&] { return sync_folder_of(folder); });
  }
  Status remove(const std::string& path) override {
    return ::unlink(path.c_str()) == 0 ? Status() : system_failed("remove", path, errno);
  }
  Status remove_folder(const std::string& folder) override {
    return ::rmdir(folder.c_str()) == 0 ? Status() : system_failed("remove folder", folder, errno);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    return no_throw("lock a file", [&] { return lock_file(path); });
  }

 private:
  IoEngine& engine() { return engine_ != nullptr ? *engine_ : shared_io_engine(); }
  IoEngine* const engine_;
};

}  // namespace

FileSystem& posix_file_system() {
  static auto* files = new PosixFileSystem(nullptr);
  return *files;
}

std::unique_ptr<FileSystem> posix_file_system_on(IoEngine& engine) {
  return std::make_unique<PosixFileSystem>(&engine);
}

}  // namespace gpusnap
