// What compressing costs and gives: each form on data of several kinds, by processor time, and
// checkpoints to a store of a set speed: uncompressed, compressed block by block, and compressed in
// the pipeline, as in figures 10 to 12 of the PCCR paper. Times are relative to those of the
// uncompressed checkpoint, taken in turn with it.
//
//   compression_bench [SECONDS]   that an uncompressed checkpoint takes at most, default 0.5
#include <ctime>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/compression/blocks.h"
#include "tiers/compression/codec.h"
#include "tiers/compression/pipeline.h"
#include "tiers/compression/policy.h"
#include "tiers/compression/sample.h"
#include "tiers/compression/shuffle.h"
#include "tiers/placement/flush_average.h"
#include "tiers/staging.h"

namespace gpusnap {
namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kBlock = 4 * kMiB;
constexpr size_t kChunk = 64 * kMiB;
constexpr int kRounds = 5;

void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "compression_bench: %s\n", status.message().c_str());
  std::exit(1);
}

template <class T>
T get(Result<T> result) {
  check(result.status());
  return std::move(result.value());
}

Bytes random_floats(size_t size) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> unit(0, 1);
  std::vector<float> values(size / sizeof(float));
  for (float& value : values) value = unit(random);
  return bytes_of(values);
}

struct Kind {
  const char* name;
  Form form;  // the one that suits it
  Bytes (*make)(size_t size);
};

const Kind kKinds[] = {
    {"zeros", Form::kZstd, [](size_t size) { return Bytes(size); }},
    {"smooth floats", Form::kShuffle4, smooth_block<float>},
    {"smooth doubles", Form::kShuffle8, smooth_block<double>},
    {"random floats", Form::kShuffle4, random_floats},
    {"integers", Form::kShuffle4, [](size_t size) { return index_block(size); }},
    {"random bytes", Form::kZstd, [](size_t size) { return random_block(size); }},
};

// Processor time of this thread: other programs do not count.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The least of some rounds.
double seconds_of(const std::function<void()>& work) {
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double start = processor_seconds();
    work();
    least = std::min(least, processor_seconds() - start);
  }
  return least;
}

double gigabytes(size_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds * 1e-9;
}

void shuffles() {
  std::printf("one core, blocks of 4 MiB, GB/s      shuffle   unshuffle\n");
  const Bytes from = random_block(kBlock);
  Bytes to(kBlock);
  for (const size_t width : {size_t{2}, size_t{4}, size_t{8}}) {
    const double there = seconds_of([&] { shuffle_bytes(width, from, to); });
    const double back = seconds_of([&] { unshuffle_bytes(width, from, to); });
    std::printf("  elements of %zu bytes           %10.1f  %10.1f\n", width,
                gigabytes(kBlock, there), gigabytes(kBlock, back));
  }
}

void forms(int level) {
  std::printf("\none core, blocks of 4 MiB, level %d: part of the bytes, GB/s in, GB/s out\n",
              level);
  std::printf("%-16s", "");
  for (const Form form : kCompressedForms) std::printf("%22s", name_of(form));
  std::printf("\n");
  const auto compressor = get(Compressor::make({level, 0}, kBlock));
  const auto decompressor = get(Decompressor::make(kBlock));
  Bytes stored(2 * kBlock), again(kBlock);
  for (const Kind& kind : kKinds) {
    const Bytes block = kind.make(kBlock);
    std::printf("%-16s", kind.name);
    for (const Form form : kCompressedForms) {
      size_t size = 0;
      const double there =
          seconds_of([&] { size = get(compressor->compress(form, block, stored)); });
      const double back = seconds_of(
          [&] { check(decompressor->decompress(form, std::span(stored).first(size), again)); });
      std::printf("%8.3f %6.2f %6.2f", static_cast<double>(size) / kBlock, gigabytes(kBlock, there),
                  gigabytes(kBlock, back));
    }
    std::printf("\n");
  }
}

// What of a chunk is compressed for its sample, and how long that takes.
void samples() {
  const auto sampler = get(Sampler::make({}, monotonic_clock()));
  std::printf(
      "\nsample of a chunk of 64 MiB: %.2f %% of its bytes; ms of one core, each form at once\n",
      100 * static_cast<double>(plan_sample(kChunk).bytes()) / kChunk);
  for (const Kind& kind : kKinds) {
    const Bytes block = kind.make(kBlock);
    const std::vector<std::span<const std::byte>> chunk(kChunk / kBlock, block);
    const double seconds = seconds_of([&] { (void)get(sampler->take(chunk)); });
    std::printf("  %-16s %6.2f\n", kind.name, seconds * 1e3);
  }
}

double now() {
  return static_cast<double>(monotonic_clock().now_ns()) * 1e-9;
}

// What outlasts a checkpoint: `auto` knows the store from the one before.
class Experience {
 public:
  Policy policy{CompressionSetting()};
  std::unique_ptr<Sampler> sampler = get(Sampler::make({}, monotonic_clock()));

  void flushed(size_t bytes, double seconds) {
    const std::lock_guard lock(mutex_);
    average_.add(bytes, seconds);
  }
  double bandwidth() const {
    const std::lock_guard lock(mutex_);
    return average_.bytes_per_second();
  }

 private:
  mutable std::mutex mutex_;
  FlushAverage average_{0, 16};
};

// A store that takes so many bytes a second.
class SlowSink final : public BlockSink {
 public:
  SlowSink(double bytes_per_second, Experience& experience)
      : speed_(bytes_per_second), experience_(experience) {}

  Status append(std::span<const std::byte> bytes) override {
    const double start = now();
    free_ = std::max(start, free_) + static_cast<double>(bytes.size()) / speed_;
    std::this_thread::sleep_for(std::chrono::duration<double>(free_ - start));
    experience_.flushed(bytes.size(), now() - start);
    return {};
  }
  Status done() override { return {}; }

 private:
  const double speed_;
  Experience& experience_;
  double free_ = 0;  // when it is
};

class PlainMemory final : public SlotMemory {
 public:
  Result<std::byte*> allocate(size_t bytes) override { return new std::byte[bytes](); }
  void release(std::byte* slot, size_t) override { delete[] slot; }
};

struct Run {
  const Bytes& chunk;
  Form form;
  uint64_t chunks = 1;
  size_t block_bytes = kBlock;
  double speed = 0;  // of the store
};

// Collects each block of all chunks: it is copied into a slot, as a device does.
void collect(const Run& run, StagingPool& pool,
             const std::function<void(uint64_t chunk, Slot* slot)>& next) {
  for (uint64_t chunk = 0; chunk < run.chunks; ++chunk) {
    for (size_t at = 0; at < run.chunk.size(); at += run.block_bytes) {
      Slot* slot = get(pool.acquire());
      slot->used = std::min(run.block_bytes, run.chunk.size() - at);
      std::copy_n(run.chunk.data() + at, slot->used, slot->data);
      next(chunk, slot);
    }
  }
}

// One thread: block after block is collected, compressed, stored.
void serial(const Run& run, StagingPool& pool, Experience& experience) {
  SlowSink sink(run.speed, experience);
  const auto compressor = get(Compressor::make({}, run.block_bytes));
  Bytes stored(run.block_bytes);
  collect(run, pool, [&](uint64_t, Slot* slot) {
    const std::span<const std::byte> block(slot->data, slot->used);
    const size_t size =
        run.form == Form::kStored ? 0 : get(compressor->compress(run.form, block, stored));
    check(sink.append(size == 0 ? block : std::span<const std::byte>(stored).first(size)));
    pool.release(slot);
  });
}

enum class Choice { kRaw, kForm, kAuto };

void pipelined(const Run& run, StagingPool& pool, Experience& experience, uint32_t workers,
               Choice choice) {
  SlowSink sink(run.speed, experience);
  Policy& policy = experience.policy;
  PipelineOptions options;
  options.block_bytes = run.block_bytes;
  options.queue_blocks = options.result_blocks = 2 * workers;
  options.workers = workers;
  options.write_bytes = std::max(kMiB, run.block_bytes / kMiB * kMiB);
  const auto stream = get(CompressionPipeline::start(options, sink, monotonic_clock(), {}, {}));
  uint64_t last = UINT64_MAX;
  std::shared_ptr<ChunkCourse> course;
  collect(run, pool, [&](uint64_t chunk, Slot* slot) {
    if (choice == Choice::kAuto && chunk != last) {
      last = chunk;
      const Situation here{run.chunk.size(), run.block_bytes, workers, experience.bandwidth()};
      const std::span<const std::byte> bytes(run.chunk);
      const Decision decision =
          policy.wants_sample(here)
              ? policy.decide(here, get(experience.sampler->take({&bytes, 1})))
              : Decision();
      course = std::make_shared<ChunkCourse>(policy, here, decision);
    }
    Block block;
    block.bytes = {slot->data, slot->used};
    block.form = choice == Choice::kForm ? run.form : Form::kStored;
    block.course = course;
    block.release = [&pool, slot] { pool.release(slot); };
    check(stream->add(std::move(block)));
  });
  check(stream->finish());
}

using Mode = std::pair<const char*, std::function<void(const Run&, StagingPool&, Experience&)>>;

const std::vector<Mode>& modes() {
  static const auto staged = [](uint32_t workers, Choice choice) {
    return [workers, choice](const Run& run, StagingPool& pool, Experience& experience) {
      pipelined(run, pool, experience, workers, choice);
    };
  };
  static const std::vector<Mode> all = {{"uncompressed", staged(1, Choice::kRaw)},
                                        {"serial", serial},
                                        {"pipelined, 1", staged(1, Choice::kForm)},
                                        {"pipelined, 2", staged(2, Choice::kForm)},
                                        {"auto, 2", staged(2, Choice::kAuto)}};
  return all;
}

void heading(const char* what) {
  std::printf("\n%-24s%14s", what, "uncompressed");
  for (size_t mode = 1; mode < modes().size(); ++mode) std::printf("%14s", modes()[mode].first);
  std::printf("\n");
}

// Every mode in turn, some rounds; the median of their ratios to the uncompressed one of the round.
void compare(const std::string& name, const Run& run) {
  PlainMemory memory;
  StagingPool pool(memory, run.block_bytes, 64 * kMiB);
  Experience experience;
  std::vector<std::vector<double>> times(modes().size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t mode = 0; mode < modes().size(); ++mode) {
      const double start = now();
      modes()[mode].second(run, pool, experience);
      const double taken = now() - start;
      times[mode].push_back(mode == 0 ? taken : taken / times[0].back());
    }
  }
  std::printf("%-24s", name.c_str());
  for (size_t mode = 0; mode < modes().size(); ++mode) {
    std::nth_element(times[mode].begin(), times[mode].begin() + kRounds / 2, times[mode].end());
    std::printf(mode == 0 ? "%12.3f s" : "%14.3f", times[mode][kRounds / 2]);
  }
  std::printf("\n");
  std::fflush(stdout);
}

Run run_of(const Bytes& chunk, Form form, double speed, double seconds) {
  const double chunks = speed * seconds / static_cast<double>(chunk.size());
  return {chunk, form, static_cast<uint64_t>(std::clamp(chunks, 2.0, 16.0)), kBlock, speed};
}

void pipelines(double seconds) {
  std::printf("\ncheckpoints in chunks of 64 MiB, level 1; time relative to uncompressed\n");
  constexpr double kFigure10Speed = 200e6;
  heading("smooth floats, 200 MB/s");
  const Bytes floats = smooth_block<float>(kChunk);
  for (const size_t kib : {64, 256, 1024, 4096, 16384}) {
    Run run = run_of(floats, Form::kShuffle4, kFigure10Speed, seconds);
    run.block_bytes = kib << 10;
    compare("  blocks of " + std::to_string(kib) + " KiB", run);
  }
  heading("200 MB/s");
  for (const Kind& kind : kKinds) {
    const Bytes chunk = kind.make(kChunk);
    compare(std::string("  ") + kind.name, run_of(chunk, kind.form, kFigure10Speed, seconds));
  }
  for (const Kind& kind : {kKinds[1], kKinds[3], kKinds[5]}) {
    heading(kind.name);
    const Bytes chunk = kind.make(kChunk);
    for (const int megabytes : {50, 100, 200, 400, 800, 1600}) {
      compare("  " + std::to_string(megabytes) + " MB/s",
              run_of(chunk, kind.form, megabytes * 1e6, seconds));
    }
  }
}

}  // namespace
}  // namespace gpusnap

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 0.5;
  if (!(seconds > 0) || argc > 2) {
    std::fprintf(stderr, "usage: %s [SECONDS]\n", argv[0]);
    return 64;
  }
  gpusnap::shuffles();
  for (const int level : {1, 3}) gpusnap::forms(level);
  gpusnap::samples();
  gpusnap::pipelines(seconds);
  return 0;
}
