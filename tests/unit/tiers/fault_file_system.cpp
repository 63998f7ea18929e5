#include "fault_file_system.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tiers/checksum.h"
#include "tiers/io/system_call.h"

namespace gpusnap::test {

namespace {

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}
std::string name_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

uint64_t mixed(uint64_t seed, const std::string& text) {
  return checksum(text + '/' + std::to_string(seed));
}

Status read_from(const FaultFile& file, const std::string& path, uint64_t offset,
                 std::span<std::byte> bytes) {
  const uint64_t size = file.bytes().size();
  if (offset > size || bytes.size() > size - offset) {
    return {Code::kDamaged, "cannot read " + path + ": it ends too early"};
  }
  if (!bytes.empty()) std::memcpy(bytes.data(), file.bytes().data() + offset, bytes.size());
  return {};
}

}  // namespace

Status device_failure(int error) {
  return system_failed("use", "the device", error);
}

struct FaultFileSystem::Change {
  std::string path;
  std::shared_ptr<FaultFile> file;  // empty: the name goes
};

class FaultFileSystem::Writing final : public WritableFile {
 public:
  Writing(FaultFileSystem& files, std::string path, std::shared_ptr<FaultFile> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}

  // A write that fails has written its first half.
  Status append(std::span<const std::byte> bytes) override {
    std::lock_guard lock(files_.mutex_);
    Status status;
    const Go go = files_.step("append " + path_, status);
    if (files_.dead_) return status;
    const auto put = go == Go::kFail ? bytes.first(bytes.size() / 2) : bytes;
    file_->append(put);
    return status;
  }

  Status sync() override {
    std::lock_guard lock(files_.mutex_);
    Status status;
    if (files_.step("sync " + path_, status) != Go::kFail) file_->sync();
    return status;
  }

 private:
  FaultFileSystem& files_;
  const std::string path_;
  const std::shared_ptr<FaultFile> file_;
};

class FaultFileSystem::Reading final : public ReadableFile {
 public:
  Reading(std::mutex& mutex, std::string path, std::shared_ptr<FaultFile> file)
      : mutex_(mutex), path_(std::move(path)), file_(std::move(file)) {}
  uint64_t size() const override {
    std::lock_guard lock(mutex_);
    return file_->bytes().size();
  }
  Status read(uint64_t offset, std::span<std::byte> bytes) const override {
    std::lock_guard lock(mutex_);
    return read_from(*file_, path_, offset, bytes);
  }

 private:
  std::mutex& mutex_;
  const std::string path_;
  const std::shared_ptr<FaultFile> file_;
};

class FaultFileSystem::Bulk final : public BulkFile {
 public:
  Bulk(FaultFileSystem& files, std::string path, std::shared_ptr<FaultFile> file, bool writable)
      : files_(files),
        path_(std::move(path)),
        file_(std::move(file)),
        writable_(writable),
        size_(file_->bytes().size()) {}
  Bulk(const Bulk&) = delete;
  Bulk& operator=(const Bulk&) = delete;
  ~Bulk() override {
    std::unique_lock lock(files_.mutex_);
    files_.transfers_.wait(lock, this);
  }

  uint64_t size() const override {
    std::lock_guard lock(files_.mutex_);
    return size_;
  }

  // The outcome of a write is decided as it begins, and happens as it ends. A write that fails has
  // written its first half. A write that was in flight when the machine stopped has written any of
  // its blocks.
  void write(uint64_t offset, std::span<const std::byte> bytes, Done done) override {
    std::unique_lock lock(files_.mutex_);
    Status status;
    Go go = Go::kFail;
    if (writable_) {
      go = files_.step("write " + path_ + "@" + std::to_string(offset), status);
    } else {
      status = {Code::kInvalid, "cannot write " + path_ + ": it is open for reading"};
    }
    const bool reaches_device = writable_ && !(go == Go::kFail && files_.dead_);
    if (reaches_device) size_ = std::max(size_, offset + bytes.size());
    auto effect = [this, offset, bytes, go, status, reaches_device] {
      const Status result = reaches_device ? write_now(offset, bytes, go, status) : status;
      if (failure_.ok()) failure_ = result;
      return result;
    };
    files_.transfers_.begin(lock, {this, 0, go == Go::kStall, std::move(effect), std::move(done)});
  }

  void read(uint64_t offset, std::span<std::byte> bytes, Done done) override {
    std::unique_lock lock(files_.mutex_);
    Status status;
    (void)files_.by_chance("read " + path_ + "@" + std::to_string(offset), status);
    auto effect = [this, offset, bytes, status] {
      return status.ok() ? read_from(*file_, path_, offset, bytes) : status;
    };
    files_.transfers_.begin(lock, {this, 0, false, std::move(effect), std::move(done)});
  }

  Status sync() override {
    std::unique_lock lock(files_.mutex_);
    files_.transfers_.wait(lock, this);
    if (!failure_.ok()) return failure_;
    Status status;
    if (files_.step("sync " + path_, status) != Go::kFail) file_->sync();
    if (!status.ok()) failure_ = status;
    return status;
  }

 private:
  Status write_now(uint64_t offset, std::span<const std::byte> bytes, Go go, const Status& status) {
    if (files_.dead_) {
      file_->write_on_its_way(offset, bytes);
      return {Code::kIo, "cannot write " + path_ + ": the machine has stopped"};
    }
    file_->write(offset, go == Go::kFail ? bytes.first(bytes.size() / 2) : bytes);
    return status;
  }

  FaultFileSystem& files_;
  const std::string path_;
  const std::shared_ptr<FaultFile> file_;
  const bool writable_;
  uint64_t size_;
  Status failure_;  // the first of a write or a sync
};

class FaultFileSystem::Lock final : public FileLock {
 public:
  Lock(FaultFileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() override {
    std::lock_guard lock(files_.mutex_);
    files_.locks_.erase(path_);
  }

 private:
  FaultFileSystem& files_;
  const std::string path_;
};

FaultFileSystem::FaultFileSystem() {
  folders_["/"] = 1;
}
FaultFileSystem::~FaultFileSystem() = default;

void FaultFileSystem::inject(Fault fault) {
  std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
  operations_ = 0;
  log_.clear();
}

void FaultFileSystem::fail_by_chance(Chance chance) {
  std::lock_guard lock(mutex_);
  chance_ = std::move(chance);
  done_before_.clear();
}

void FaultFileSystem::end_transfers(Ending ending, uint64_t seed) {
  transfers_.set_ending(ending, seed);
}

size_t FaultFileSystem::end_some(size_t count) {
  std::unique_lock lock(mutex_);
  return transfers_.end_some(lock, count);
}

void FaultFileSystem::release() {
  std::unique_lock lock(mutex_);
  transfers_.release(lock);
}

size_t FaultFileSystem::on_their_way() const {
  std::lock_guard lock(mutex_);
  return transfers_.on_their_way();
}

void FaultFileSystem::heal() {
  std::lock_guard lock(mutex_);
  fault_.reset();
  chance_.reset();
  operations_ = 0;
  log_.clear();
}

size_t FaultFileSystem::operations() const {
  std::lock_guard lock(mutex_);
  return operations_;
}

FaultFileSystem::Go FaultFileSystem::step(const std::string& what, Status& status) {
  if (dead_) {
    status = Status(Code::kIo, "cannot " + what + ": the machine has stopped");
    return Go::kFail;
  }
  if (fault_ && what.find(fault_->where) == std::string::npos) return by_chance(what, status);
  const size_t number = operations_++;
  log_.push_back(what);
  if (!fault_ || number < fault_->operation || (number > fault_->operation && !fault_->persists)) {
    return by_chance(what, status);
  }
  if (fault_->stalls) return Go::kStall;
  if (!fault_->failure) {
    dead_ = true;
    status = Status(Code::kIo, "cannot " + what + ": the machine has stopped");
    return Go::kFail;
  }
  status = *fault_->failure;
  return fault_->takes_effect ? Go::kDoAndFail : Go::kFail;
}

FaultFileSystem::Go FaultFileSystem::by_chance(const std::string& what, Status& status) {
  if (!chance_ || chance_->one_in == 0) return Go::kDo;
  std::mt19937_64 random(mixed(chance_->seed + 0x9e3779b97f4a7c15 * done_before_[what]++, what));
  if (random() % chance_->one_in != 0) return Go::kDo;
  status = chance_->failures[random() % chance_->failures.size()];
  return random() % 2 == 0 ? Go::kFail : Go::kDoAndFail;
}

void FaultFileSystem::crash(Survival survival) {
  std::lock_guard lock(mutex_);
  size_t number = 0;
  for (const Change& change : changes_) {
    const bool even = number++ % 2 == 0;
    const bool survives = survival == Survival::kEverything || survival == Survival::kNames ||
                          (survival == Survival::kSomeNames && even) ||
                          (survival == Survival::kOtherNames && !even);
    if (!survives) continue;
    if (change.file) {
      durable_names_[change.path] = change.file;
    } else {
      durable_names_.erase(change.path);
    }
  }
  changes_.clear();
  names_ = durable_names_;
  for (auto& [path, file] : names_) {
    if (survival == Survival::kNothing) {
      file->lose_what_was_not_synced();
    } else if (survival == Survival::kNames) {
      file->zero_what_was_not_synced();
    } else {
      file->lose_nothing();
    }
  }
  start_again();
}

void FaultFileSystem::crash(uint64_t seed) {
  std::lock_guard lock(mutex_);
  std::mt19937_64 random(seed);
  for (const Change& change : changes_) {
    if (random() % 2 == 0) continue;
    if (change.file) {
      durable_names_[change.path] = change.file;
    } else {
      durable_names_.erase(change.path);
    }
  }
  changes_.clear();
  names_ = durable_names_;
  for (auto& [path, file] : names_) {
    std::mt19937_64 of_file(mixed(seed, path));
    file->lose_some(of_file);
  }
  start_again();
}

void FaultFileSystem::start_again() {
  // The folders of a file that is back are back as well.
  for (const auto& [path, file] : names_) {
    for (size_t slash = path.rfind('/'); slash != 0 && slash != std::string::npos;
         slash = path.rfind('/', slash - 1)) {
      folders_[path.substr(0, slash)] = 1;
    }
  }
  locks_.clear();
  fault_.reset();
  chance_.reset();
  done_before_.clear();
  dead_ = false;
  operations_ = 0;
  log_.clear();
}

void FaultFileSystem::restart_process() {
  std::lock_guard lock(mutex_);
  start_again();
}

std::vector<std::byte> FaultFileSystem::content(const std::string& path) const {
  std::lock_guard lock(mutex_);
  return names_.at(path)->bytes();
}

void FaultFileSystem::put(const std::string& path, std::vector<std::byte> bytes) {
  std::lock_guard lock(mutex_);
  folders_[parent_of(path)] = 1;
  names_[path] = durable_names_[path] = std::make_shared<FaultFile>(std::move(bytes));
}

void FaultFileSystem::erase(const std::string& path) {
  std::lock_guard lock(mutex_);
  names_.erase(path);
  durable_names_.erase(path);
}

std::vector<std::string> FaultFileSystem::paths() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, file] : names_) paths.push_back(path);
  return paths;
}

bool FaultFileSystem::exists(const std::string& path) const {
  std::lock_guard lock(mutex_);
  return names_.count(path) > 0 || folders_.count(path) > 0;
}

void FaultFileSystem::forbid(const std::string& path) {
  std::lock_guard lock(mutex_);
  forbidden_[path] = 1;
}

void FaultFileSystem::allow_all() {
  std::lock_guard lock(mutex_);
  forbidden_.clear();
}

Status FaultFileSystem::missing(const std::string& what, const std::string& path) const {
  return {Code::kNotFound, "cannot " + what + " " + path + ": No such file or directory"};
}

bool FaultFileSystem::folder_exists(const std::string& folder) const {
  return folders_.count(folder) > 0;
}

void FaultFileSystem::set_name(const std::string& path, std::shared_ptr<FaultFile> file) {
  if (file) {
    names_[path] = file;
  } else {
    names_.erase(path);
  }
  changes_.push_back({path, std::move(file)});
}

// With the lock held, as existing_file().
Result<std::shared_ptr<FaultFile>> FaultFileSystem::new_file(const std::string& path) {
  Status status;
  const Go go = step("create " + path, status);
  if (go == Go::kFail) return status;
  if (!folder_exists(parent_of(path))) return missing("create", path);
  if (names_.count(path) > 0) return Status(Code::kInvalid, "cannot create " + path + ": exists");
  auto file = std::make_shared<FaultFile>();
  set_name(path, file);
  if (go == Go::kDoAndFail) return status;
  return file;
}

Result<std::shared_ptr<FaultFile>> FaultFileSystem::existing_file(const std::string& path) const {
  if (forbidden_.count(path) > 0) {
    return Status(Code::kPermission, "cannot open " + path + ": Permission denied");
  }
  const auto found = names_.find(path);
  if (found == names_.end()) return missing("open", path);
  return found->second;
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::create(const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto file = new_file(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<WritableFile>(std::make_unique<Writing>(*this, path, file.value()));
}

Result<std::unique_ptr<ReadableFile>> FaultFileSystem::open(const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto file = existing_file(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<ReadableFile>(std::make_unique<Reading>(mutex_, path, file.value()));
}

Result<std::unique_ptr<BulkFile>> FaultFileSystem::create_bulk(const std::string& path,
                                                               uint64_t reserve) {
  std::lock_guard lock(mutex_);
  const auto file = new_file(path);
  if (!file.ok()) return file.status();
  constexpr uint64_t kAhead = 100'000;
  file.value()->reserve(reserve == kRoomAhead ? kAhead : reserve);
  return std::unique_ptr<BulkFile>(std::make_unique<Bulk>(*this, path, file.value(), true));
}

Result<std::unique_ptr<BulkFile>> FaultFileSystem::open_bulk(const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto file = existing_file(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<BulkFile>(std::make_unique<Bulk>(*this, path, file.value(), false));
}

Result<std::unique_ptr<BulkFile>> FaultFileSystem::continue_bulk(const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto file = existing_file(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<BulkFile>(std::make_unique<Bulk>(*this, path, file.value(), true));
}

Status FaultFileSystem::shorten(const std::string& path, uint64_t size) {
  std::lock_guard lock(mutex_);
  Status status;
  const Go go = step("shorten " + path, status);
  if (go == Go::kFail) return status;
  const auto file = existing_file(path);
  if (!file.ok()) return file.status();
  if (file.value()->bytes().size() < size) {
    return {Code::kDamaged, "cannot shorten " + path + ": it ends too early"};
  }
  file.value()->shorten(size);
  file.value()->sync();
  return status;
}

Result<std::vector<FolderEntry>> FaultFileSystem::entries(const std::string& folder) {
  std::lock_guard lock(mutex_);
  if (forbidden_.count(folder) > 0) {
    return Status(Code::kPermission, "cannot read folder " + folder + ": Permission denied");
  }
  if (!folder_exists(folder)) return missing("read folder", folder);
  std::vector<FolderEntry> entries;
  for (const auto& [path, file] : names_) {
    if (parent_of(path) == folder)
      entries.push_back({name_of(path), false, file->bytes().size(), 1});
  }
  for (const auto& [path, there] : folders_) {
    if (path != "/" && parent_of(path) == folder) entries.push_back({name_of(path), true, 0, 1});
  }
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return entries;
}

Status FaultFileSystem::make_folder(const std::string& folder) {
  std::lock_guard lock(mutex_);
  if (folder_exists(folder)) return {};
  Status status;
  if (step("make folder " + folder, status) == Go::kFail) return status;
  for (size_t slash = folder.find('/', 1); slash != std::string::npos;
       slash = folder.find('/', slash + 1)) {
    folders_[folder.substr(0, slash)] = 1;
  }
  folders_[folder] = 1;
  return status;
}

Status FaultFileSystem::rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  Status status;
  if (step("rename " + from, status) == Go::kFail) return status;
  const auto found = names_.find(from);
  if (found == names_.end()) return missing("rename", from);
  if (names_.count(to) > 0) return {Code::kInvalid, "cannot rename to " + to + ": exists"};
  const std::shared_ptr<FaultFile> file = found->second;
  set_name(to, file);
  set_name(from, nullptr);
  return status;
}

Status FaultFileSystem::replace(const std::string& from, const std::string& to) {
  std::lock_guard lock(mutex_);
  Status status;
  if (step("replace " + to, status) == Go::kFail) return status;
  const auto found = names_.find(from);
  if (found == names_.end()) return missing("rename", from);
  const std::shared_ptr<FaultFile> file = found->second;
  set_name(to, file);
  set_name(from, nullptr);
  return status;
}

Status FaultFileSystem::sync_folder(const std::string& folder) {
  std::lock_guard lock(mutex_);
  Status status;
  if (step("sync folder " + folder, status) == Go::kFail) return status;
  if (!folder_exists(folder)) return missing("sync folder", folder);
  std::erase_if(changes_, [&](const Change& change) {
    if (parent_of(change.path) != folder) return false;
    if (change.file) {
      durable_names_[change.path] = change.file;
    } else {
      durable_names_.erase(change.path);
    }
    return true;
  });
  return status;
}

Status FaultFileSystem::remove(const std::string& path) {
  std::lock_guard lock(mutex_);
  Status status;
  if (step("remove " + path, status) == Go::kFail) return status;
  if (names_.count(path) == 0) return missing("remove", path);
  set_name(path, nullptr);
  return status;
}

Status FaultFileSystem::remove_folder(const std::string& folder) {
  std::lock_guard lock(mutex_);
  Status status;
  if (step("remove folder " + folder, status) == Go::kFail) return status;
  const bool used = std::any_of(names_.begin(), names_.end(),
                                [&](const auto& name) { return parent_of(name.first) == folder; });
  const bool nested = std::any_of(folders_.begin(), folders_.end(), [&](const auto& there) {
    return parent_of(there.first) == folder;
  });
  if (used || nested) return {Code::kIo, "cannot remove folder " + folder + ": not empty"};
  if (!folder_exists(folder)) return missing("remove folder", folder);
  folders_.erase(folder);
  return status;
}

Result<std::unique_ptr<FileLock>> FaultFileSystem::lock(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (!folder_exists(parent_of(path))) return missing("lock", path);
  if (!locks_.emplace(path, 1).second) {
    return Status(Code::kBusy, "cannot lock " + path + ": another run holds it");
  }
  return std::unique_ptr<FileLock>(std::make_unique<Lock>(*this, path));
}

}  // namespace gpusnap::test
