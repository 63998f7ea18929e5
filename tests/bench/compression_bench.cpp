// Measures the processor time and the gain of compression: each form on data of several kinds.
#include <ctime>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "tests/unit/compression/blocks.h"
#include "tiers/compression/codec.h"
#include "tiers/compression/sample.h"
#include "tiers/compression/shuffle.h"

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

// Measures how much of a chunk is compressed for its sample, and how long that takes.
void samples() {
  const auto sampler = get(Sampler::make({}, monotonic_clock()));
  std::printf(
      "\nsample of a chunk of 64 MiB (16 equal blocks of 4 MiB): %.2f %% of its bytes; "
      "ms of one core, each form at once\n",
      100 * static_cast<double>(plan_sample(kChunk).bytes()) / kChunk);
  for (const Kind& kind : kKinds) {
    const Bytes block = kind.make(kBlock);
    const std::vector<std::span<const std::byte>> chunk(kChunk / kBlock, block);
    const double seconds = seconds_of([&] { (void)get(sampler->take(chunk)); });
    std::printf("  %-16s %6.2f\n", kind.name, seconds * 1e3);
  }
}

}  // namespace
}  // namespace gpusnap

int main() {
  gpusnap::shuffles();
  for (const int level : {1, 3}) gpusnap::forms(level);
  gpusnap::samples();
  return 0;
}
