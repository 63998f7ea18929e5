// Measures the tiers: an entry that is appended to the journal while the program makes a call, the
// work around a checkpoint, and how fast large files are written and read.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>

#include "tests/support/journal_file.h"
#include "tiers/chain.h"
#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/io/io_engine.h"
#include "tiers/tiers.h"

namespace gpusnap {
namespace {

std::vector<std::byte> random_bytes(size_t size) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "gpusnap-bench-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Entries as calls make them: small, and alike.
void journal_append(benchmark::State& state) {
  const Folder folder;
  auto journal = create_journal(posix_file_system(), folder.path(), "a-r0.journal", {});
  if (!journal.ok()) return state.SkipWithError(journal.status().message().c_str());
  std::vector<std::byte> entry = random_bytes(static_cast<size_t>(state.range(0)));
  for (auto _ : state) journal.value()->append(entry, 1);
  JournalPart part = journal.value()->seal();
  if (!journal.value()->settle(part).ok()) state.SkipWithError("the journal failed");
  state.SetBytesProcessed(state.iterations() * state.range(0));
  state.counters["compressed"] =
      static_cast<double>(part.file_bytes) / static_cast<double>(part.stream_bytes);
}
BENCHMARK(journal_append)->Arg(16)->Arg(32)->Arg(128)->Arg(4096);

void checksum_of(benchmark::State& state) {
  const std::vector<std::byte> bytes = random_bytes(static_cast<size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(checksum(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(checksum_of)->Arg(64)->Arg(64 << 10)->Arg(64 << 20);

// One range of many extents.
Manifest manifest_with(uint64_t extents) {
  constexpr uint64_t kSize = 1 << 20;
  Manifest manifest;
  manifest.job = "bench";
  manifest.segments = {{"r0-a-0.segment", kSegmentHeaderBytes + extents * kSize}};
  SavedRange range;
  range.size = extents * kSize;
  manifest.ranges = {range};
  for (uint64_t i = 0; i < extents; ++i) {
    manifest.extents.push_back({0, i * kSize, kSize, 0, kSegmentHeaderBytes + i * kSize, i});
  }
  return manifest;
}

void manifest_encode(benchmark::State& state) {
  const Manifest manifest = manifest_with(static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(encode(manifest));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(manifest_encode)->Arg(10)->Arg(10'000)->Arg(1'000'000);

void manifest_decode(benchmark::State& state) {
  const std::vector<std::byte> bytes = encode(manifest_with(static_cast<uint64_t>(state.range(0))));
  for (auto _ : state) {
    if (!decode_manifest(bytes).ok()) return state.SkipWithError("it was refused");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(manifest_decode)->Arg(10)->Arg(10'000)->Arg(1'000'000);

// A full checkpoint of so many GiB and 16 increments of 1/64 of its zones each, scattered.
void place_chain(benchmark::State& state) {
  constexpr uint64_t kZone = 64 << 10;
  constexpr uint64_t kFull = 4 << 20;
  SavedRange range;
  range.size = static_cast<uint64_t>(state.range(0)) << 30;
  range.life = 1;
  std::vector<Manifest> chain(17);
  for (uint64_t i = 0; i < chain.size(); ++i) {
    Manifest& manifest = chain[i];
    manifest.ranges = {range};
    const bool full = i + 1 == chain.size();
    const uint64_t size = full ? kFull : kZone;
    uint64_t place = kSegmentHeaderBytes;
    for (uint64_t at = full ? 0 : i * 3 * kZone; at < range.size; at += full ? kFull : 64 * kZone) {
      manifest.extents.push_back({0, at, size, 0, place, 0});
      place += size;
    }
  }
  for (auto _ : state) {
    const auto pieces = place_extents(chain);
    if (!pieces.ok()) return state.SkipWithError(pieces.status().message().c_str());
    state.counters["pieces"] = static_cast<double>(pieces->size());
  }
}
BENCHMARK(place_chain)->Arg(1)->Arg(140)->Unit(benchmark::kMillisecond);

// --- Large files: the engine of bulk files beside a plain loop, in one run on one device. The
// folder is the temporary one ($TMPDIR).

constexpr uint64_t kFile = 512 << 20;
constexpr uint64_t kBlock = 16 << 20;

class AlignedMemory {
 public:
  explicit AlignedMemory(size_t size)
      : size_(size), bytes_(static_cast<std::byte*>(std::aligned_alloc(4096, size))) {
    if (bytes_ == nullptr) std::abort();
    std::mt19937_64 random(1);
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
      const uint64_t word = random();
      std::memcpy(bytes_ + at, &word, sizeof word);
    }
  }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  ~AlignedMemory() { std::free(bytes_); }
  std::span<std::byte> block(uint64_t at) { return {bytes_ + at % size_, kBlock}; }

 private:
  const size_t size_;
  std::byte* const bytes_;
};

// Bytes of file contents that the page cache holds, in the whole machine.
double page_cache() {
  std::ifstream about("/proc/meminfo");
  std::string word;
  double kib = 0;
  while (about >> word) {
    if (word == "Cached:") about >> kib;
  }
  return kib * 1024;
}

// Measures how much of the page cache a file takes while it is there.
class CacheGrowth {
 public:
  void add(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* const map = ::mmap(nullptr, kFile, PROT_READ, MAP_SHARED, fd, 0);
    std::vector<unsigned char> pages(kFile / 4096);
    if (map == MAP_FAILED || ::mincore(map, kFile, pages.data()) != 0) std::abort();
    ::munmap(map, kFile);
    ::close(fd);
    resident_ =
        4096. * std::count_if(pages.begin(), pages.end(), [](auto page) { return page & 1; });
  }
  void report(benchmark::State& state) const {
    state.counters["cached_MiB"] = resident_ / (1 << 20);                     // of the file
    state.counters["cache_grew_MiB"] = (page_cache() - before_) / (1 << 20);  // of the machine
  }

 private:
  const double before_ = page_cache();
  double resident_ = 0;
};

// Drops the file from the page cache, so that reads come from the device.
void forget(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

// One loop of large blocks, past the cache where `flags` say so, and a sync.
void plain_write(benchmark::State& state, int flags) {
  const Folder folder;
  const std::string path = folder.path() + "/file";
  AlignedMemory memory(4 * kBlock);
  CacheGrowth growth;
  for (auto _ : state) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
    bool good = ::fallocate(fd, 0, 0, kFile) == 0;
    for (uint64_t at = 0; at < kFile; at += kBlock) {
      good =
          good && ::pwrite(fd, memory.block(at).data(), kBlock, static_cast<off_t>(at)) == kBlock;
    }
    good = good && ::fdatasync(fd) == 0;
    ::close(fd);
    state.PauseTiming();
    growth.add(path);
    growth.report(state);
    std::filesystem::remove(path);
    state.ResumeTiming();
    if (!good) return state.SkipWithError("the loop failed");
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kFile));
}
BENCHMARK_CAPTURE(plain_write, direct, O_DIRECT)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(plain_write, cached, 0)->Unit(benchmark::kMillisecond)->UseRealTime();

void plain_read(benchmark::State& state, int flags) {
  const Folder folder;
  const std::string path = folder.path() + "/file";
  AlignedMemory memory(4 * kBlock);
  {
    std::ofstream file(path, std::ios::binary);
    for (uint64_t at = 0; at < kFile; at += kBlock) {
      file.write(reinterpret_cast<const char*>(memory.block(at).data()), kBlock);
    }
  }
  forget(path);
  CacheGrowth growth;
  for (auto _ : state) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
    bool good = true;
    for (uint64_t at = 0; at < kFile; at += kBlock) {
      good = good && ::pread(fd, memory.block(at).data(), kBlock, static_cast<off_t>(at)) == kBlock;
    }
    ::close(fd);
    state.PauseTiming();
    growth.add(path);
    growth.report(state);
    forget(path);
    state.ResumeTiming();
    if (!good) return state.SkipWithError("the loop failed");
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kFile));
}
BENCHMARK_CAPTURE(plain_read, direct, O_DIRECT)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(plain_read, cached, 0)->Unit(benchmark::kMillisecond)->UseRealTime();

// Four blocks on their way at a time, as a pipeline with so many slots would have.
class Window {
 public:
  BulkFile::Done next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ > 0; });
    --left_;
    return [this](const Status& status) {
      const std::lock_guard guard(mutex_);
      if (!status.ok()) failure_ = status;
      ++left_;
      changed_.notify_all();
    };
  }
  Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ == kSlots; });
    return failure_;
  }

 private:
  static constexpr int kSlots = 4;
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_ = kSlots;
  Status failure_;
};

IoOptions bulk_options(IoKind kind, bool direct) {
  IoOptions options;
  options.kind = kind;
  options.direct = direct;
  return options;
}

void bulk_write(benchmark::State& state, IoKind kind, bool direct) {
  IoEngine engine(bulk_options(kind, direct));
  if (engine.kind() != kind) return state.SkipWithError("no io_uring here");
  const auto files = posix_file_system_on(engine);
  const Folder folder;
  const std::string path = folder.path() + "/file";
  AlignedMemory memory(4 * kBlock);
  CacheGrowth growth;
  for (auto _ : state) {
    Window window;
    auto file = files->create_bulk(path, kFile);
    if (!file.ok()) return state.SkipWithError(file.status().message().c_str());
    for (uint64_t at = 0; at < kFile; at += kBlock) {
      file.value()->write(at, memory.block(at), window.next());
    }
    const Status synced = file.value()->sync();
    file.value().reset();  // or the file system would free its room later, in the measured time
    state.PauseTiming();
    growth.add(path);
    growth.report(state);
    std::filesystem::remove(path);
    state.ResumeTiming();
    if (!synced.ok()) return state.SkipWithError(synced.message().c_str());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kFile));
}
BENCHMARK_CAPTURE(bulk_write, uring, IoKind::kUring, true)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(bulk_write, threads, IoKind::kThreads, true)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(bulk_write, cached, IoKind::kThreads, false)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void bulk_read(benchmark::State& state, IoKind kind, bool direct) {
  IoEngine engine(bulk_options(kind, direct));
  if (engine.kind() != kind) return state.SkipWithError("no io_uring here");
  const auto files = posix_file_system_on(engine);
  const Folder folder;
  const std::string path = folder.path() + "/file";
  AlignedMemory memory(4 * kBlock);
  {
    Window window;
    auto file = files->create_bulk(path, kFile);
    if (!file.ok()) return state.SkipWithError(file.status().message().c_str());
    for (uint64_t at = 0; at < kFile; at += kBlock) {
      file.value()->write(at, memory.block(at), window.next());
    }
    if (!file.value()->sync().ok()) return state.SkipWithError("no file to read");
  }
  forget(path);
  CacheGrowth growth;
  for (auto _ : state) {
    Window window;
    auto file = files->open_bulk(path);
    if (!file.ok()) return state.SkipWithError(file.status().message().c_str());
    for (uint64_t at = 0; at < kFile; at += kBlock) {
      file.value()->read(at, memory.block(at), window.next());
    }
    const Status read = window.wait();
    state.PauseTiming();
    growth.add(path);
    growth.report(state);
    forget(path);
    state.ResumeTiming();
    if (!read.ok()) return state.SkipWithError(read.message().c_str());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kFile));
}
BENCHMARK_CAPTURE(bulk_read, uring, IoKind::kUring, true)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(bulk_read, threads, IoKind::kThreads, true)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(bulk_read, cached, IoKind::kThreads, false)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace gpusnap

BENCHMARK_MAIN();
