// make_store STORE JOB EPOCHS[+CHAIN] PROGRAM [ARGUMENTS]: writes that many checkpoints of a job as
// a run of the program would, with made-up device memory. Each full one is followed by CHAIN
// increments, of the first range's second slot alone.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "interpose/services/program.h"
#include "tests/unit/tiers/local_backend.h"
#include "tiers/tiers.h"

namespace {

using namespace gpusnap;

[[noreturn]] void fail(const std::string& line) {
  std::fprintf(stderr, "make_store: %s\n", line.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result.ok()) fail(result.status().message());
  return std::move(result.value());
}

void must(const Status& status) {
  if (!status.ok()) fail(status.message());
}

constexpr size_t kSlotBytes = 64 << 10;
constexpr size_t kRangeBytes = 150'000;  // no whole number of slots

void write_range(CheckpointWriter& writer, StagingPool& pool, uint32_t range, uint64_t epoch,
                 size_t begin = 0, size_t end = kRangeBytes) {
  for (size_t offset = begin; offset < end;) {
    Slot* const slot = must(pool.acquire());
    slot->used = std::min(kSlotBytes, end - offset);
    for (size_t i = 0; i < slot->used; ++i) {
      slot->data[i] = static_cast<std::byte>((offset + i) * 7 + range * 31 + epoch);
    }
    const Piece piece{range, offset, slot->used};
    writer.write({&piece, 1}, slot);
    offset += piece.size;
  }
}

Manifest manifest_of(const std::string& job, uint64_t epoch, const std::string& run,
                     const ProgramIdentity& program) {
  Manifest manifest;
  manifest.job = job;
  manifest.epoch = epoch;
  manifest.run = run;
  manifest.host = "testhost";
  manifest.library_version = "test";
  manifest.cut_unix_ns = 1'700'000'000'123'000'000 + static_cast<int64_t>(epoch) * 60'000'000'000;
  manifest.stall_ns = 12'345'678;
  manifest.waits = {.calls_ns = 1'000'000, .frees_ns = 2'000'000, .streams_ns = 3'000'000};
  manifest.zone_bytes = 65536;
  manifest.calls = 100 * epoch;
  manifest.launches = 10 * epoch;
  manifest.meanwhile = {.launches_free = 9,
                        .launches_waited = 4,
                        .launches_guessed = 3,
                        .launches_opaque = 2,
                        .others_free = 8,
                        .others_waited = 1};
  manifest.program = program;
  SavedRange allocation;
  allocation.address = 0xa000'0000'0000;
  allocation.size = kRangeBytes;
  allocation.call_site = 0x1234;
  allocation.life = 1;
  SavedRange global;
  global.kind = 1;
  global.address = 0xa000'1000'0000;
  global.size = kRangeBytes;
  global.name = "step \"one\"";
  global.life = 2;
  manifest.ranges = {allocation, global};
  return manifest;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) fail("usage: make_store STORE JOB EPOCHS[+CHAIN] PROGRAM [ARGUMENTS]");
  const std::string job = argv[2];
  const std::string run = "0123456789abcdef";
  std::vector<std::string> arguments(argv + 4, argv + argc);
  ProgramIdentity program =
      must(identify_program(std::filesystem::canonical(argv[4]).string(), std::move(arguments),
                            std::filesystem::current_path().string()));
  program.device = "a device";
  program.driver_version = 13000;

  FileSystem& files = posix_file_system();
  const auto store = must(Store::open(files, argv[1], true));
  const auto lock = must(store->lock_job(job));
  test::LocalBackend::Options options;
  options.store = store->folder();
  options.slot_bytes = kSlotBytes;
  options.slots = 8;
  // Whether `auto` compresses depends on how fast the machine is at the time.
  options.compression = {CompressionSetting::Mode::kOff, 1};
  test::LocalBackend backend(files, options);
  StagingPool& pool = backend.pool();
  const auto journal = backend.open_journal(job, run + "-r0.journal");
  if (journal == nullptr) fail("no journal");
  char* plus = nullptr;
  const auto epochs = std::strtoul(argv[3], &plus, 10);
  const auto chain = static_cast<uint32_t>(*plus == '+' ? std::atoi(plus + 1) : 0);
  uint32_t ancestors = 0;
  for (unsigned long i = 0; i < epochs; ++i) {
    const std::string calls(1000, static_cast<char>('a' + i));
    journal->append(std::as_bytes(std::span(calls)), 100);
    const uint64_t epoch = must(store->next_epoch(job));
    const auto writer = must(backend.begin(job, epoch, 0, run, 1 << 20));
    Manifest manifest = manifest_of(job, epoch, run, program);
    ancestors = i == 0 || ancestors == chain ? 0 : ancestors + 1;
    if (ancestors > 0) {
      manifest.parent = epoch - 1;
      manifest.chain = ancestors;
      write_range(*writer, pool, 0, epoch, kSlotBytes, 2 * kSlotBytes);
    } else {
      write_range(*writer, pool, 0, epoch);
      write_range(*writer, pool, 1, epoch);
    }
    manifest.journal = {journal->seal()};
    writer->finish(std::move(manifest), journal.get());
    must(writer->wait());
  }
  return 0;
}
