// What the tiers cost: an entry that is appended to the journal while the program makes a call, and
// the work around a checkpoint.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "tiers/chain.h"
#include "tiers/checksum.h"
#include "tiers/format.h"
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
  auto journal = JournalWriter::create(posix_file_system(), folder.path(), "a-r0.journal", {});
  if (!journal.ok()) return state.SkipWithError(journal.status().message().c_str());
  std::vector<std::byte> entry = random_bytes(static_cast<size_t>(state.range(0)));
  for (auto _ : state) journal.value()->append(entry, 1);
  JournalPart part = journal.value()->seal();
  if (!journal.value()->make_durable(part).ok()) state.SkipWithError("the journal failed");
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

class PlainMemory final : public SlotMemory {
 public:
  Result<std::byte*> allocate(size_t bytes) override { return new std::byte[bytes](); }
  void release(std::byte* slot, size_t) override { delete[] slot; }
};

// From the cut to durable, for one range in slots of 4 MiB.
void commit(benchmark::State& state) {
  const Folder folder;
  PlainMemory memory;
  StagingPool pool(memory, 4 << 20, 32 << 20);
  auto store = Store::open(posix_file_system(), folder.path(), true);
  const auto size = static_cast<uint64_t>(state.range(0));
  uint64_t epoch = 0;
  for (auto _ : state) {
    auto writer = store.value()->begin("bench", ++epoch, 0, "run", pool, 1 << 30);
    for (uint64_t at = 0; at < size; at += pool.slot_bytes()) {
      Slot* slot = pool.acquire().value();
      slot->used = std::min<uint64_t>(slot->capacity, size - at);
      const Piece piece{0, at, slot->used};
      writer.value()->write({&piece, 1}, slot);
    }
    Manifest manifest;
    manifest.job = "bench";
    manifest.epoch = epoch;
    SavedRange range;
    range.size = size;
    manifest.ranges = {range};
    writer.value()->finish(std::move(manifest), nullptr);
    const Status done = writer.value()->wait();
    if (!done.ok()) return state.SkipWithError(done.message().c_str());
    if (!store.value()->prune("bench", 1).ok()) return state.SkipWithError("pruning failed");
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(commit)->Arg(4 << 10)->Arg(64 << 20)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace gpusnap

BENCHMARK_MAIN();
