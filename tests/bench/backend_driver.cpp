// One node's checkpoint through the real backend, by ranks that hand it over as the preloaded
// library does, on devices as slow as is wanted: what scripts/bench store and placement run.
//
//   backend_driver FOLDER [KEY=VALUE]...     (keys: see backend_setup.h)
//
// FOLDER is empty or not there; what is made in it is removed. Prints one JSON object.
#include <sys/resource.h>

#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <mutex>
#include <random>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/backend_setup.h"
#include "tiers/backend/backend.h"
#include "tiers/backend/message.h"
#include "tiers/compression/setting.h"
#include "tiers/io/io_engine.h"
#include "tiers/manifest.h"
#include "tiers/placement/calibration.h"
#include "tiers/placement/measure.h"
#include "tiers/staging/client.h"
#include "tiers/store.h"

namespace gpusnap::bench {
namespace {

using Seconds = std::chrono::duration<double>;
using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point begun) {
  return Seconds(SteadyClock::now() - begun).count();
}

// The bytes that a rank saves. A few MiB are saved again and again: memory of a rank's size would
// not fit.
std::vector<std::byte> source_of(const Setup& setup) {
  std::vector<std::byte> bytes(setup.slot);
  if (setup.data == "random") {
    std::mt19937_64 random(1);
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      const uint64_t word = random();
      std::memcpy(&bytes[at], &word, sizeof word);
    }
  } else if (setup.data == "smooth") {
    // A field as a solver has it, with noise in its last digits.
    std::mt19937 random(1);
    std::uniform_real_distribution<float> noise(0, 1e-4F);
    for (size_t i = 0; i * 4 + 4 <= bytes.size(); ++i) {
      const float value = std::sin(static_cast<float>(i) * 1e-3F) + noise(random);
      std::memcpy(&bytes[i * 4], &value, sizeof value);
    }
  } else if (setup.data != "zeros") {
    fail("no such data: " + setup.data);
  }
  return bytes;
}

class Rank {
 public:
  Rank(StagingMemory& memory, const Setup& setup, uint32_t number, const std::string& store)
      : memory_(memory), setup_(setup), number_(number) {
    client_ = get(StagingClient::join(memory));
    text_.store = store;
    text_.job = "bench";
    text_.run = "run" + std::to_string(number);
    text_.rank = number;
    text_.compression = get(parse_compression(setup.compress));
    text_.keep = 0;
    text_.chain = setup.chain;
  }

  // All of it is the backend's when this returns.
  void hand_over(uint64_t epoch, std::span<const std::byte> source) {
    text_.epoch = epoch;
    const uint32_t stream = get(client_->open(StreamKind::kCheckpoint, encode(text_)));
    const uint64_t first = is_increment() ? epoch % setup_.every_slot * setup_.slot : 0;
    const uint64_t step = is_increment() ? setup_.every_slot * setup_.slot : setup_.slot;
    for (uint64_t at = first; at < setup_.bytes; at += step) {
      const uint64_t size = std::min<uint64_t>(setup_.slot, setup_.bytes - at);
      const Piece piece{0, at, size};
      give(stream, source.first(size), {&piece, 1});
    }
    const std::vector<std::byte> manifest = encode(manifest_of());
    ManifestText head;
    head.bytes = manifest.size();
    const std::string text = encode(head);
    std::vector<std::byte> bytes(text.size() + manifest.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    std::memcpy(bytes.data() + text.size(), manifest.data(), manifest.size());
    give(stream, bytes, {});
    client_->seal(stream);
    streams_.push_back(stream);
  }

  // Until all that was handed over is durable.
  void wait() {
    while (!streams_.empty()) {
      const uint32_t seen = client_->changes();
      if (const auto outcome = client_->outcome(streams_.front())) {
        check(*outcome);
        client_->close(streams_.front());
        streams_.pop_front();
        continue;
      }
      client_->wait(seen, std::chrono::milliseconds(20));
    }
  }

 private:
  bool is_increment() const { return setup_.every_slot > 1 && text_.epoch > 1; }

  void give(uint32_t stream, std::span<const std::byte> bytes, std::span<const Piece> pieces) {
    const uint32_t slot = get(client_->claim(std::chrono::minutes(5)));
    std::memcpy(memory_.bytes(slot).data(), bytes.data(), bytes.size());
    client_->hand_over(stream, slot, bytes.size(), pieces);
  }

  Manifest manifest_of() const {
    Manifest manifest;
    manifest.job = text_.job;
    manifest.epoch = text_.epoch;
    manifest.rank = number_;
    manifest.ranks = setup_.ranks;
    manifest.run = text_.run;
    manifest.host = "bench";
    manifest.library_version = "0";
    manifest.cut_unix_ns = std::time(nullptr) * int64_t{1'000'000'000};
    manifest.zone_bytes = 65536;
    SavedRange range;
    range.address = 0x10000;
    range.size = setup_.bytes;
    range.life = 1;
    if (is_increment()) {
      manifest.parent = text_.epoch - 1;
      manifest.chain = 1;  // the commit counts
    }
    manifest.ranges.push_back(range);
    return manifest;
  }

  StagingMemory& memory_;
  const Setup& setup_;
  const uint32_t number_;
  CheckpointText text_;
  std::unique_ptr<StagingClient> client_;
  std::deque<uint32_t> streams_;  // not durable yet
};

long peak_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A program's ranks, in step: they compute, then all save. The time in which they were held goes
// into `local_s`.
void run_ranks(const Setup& setup, std::span<const std::unique_ptr<Rank>> ranks, double& local_s) {
  const std::vector<std::byte> source = source_of(setup);
  std::barrier together(static_cast<std::ptrdiff_t>(ranks.size()));
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&] {
      for (uint64_t epoch = 1; epoch <= setup.checkpoints; ++epoch) {
        std::this_thread::sleep_for(std::chrono::milliseconds(setup.compute_ms));
        together.arrive_and_wait();
        const auto begun = SteadyClock::now();
        rank->hand_over(epoch, source);
        if (setup.synchronous) rank->wait();
        together.arrive_and_wait();
        if (rank == ranks.front()) local_s += seconds_since(begun);
      }
      rank->wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void checkpoint(const Setup& setup, test::ThrottledFileSystem& files, const Folders& folders,
                Report& report) {
  const long before = peak_kib();
  auto memory = get(StagingMemory::make_private({setup.slot, setup.cache}));
  (void)memory->grow(memory->header().slots);  // as it is once a program has run for a while
  auto backend = get(Backend::make(files, *memory, options_of(setup, folders)));
  std::thread serving([&] { backend->run(); });
  {
    std::vector<std::unique_ptr<Rank>> ranks;
    for (uint32_t i = 0; i < setup.ranks; ++i) {
      ranks.push_back(std::make_unique<Rank>(*memory, setup, i, folders.pfs));
    }
    files.start();
    const auto begun = SteadyClock::now();
    run_ranks(setup, ranks, report.local_s);
    report.complete_s = seconds_since(begun);
  }
  report.memory_bytes = static_cast<uint64_t>(peak_kib() - before) * 1024;
  backend->drain();
  serving.join();
  report.stored_bytes = files.moved(0).written;
  if (!folders.ssd.empty()) report.ssd_bytes = files.moved(1).written;
}

// The same bytes by a loop that does nothing else: what the device gives. From as much memory,
// since what is in a processor's cache is written faster.
double plain_write(const Setup& setup, FileSystem& files, const std::string& path) {
  std::vector<std::byte> memory(setup.cache);
  const std::vector<std::byte> source = source_of(setup);
  for (size_t at = 0; at < memory.size(); at += source.size()) {
    std::copy_n(source.begin(), std::min(source.size(), memory.size() - at),
                memory.begin() + static_cast<std::ptrdiff_t>(at));
  }
  const uint64_t total = setup.bytes * setup.ranks;
  std::counting_semaphore<> free(8);
  const auto begun = SteadyClock::now();
  const auto file = get(files.create_bulk(path, total));
  for (uint64_t at = 0; at < total;) {
    const uint64_t size = std::min<uint64_t>(setup.slot, total - at);
    free.acquire();
    file->write(at, std::span(memory).subspan(at % memory.size(), size), [&](const Status& status) {
      check(status);
      free.release();
    });
    at += size;
  }
  check(file->sync());
  return seconds_since(begun);
}

double plain_read(const Setup& setup, FileSystem& files, const std::string& path) {
  std::vector<std::vector<std::byte>> buffers(8, std::vector<std::byte>(setup.slot));
  std::mutex mutex;
  std::vector<size_t> free = {0, 1, 2, 3, 4, 5, 6, 7};
  std::counting_semaphore<> any(8);
  const auto begun = SteadyClock::now();
  {
    const auto file = get(files.open_bulk(path));
    const uint64_t total = file->size();
    for (uint64_t at = 0; at < total;) {
      const uint64_t size = std::min<uint64_t>(setup.slot, total - at);
      any.acquire();
      std::unique_lock lock(mutex);
      const size_t buffer = free.back();
      free.pop_back();
      lock.unlock();
      file->read(at, std::span(buffers[buffer]).first(size), [&, buffer](const Status& status) {
        check(status);
        {
          const std::lock_guard inner(mutex);
          free.push_back(buffer);
        }
        any.release();
      });
      at += size;
    }
  }
  return seconds_since(begun);
}

// Every byte of the checkpoint, verified, as a restore reads it.
double verified_read(FileSystem& files, const std::string& pfs) {
  const auto store = get(Store::open(files, pfs, false));
  const CheckpointInfo found = get(store->find("bench@1"));
  const auto begun = SteadyClock::now();
  check(store->verify(found, {}));
  return seconds_since(begun);
}

std::vector<ThroughputSample> measure(const Setup& setup, FileSystem& files,
                                      const std::string& folder, bool every_number) {
  MeasureSettings settings;
  settings.folder = folder;
  settings.most_writers = setup.writers;
  settings.bytes_per_writer = setup.chunk;
  settings.slot_bytes = setup.slot;
  settings.every_number = every_number;
  return get(measure_throughput(files, monotonic_clock(), settings, {}));
}

// The placement knows the local device through this alone.
void calibrate(const Setup& setup, FileSystem& files, const std::string& folder) {
  Calibration calibration{get(identify_device(folder)), std::time(nullptr), setup.chunk,
                          std::round(get(measure_memory(monotonic_clock(), setup.slot))),
                          measure(setup, files, folder, false)};
  for (ThroughputSample& sample : calibration.samples) {
    sample.bytes_per_second = std::round(sample.bytes_per_second);
  }
  check(save_calibration(posix_file_system(), calibration_folder(folder), calibration));
}

void print_model(const Setup& setup, FileSystem& files, const std::string& folder) {
  const auto samples = measure(setup, files, folder, false);
  const auto checked = measure(setup, files, folder, true);
  const ThroughputModel model = get(ThroughputModel::fit(samples));
  const ThroughputModel::Error error = model.error_against(checked);
  std::printf("{\"error_mean\": %.6f, \"error_most\": %.6f, \"error_most_at\": %u", error.mean,
              error.most, error.most_at);
  const auto list = [&](const char* name, std::span<const ThroughputSample> measured) {
    std::printf(", \"%s\": [", name);
    for (const ThroughputSample& sample : measured) {
      std::printf("%s[%u, %.0f, %.0f]", &sample == &measured.front() ? "" : ", ", sample.writers,
                  sample.bytes_per_second, model.total(sample.writers));
    }
    std::printf("]");
  };
  list("samples", samples);
  list("checked", checked);
  std::printf("}\n");
}

// Removes the saved files; the calibration stays.
void remove_saved(const Folders& folders) {
  std::filesystem::remove_all(folders.pfs);
  if (folders.ssd.empty()) return;
  const std::filesystem::path kept = calibration_folder(folders.ssd);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kept.parent_path(), error)) {
    if (entry.path() != kept) std::filesystem::remove_all(entry.path());
  }
}

void print(const Report& report) {
  std::printf("{\"local\": %.6f, \"complete\": %.6f, \"memory\": %llu, \"stored\": %llu",
              report.local_s, report.complete_s,
              static_cast<unsigned long long>(report.memory_bytes),
              static_cast<unsigned long long>(report.stored_bytes));
  std::printf(", \"plain_write\": %.6f, \"plain_read\": %.6f, \"read\": %.6f, \"io\": \"%s\"",
              report.plain_write_s, report.plain_read_s, report.read_s, report.io.c_str());
  std::printf(", \"ssd\": %llu}\n", static_cast<unsigned long long>(report.ssd_bytes));
}

void run(const Setup& setup) {
  const Folders folders = make_folders(setup);
  std::vector<test::ThrottledFolder> throttled = {{folders.pfs, setup.pfs, setup.pfs_reads}};
  if (!folders.ssd.empty()) throttled.push_back({folders.ssd, setup.ssd, setup.ssd_reads});
  IoOptions io;
  io.kind = setup.threads ? IoKind::kThreads : IoKind::kUring;
  IoEngine engine(io);
  const auto real = posix_file_system_on(engine);
  test::ThrottledFileSystem files(*real, throttled);
  Report report;
  report.io = engine.kind() == IoKind::kThreads ? "threads" : "io_uring";
  if (setup.what == "plain") {
    report.plain_write_s = plain_write(setup, files, folders.pfs + "/plain");
    if (setup.reads) report.plain_read_s = plain_read(setup, files, folders.pfs + "/plain");
  } else if (setup.what == "calibrate") {
    calibrate(setup, files, folders.ssd);
  } else if (setup.what == "model") {
    return print_model(setup, files, folders.ssd);
  } else {
    checkpoint(setup, files, folders, report);
    if (setup.reads) report.read_s = verified_read(files, folders.pfs);
  }
  remove_saved(folders);
  print(report);
}

}  // namespace
}  // namespace gpusnap::bench

int main(int argc, char** argv) {
  const gpusnap::bench::Setup setup = gpusnap::bench::parse_setup(argc, argv);
  gpusnap::bench::run(setup);
  return 0;
}
