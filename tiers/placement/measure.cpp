// SPDX-License-Identifier: Apache-2.0
#include "tiers/placement/measure.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <thread>

#include "tiers/mutex.h"
#include "tiers/no_throw.h"
#include "tiers/page_memory.h"

namespace gpusnap {

namespace {

constexpr uint32_t kMostThreads = 4096;
// Fills the slot with bytes that neither a file system nor a device can make smaller.
void make_incompressible(std::span<std::byte> slot) {
  uint64_t state = 0x9e3779b97f4a7c15;
  for (std::byte& byte : slot) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::byte>(state >> 32);
  }
}

// The slots of one file that are on their way.
class Flights {
 public:
  explicit Flights(uint32_t most) : most_(most) {}
  Flights(const Flights&) = delete;
  Flights& operator=(const Flights&) = delete;
  ~Flights() { (void)wait(0); }

  // For the place of one more. Not ok once one has failed.
  Status begin() {
    Status so_far = wait(most_ - 1);
    const MutexLock lock(mutex_);
    if (so_far.ok()) ++flying_;
    return so_far;
  }
  void end(const Status& status) {
    const MutexLock lock(mutex_);
    if (status_.ok()) status_ = status;
    --flying_;
    landed_.notify_all();
  }
  // Until no more than so many are on their way.
  Status wait(uint32_t most) {
    const MutexLock lock(mutex_);
    landed_.wait(mutex_, [&]() REQUIRES(mutex_) { return flying_ <= most; });
    return status_;
  }

 private:
  const uint32_t most_;
  Mutex mutex_;
  ConditionVariable landed_;
  uint32_t flying_ GUARDED_BY(mutex_) = 0;
  Status status_ GUARDED_BY(mutex_);
};

// All of it was written, and none is synced.
Status write_chunk(BulkFile& file, std::span<const std::byte> slot, uint64_t bytes,
                   uint32_t in_flight) {
  Flights flights(in_flight);
  for (uint64_t at = 0; at < bytes;) {
    const auto now = static_cast<size_t>(std::min<uint64_t>(bytes - at, slot.size()));
    if (Status begun = flights.begin(); !begun.ok()) return begun;
    file.write(at, slot.first(now), [&](const Status& written) { flights.end(written); });
    at += now;
  }
  return flights.wait(0);
}

struct Written {
  Status status;
  int64_t ns = 0;
};

// Threads that begin together. They are joined before what they write to goes.
class Writers {
 public:
  Writers(Clock& clock, std::span<const std::byte> slot, uint64_t bytes, uint32_t in_flight)
      : clock_(clock), slot_(slot), bytes_(bytes), in_flight_(in_flight) {}
  Writers(const Writers&) = delete;
  Writers& operator=(const Writers&) = delete;
  ~Writers() { start(Signal::kLeave); }

  std::vector<Written> write(std::span<const std::unique_ptr<BulkFile>> targets) {
    std::vector<Written> written(targets.size());
    threads_.reserve(targets.size());
    for (size_t i = 0; i < targets.size(); ++i) {
      threads_.emplace_back([this, &target = *targets[i], &mine = written[i]] {
        signal_.wait(Signal::kWait);
        if (signal_ == Signal::kWrite) mine = write_one(target);
      });
    }
    start(Signal::kWrite);
    return written;
  }

 private:
  enum class Signal { kWait, kWrite, kLeave };

  Written write_one(BulkFile& target) const {
    const int64_t begun = clock_.now_ns();
    Status status =
        no_throw("write a file", [&] { return write_chunk(target, slot_, bytes_, in_flight_); });
    return {std::move(status), clock_.now_ns() - begun};
  }

  void start(Signal signal) {
    signal_ = signal;
    signal_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  Clock& clock_;
  std::span<const std::byte> slot_;
  uint64_t bytes_;
  uint32_t in_flight_;
  std::atomic<Signal> signal_{Signal::kWait};
  std::vector<std::thread> threads_;
};

Result<ThroughputSample> sample_of(std::span<const Written> written, uint64_t bytes,
                                   const std::string& folder) {
  double ns = 0;
  for (const Written& one : written) {
    if (!one.status.ok()) return one.status;
    ns += static_cast<double>(one.ns);
  }
  const auto writers = static_cast<double>(written.size());
  ThroughputSample sample;
  sample.writers = static_cast<uint32_t>(written.size());
  // Bytes over the time of all writers is the average of one.
  sample.bytes_per_second =
      ns > 0 ? writers * (writers * static_cast<double>(bytes)) / (ns / 1e9) : 0;
  if (!(sample.bytes_per_second >= 1 && sample.bytes_per_second <= kMostBytesPerSecond)) {
    return Status(Code::kIo, "cannot measure " + folder + ": its writes took no time, or for ever");
  }
  return sample;
}

class Measuring {
 public:
  Measuring(FileSystem& files, Clock& clock, const MeasureSettings& settings)
      : files_(files),
        clock_(clock),
        settings_(settings),
        folder_(settings.folder + "/gpusnap-calibration"),
        lock_path_(folder_ + "/lock") {}
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;
  ~Measuring() {
    if (!lock_) return;
    // Files that cannot be removed now are removed when the folder is measured again.
    static_cast<void>(remove_files());
    static_cast<void>(files_.remove(lock_path_));
    static_cast<void>(files_.remove_folder(folder_));
  }

  Status prepare() {
    Result<PageMemory> memory = allocate_pages(settings_.slot_bytes);
    if (!memory.ok()) return memory.status();
    memory_ = std::move(memory.value());
    slot_ = {memory_.get(), settings_.slot_bytes};
    make_incompressible(slot_);
    if (Status made = files_.make_folder(folder_); !made.ok()) return made;
    Result<std::unique_ptr<FileLock>> lock = files_.lock(lock_path_);
    if (!lock.ok()) return lock.status();
    lock_ = std::move(lock.value());
    return remove_files();
  }

  Result<ThroughputSample> sample(uint32_t writers) {
    const uint64_t bytes = bytes_with(writers);
    if (bytes == 0) {
      return Status(Code::kNoSpace, "cannot measure " + settings_.folder + " with " +
                                        std::to_string(writers) +
                                        " writers: too few bytes may lie there; allow more bytes "
                                        "or fewer writers");
    }
    std::vector<Written> written;
    {
      std::vector<std::unique_ptr<BulkFile>> targets;
      for (uint32_t i = 0; i < writers; ++i) {
        // As for a chunk: no room is reserved.
        auto target = files_.create_bulk(folder_ + "/" + std::to_string(i), 0);
        if (!target.ok()) return target.status();
        targets.push_back(std::move(target.value()));
      }
      written = Writers(clock_, slot_, bytes, settings_.in_flight).write(targets);
    }
    if (Status removed = remove_files(); !removed.ok()) return removed;
    return sample_of(written, bytes, settings_.folder);
  }

 private:
  uint64_t bytes_with(uint32_t writers) const {
    if (settings_.most_bytes == 0) return settings_.bytes_per_writer;
    return std::min(settings_.bytes_per_writer, settings_.most_bytes / writers);
  }

  Status remove_files() {
    const auto entries = files_.entries(folder_);
    if (!entries.ok()) return entries.status();
    for (const FolderEntry& entry : entries.value()) {
      const std::string path = folder_ + "/" + entry.name;
      if (path == lock_path_ || entry.is_folder) continue;
      if (Status removed = files_.remove(path); !removed.ok()) return removed;
    }
    return {};
  }

  FileSystem& files_;
  Clock& clock_;
  const MeasureSettings& settings_;
  const std::string folder_;
  const std::string lock_path_;
  PageMemory memory_;
  std::span<std::byte> slot_;  // in it
  std::unique_ptr<FileLock> lock_;
};

Status check_settings(const MeasureSettings& settings) {
  if (settings.most_writers >= 1 && settings.most_writers <= kMostThreads &&
      settings.bytes_per_writer > 0 && settings.slot_bytes > 0 && settings.in_flight > 0) {
    return {};
  }
  return {Code::kInvalid, "cannot measure " + settings.folder + ": it takes 1 to " +
                              std::to_string(kMostThreads) +
                              " writers, and at least a byte for each of them"};
}

std::vector<uint32_t> levels_of(const MeasureSettings& settings) {
  if (!settings.every_number) return concurrency_levels(settings.most_writers);
  std::vector<uint32_t> levels(settings.most_writers);
  std::iota(levels.begin(), levels.end(), 1U);
  return levels;
}

}  // namespace

std::vector<uint32_t> concurrency_levels(uint32_t most_writers) {
  constexpr uint32_t kFewest = 5;
  const uint32_t range = std::max(most_writers, 1U) - 1;
  const uint32_t most_levels = std::max(range / 10, kFewest);
  const uint32_t step = std::max((range + most_levels - 2) / (most_levels - 1), 1U);
  std::vector<uint32_t> levels = {1};
  while (levels.back() < most_writers) levels.push_back(levels.back() + step);
  return levels;
}

Result<std::vector<ThroughputSample>> measure_throughput(
    FileSystem& files, Clock& clock, const MeasureSettings& settings,
    const std::function<bool(const MeasureProgress&)>& progress) {
  using Samples = Result<std::vector<ThroughputSample>>;
  return no_throw("measure a device", [&]() -> Samples {
    if (Status good = check_settings(settings); !good.ok()) return good;
    const std::vector<uint32_t> levels = levels_of(settings);
    Measuring measuring(files, clock, settings);
    if (Status ready = measuring.prepare(); !ready.ok()) return ready;
    std::vector<ThroughputSample> samples;
    const auto go_on = [&] {
      const auto last = samples.empty() ? ThroughputSample{} : samples.back();
      return !progress || progress({samples.size(), levels.size(), last});
    };
    for (const uint32_t writers : levels) {
      if (!go_on()) {
        return Status(Code::kInvalid, "measuring " + settings.folder + " was stopped");
      }
      Result<ThroughputSample> sample = measuring.sample(writers);
      if (!sample.ok()) return sample.status();
      samples.push_back(sample.value());
    }
    static_cast<void>(go_on());  // nothing is left to stop
    return samples;
  });
}

Result<double> measure_memory(Clock& clock, uint64_t slot_bytes) {
  // More than caches hold, as it is with slots.
  constexpr uint64_t kBytes = 64 << 20, kRounds = 4;
  Result<PageMemory> from = allocate_pages(slot_bytes);
  Result<PageMemory> to = allocate_pages(std::max(kBytes, slot_bytes));
  if (!from.ok() || !to.ok()) return from.ok() ? to.status() : from.status();
  make_incompressible({from.value().get(), slot_bytes});
  const uint64_t slots = std::max<uint64_t>(kBytes / slot_bytes, 1);
  std::vector<int64_t> took;
  for (uint64_t round = 0; round <= kRounds; ++round) {
    for (uint64_t slot = 0; slot < slots; ++slot) {
      const int64_t begun = clock.now_ns();
      std::memcpy(to.value().get() + slot * slot_bytes, from.value().get(), slot_bytes);
      // The first round touches the pages.
      if (round > 0) took.push_back(clock.now_ns() - begun);
    }
  }
  // The median: other programs interrupt a few.
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2);
  std::nth_element(took.begin(), middle, took.end());
  const double seconds = static_cast<double>(*middle) / 1e9;
  const double rate = static_cast<double>(slot_bytes) / seconds;
  if (seconds > 0 && rate >= 1 && rate <= kMostBytesPerSecond) return rate;
  return Status(Code::kIo, "cannot measure memory: copies took no time, or for ever");
}

}  // namespace gpusnap
