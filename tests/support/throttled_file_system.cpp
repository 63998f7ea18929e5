#include "throttled_file_system.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace gpusnap::test {

namespace {

// So often a transfer looks at how many others there are.
constexpr uint64_t kSliceBytes = 128 << 10;
// A thread that was woken late makes up for it, as long as it has been at it without a pause. For
// whoever waits for each call to return that is so much as lies between two of them.
constexpr int64_t kBetweenCalls_ns = 2'000'000;

class RealPace final : public Pace {
 public:
  int64_t now_ns() override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void sleep_until(int64_t ns) override {
    std::this_thread::sleep_until(
        std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns)));
  }
};

}  // namespace

Pace& real_pace() {
  static RealPace pace;
  return pace;
}

double DeviceRates::total(uint32_t files, double seconds) const {
  if (points.empty()) return 0;
  double factor = 1;
  for (const Change& change : schedule) {
    if (seconds >= change.after_seconds) factor = change.factor;
  }
  if (files <= points.front().files) return factor * points.front().bytes_per_second;
  for (size_t i = 1; i < points.size(); ++i) {
    const Point& low = points[i - 1];
    const Point& high = points[i];
    if (files > high.files) continue;
    const double part = double(files - low.files) / double(high.files - low.files);
    return factor * (low.bytes_per_second + part * (high.bytes_per_second - low.bytes_per_second));
  }
  return factor * points.back().bytes_per_second;
}

class ThrottledFileSystem::Device {
 public:
  Device(ThrottledFolder about, Pace& pace) : about_(std::move(about)), pace_(pace) { start(); }

  const std::string& folder() const { return about_.folder; }
  void start() { started_ns_ = pace_.now_ns(); }
  Moved moved() const { return {written_, read_, most_files_}; }

  // A file that moves bytes from now on, until leave(). `next_ns` is the file's own: when its last
  // slice ended. A `pause_ns` since then is none.
  void enter(int64_t& next_ns, int64_t pause_ns) {
    next_ns = std::max(next_ns, pace_.now_ns() - pause_ns);
    const uint32_t files = ++files_;
    uint32_t most = most_files_;
    while (most < files && !most_files_.compare_exchange_weak(most, files)) {
    }
  }
  void leave() { --files_; }

  // Takes the time that it takes.
  void move(uint64_t bytes, bool writing, int64_t& next_ns) {
    (writing ? written_ : read_) += bytes;
    const DeviceRates& rates = writing ? about_.writes : about_.reads;
    while (bytes > 0) {
      const uint64_t slice = std::min(bytes, kSliceBytes);
      const uint32_t files = std::max(files_.load(), 1U);
      const double total = rates.total(files, double(pace_.now_ns() - started_ns_) / 1e9);
      if (total <= 0) return;
      next_ns += static_cast<int64_t>(double(slice) * files / total * 1e9);
      if (next_ns > pace_.now_ns()) pace_.sleep_until(next_ns);
      bytes -= slice;
    }
  }

 private:
  const ThrottledFolder about_;
  Pace& pace_;
  std::atomic<int64_t> started_ns_{0};
  std::atomic<uint32_t> files_{0};
  std::atomic<uint32_t> most_files_{0};
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> read_{0};
};

// One file's use of its device.
class ThrottledFileSystem::Mover {
 public:
  explicit Mover(Device& device) : device_(device) {}
  void move(uint64_t bytes, bool writing) {
    device_.enter(next_ns_, kBetweenCalls_ns);
    device_.move(bytes, writing, next_ns_);
    device_.leave();
  }

 private:
  Device& device_;
  int64_t next_ns_ = 0;
};

class ThrottledFileSystem::Writable final : public WritableFile {
 public:
  Writable(std::unique_ptr<WritableFile> file, Device& device)
      : file_(std::move(file)), mover_(device) {}
  Status append(std::span<const std::byte> bytes) override {
    mover_.move(bytes.size(), true);
    return file_->append(bytes);
  }
  Status sync() override { return file_->sync(); }

 private:
  std::unique_ptr<WritableFile> file_;
  Mover mover_;
};

class ThrottledFileSystem::Readable final : public ReadableFile {
 public:
  Readable(std::unique_ptr<ReadableFile> file, Device& device)
      : file_(std::move(file)), device_(device) {}
  uint64_t size() const override { return file_->size(); }
  Status read(uint64_t offset, std::span<std::byte> bytes) const override {
    Mover(device_).move(bytes.size(), false);
    return file_->read(offset, bytes);
  }

 private:
  std::unique_ptr<ReadableFile> file_;
  Device& device_;
};

// Its transfers pass the throttle one after the other, in the order in which they were begun, and
// then go to the real file, which ends them.
class ThrottledFileSystem::Bulk final : public BulkFile {
 public:
  Bulk(std::unique_ptr<BulkFile> file, Device& device)
      : file_(std::move(file)), device_(device), thread_([this] { work(); }) {}
  ~Bulk() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  uint64_t size() const override {
    const std::lock_guard lock(mutex_);
    return std::max(furthest_, file_->size());
  }
  void write(uint64_t offset, std::span<const std::byte> bytes, Done done) override {
    queue({true, bytes.size(),
           [this, offset, bytes, done = std::move(done)]() mutable {
             file_->write(offset, bytes, std::move(done));
           }},
          offset + bytes.size());
  }
  void read(uint64_t offset, std::span<std::byte> bytes, Done done) override {
    queue({false, bytes.size(),
           [this, offset, bytes, done = std::move(done)]() mutable {
             file_->read(offset, bytes, std::move(done));
           }},
          0);
  }
  Status sync() override {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return queue_.empty() && !moving_; });
    }
    return file_->sync();
  }

 private:
  struct Transfer {
    bool writing = false;
    uint64_t bytes = 0;
    std::function<void()> begin;
  };

  void queue(Transfer transfer, uint64_t end) {
    {
      const std::lock_guard lock(mutex_);
      furthest_ = std::max(furthest_, end);
      queue_.push_back(std::move(transfer));
    }
    changed_.notify_all();
  }

  void work() {
    int64_t next_ns = 0;
    bool entered = false;
    for (;;) {
      Transfer transfer;
      {
        std::unique_lock lock(mutex_);
        moving_ = false;
        if (queue_.empty()) {
          if (entered) device_.leave();
          entered = false;
          changed_.notify_all();
        }
        changed_.wait(lock, [this] { return ends_ || !queue_.empty(); });
        if (queue_.empty()) return;
        transfer = std::move(queue_.front());
        queue_.pop_front();
        moving_ = true;
      }
      if (!entered) device_.enter(next_ns, 0);
      entered = true;
      device_.move(transfer.bytes, transfer.writing, next_ns);
      transfer.begin();
    }
  }

  std::unique_ptr<BulkFile> file_;
  Device& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Transfer> queue_;
  bool moving_ = false;
  bool ends_ = false;
  uint64_t furthest_ = 0;
  std::thread thread_;
};

ThrottledFileSystem::ThrottledFileSystem(FileSystem& files, std::vector<ThrottledFolder> folders,
                                         Pace& pace)
    : ForwardingFileSystem(files), files_(files) {
  for (ThrottledFolder& folder : folders) {
    devices_.push_back(std::make_unique<Device>(std::move(folder), pace));
  }
}

ThrottledFileSystem::~ThrottledFileSystem() = default;

void ThrottledFileSystem::start() {
  for (const auto& device : devices_) device->start();
}

ThrottledFileSystem::Moved ThrottledFileSystem::moved(size_t folder) const {
  return devices_[folder]->moved();
}

ThrottledFileSystem::Device* ThrottledFileSystem::device_of(const std::string& path) const {
  Device* found = nullptr;
  for (const auto& device : devices_) {
    const std::string& folder = device->folder();
    const bool below = path.starts_with(folder) && path.size() > folder.size() &&
                       (folder.ends_with('/') || path[folder.size()] == '/');
    if (below && (found == nullptr || folder.size() > found->folder().size())) {
      found = device.get();
    }
  }
  return found;
}

Result<std::unique_ptr<WritableFile>> ThrottledFileSystem::create(const std::string& path) {
  auto file = files_.create(path);
  Device* const device = device_of(path);
  if (!file.ok() || device == nullptr) return file;
  return std::unique_ptr<WritableFile>(
      std::make_unique<Writable>(std::move(file.value()), *device));
}

Result<std::unique_ptr<ReadableFile>> ThrottledFileSystem::open(const std::string& path) {
  auto file = files_.open(path);
  Device* const device = device_of(path);
  if (!file.ok() || device == nullptr) return file;
  return std::unique_ptr<ReadableFile>(
      std::make_unique<Readable>(std::move(file.value()), *device));
}

Result<std::unique_ptr<BulkFile>> ThrottledFileSystem::create_bulk(const std::string& path,
                                                                   uint64_t reserve) {
  auto file = files_.create_bulk(path, reserve);
  Device* const device = device_of(path);
  if (!file.ok() || device == nullptr) return file;
  return std::unique_ptr<BulkFile>(std::make_unique<Bulk>(std::move(file.value()), *device));
}

Result<std::unique_ptr<BulkFile>> ThrottledFileSystem::continue_bulk(const std::string& path) {
  auto file = files_.continue_bulk(path);
  Device* const device = device_of(path);
  if (!file.ok() || device == nullptr) return file;
  return std::unique_ptr<BulkFile>(std::make_unique<Bulk>(std::move(file.value()), *device));
}

Result<std::unique_ptr<BulkFile>> ThrottledFileSystem::open_bulk(const std::string& path) {
  auto file = files_.open_bulk(path);
  Device* const device = device_of(path);
  if (!file.ok() || device == nullptr) return file;
  return std::unique_ptr<BulkFile>(std::make_unique<Bulk>(std::move(file.value()), *device));
}

}  // namespace gpusnap::test
