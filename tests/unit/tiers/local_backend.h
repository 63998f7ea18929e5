// The backend on a thread of the test, with the test's file system: what takes checkpoints in tests
// of the store as in programs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/unit/tiers/staging_support.h"
#include "tiers/backend/backend.h"
#include "tiers/backend/journal_stream.h"
#include "tiers/backend/remote_writer.h"
#include "tiers/journal.h"
#include "tiers/store.h"

namespace gpusnap::test {

// The program: its client and all that it does in the area are used by who owns this.
class LocalBackend {
 public:
  struct Options {
    std::string store = "/pfs";  // its folder
    size_t slot_bytes = 4096;
    size_t slots = 4;
    CompressionSetting compression;
    uint32_t keep = 0;   // 0: nothing is pruned
    uint32_t chain = 0;  // 0: nothing is merged
    Backend::Options backend;
  };
  // `files` outlives it.
  explicit LocalBackend(FileSystem& files) : LocalBackend(files, Options()) {}
  LocalBackend(FileSystem& files, Options options)
      : files_(files),
        options_(std::move(options)),
        area_(options_.slot_bytes, options_.slots * options_.slot_bytes) {
    start();
  }
  LocalBackend(const LocalBackend&) = delete;
  LocalBackend& operator=(const LocalBackend&) = delete;
  ~LocalBackend() {
    if (thread_.joinable()) stop();
  }

  FileSystem& files() { return files_; }
  StagingPool& pool() { return *area_.pool; }
  size_t free_slots() const { return area_.free_slots(); }
  const std::string& store() const { return options_.store; }
  Options& options() { return options_; }  // but for `backend`, of what begins from now on

  // Another one takes over what stop() leaves.
  void start() {
    auto backend = Backend::make(files_, *area_.memory, options_.backend);
    if (!backend.ok()) std::abort();
    backend_ = std::move(backend.value());
    thread_ = std::thread([this] { backend_->run(); });
  }
  void stop() {
    backend_->stop();
    thread_.join();
    backend_.reset();
  }
  // The program ends; what it has handed over comes to its end, and the backend too.
  void drain() {
    area_.pool.reset();
    area_.watch.reset();
    area_.client.reset();
    backend_->drain();
    thread_.join();
    backend_.reset();
  }

  // Until none is on its way, nor what is left of one that was given up.
  void wait_for_checkpoints() {
    const auto is_any = [this] {
      return std::ranges::any_of(area_.memory->streams(), [](const StreamEntry& stream) {
        return stream.kind == StreamKind::kCheckpoint &&
               stream.word.load().state != StreamState::kFree;
      });
    };
    while (is_any()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }

  Result<std::unique_ptr<CheckpointWriter>> begin(const std::string& job, uint64_t epoch,
                                                  uint32_t rank, const std::string& run,
                                                  uint64_t segment_bytes) {
    CheckpointText text;
    text.store = options_.store;
    text.job = job;
    text.run = run;
    text.epoch = epoch;
    text.rank = rank;
    text.segment_bytes = segment_bytes;
    text.compression = options_.compression;
    text.keep = options_.keep;
    text.chain = options_.chain;
    return start_remote_writer(files_, pool(), text, FolderMaker::kWriter, {});
  }

  // `name`: of the part's file. Null where it cannot be opened.
  std::unique_ptr<JournalWriter> open_journal(const std::string& job, const std::string& name) {
    auto sink = open_journal_stream(pool(), options_.store + "/" + sanitise_job(job) + "/" + name);
    if (!sink.ok()) return nullptr;
    JournalWriter::Options options;
    options.block_bytes = 512;
    auto journal = JournalWriter::create(std::move(sink.value()), name, options);
    return journal.ok() ? std::move(journal.value()) : nullptr;
  }

 private:
  FileSystem& files_;
  Options options_;
  StagingArea area_;
  std::unique_ptr<Backend> backend_;
  std::thread thread_;
};

}  // namespace gpusnap::test
