// Random histories of a store: two jobs of one or two ranks hand checkpoints over to a backend,
// with a local tier behind its cache or without one, which writes, prunes and merges them; a
// backend stops at any operation and another one takes over; operations fail, stall, and the
// machine or all processes stop at any of them. After each stop, when the next backend has come to
// rest, all that is listed as complete is right, bit for bit; what was told to be durable is there,
// or as many later ones as are to be kept; no number is given twice; nothing is left on the local
// tier; and nothing is left in the store that nobody needs, once it was pruned.
//
// A seed says what is done and what fails, not how threads take turns.
#include <atomic>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>

#include "chain_support.h"
#include "fault_file_system.h"
#include "tiers/names.h"

namespace gpusnap::test {
namespace {

// Ends what stalls, now and then, while it lives.
class Releaser {
 public:
  explicit Releaser(FaultFileSystem& files)
      : thread_([this, &files] {
          while (!stop_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            files.release();
          }
        }) {}
  Releaser(const Releaser&) = delete;
  Releaser& operator=(const Releaser&) = delete;
  ~Releaser() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Has another backend take over after so many operations.
class TakeOver {
 public:
  TakeOver(FaultFileSystem& files, LocalBackend& backend, size_t operations)
      : thread_([this, &files, &backend, until = files.operations() + operations] {
          while (!stop_ && files.operations() < until) {
            std::this_thread::sleep_for(std::chrono::microseconds(20));
          }
          backend.stop();
          backend.start();
        }) {}
  TakeOver(const TakeOver&) = delete;
  TakeOver& operator=(const TakeOver&) = delete;
  ~TakeOver() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// One job over all of its runs, and what must come of it.
class ModelJob {
 public:
  ModelJob(FaultFileSystem& files, std::string name, uint32_t ranks, Random& random)
      : files_(files), name_(std::move(name)), ranks_(ranks), random_(random), memory_(ranks) {}

  // A process begins that goes on from the newest complete checkpoint, if there is one.
  void begin_run(Store& store, LocalBackend& backend) {
    run_ = "run" + std::to_string(++runs_);
    lock_ = std::move(store.lock_job(name_).value());
    newest_ = newest_complete(store);
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (newest_ != 0) memory_[rank].restore(images_.at({newest_, rank}));
      journals_.push_back(open_journal(backend, job(rank)));
    }
    chain_ = newest_ != 0 ? 1 : 0;
    tried_ = 0;
  }
  void end_run() {
    journals_.clear();
    lock_.reset();
  }

  // Nothing fails: what was left before goes. Rank 0, whose commit prunes, is the last.
  void take_well(Store& store, LocalBackend& backend) {
    may_tear_ = false;
    ASSERT_TRUE(take(store, backend, false));
    may_tear_ = true;
    must_ = newest_ones(store, 1);
    expect_nothing_else(store);
  }

  // True when all ranks have committed.
  bool take(Store& store, LocalBackend& backend, bool together) {
    const auto next = store.next_epoch(name_);
    if (!next.ok()) return false;
    const uint64_t epoch = tried_ = std::max(next.value(), tried_ + 1);
    EXPECT_GT(epoch, last_complete_) << name_ << ": a number is given twice";
    bool complete = true;
    const bool full = newest_ == 0 || chain_ > 6 || below(random_, 5) == 0;
    std::vector<std::unique_ptr<Increment>> parts;
    for (uint32_t rank = ranks_; rank-- > 0;) {
      memory_[rank].change(random_);
      images_[{epoch, rank}] = memory_[rank].image();
      parts.push_back(hand_over_part(backend, epoch, rank, full));
      if (!together) complete = parts.back()->wait().ok() && complete;
    }
    for (const auto& part : parts) complete = part->wait().ok() && complete;
    // Ranks go on together: from the last checkpoint that all of them have.
    if (complete) {
      newest_ = epoch;
      chain_ = full ? 0 : chain_ + 1;
      for (DeviceMemory& memory : memory_) memory.clean();
      must_.insert(newest_);
      last_complete_ = newest_;
    }
    return complete;
  }

  // As another node's backend may.
  void merge(Store& store) {
    const auto infos = store.list(name_);
    if (!infos.ok() || infos->empty()) return;
    const uint64_t epoch = infos.value()[below(random_, infos->size())].epoch;
    (void)merge_part(files_, epoch, static_cast<uint32_t>(below(random_, ranks_)),
                     static_cast<uint32_t>(below(random_, 6)), {}, name_);
  }

  // By the tool, between two runs.
  void prune_between(Store& store) {
    const auto keep = static_cast<uint32_t>(1 + below(random_, 3));
    must_ = newest_ones(store, keep);
    const auto pruned = store.prune_idle(name_, {keep, std::numeric_limits<int64_t>::max(), false});
    ASSERT_TRUE(pruned.ok()) << pruned.status().message();
    expect_nothing_else(store);
  }

  // `keep`: what the backend was to keep.
  void expect_right(Store& store, uint32_t keep) {
    const auto infos = store.list(name_);
    ASSERT_TRUE(infos.ok()) << infos.status().message();
    std::set<uint64_t> complete;
    for (const CheckpointInfo& info : infos.value()) {
      ASSERT_NE(info.state, CheckpointState::kDamaged) << info.id << ": " << info.reason;
      if (info.state != CheckpointState::kComplete) continue;
      complete.insert(info.epoch);
      const Status good = store.verify(info, {});
      ASSERT_TRUE(good.ok()) << good.message();
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        ASSERT_TRUE(read_back(store, info, rank) == images_.at({info.epoch, rank})) << info.id;
      }
    }
    for (const uint64_t epoch : must_) {
      const auto later = std::distance(complete.upper_bound(epoch), complete.end());
      const bool pruned = keep > 0 && later >= static_cast<ptrdiff_t>(keep);
      ASSERT_TRUE(complete.count(epoch) > 0 || pruned)
          << name_ << "@" << epoch << " has gone, with " << keep << " to keep and "
          << complete.size() << " complete up to " << newest_of(complete);
    }
    std::erase_if(must_, [&](uint64_t epoch) { return complete.count(epoch) == 0; });
    last_complete_ = std::max(last_complete_, newest_of(complete));
  }

  // All files are a listed checkpoint's, or this run's journals.
  void expect_nothing_else(Store& store) {
    std::set<std::string> needed;
    const std::string folder = store.job_folder(name_) + "/";
    for (uint32_t rank = 0; rank < ranks_ && !journals_.empty(); ++rank) {
      needed.insert(folder + journal_name(job(rank)));
    }
    const auto infos = store.list(name_);
    ASSERT_TRUE(infos.ok());
    for (const CheckpointInfo& info : infos.value()) {
      EXPECT_EQ(info.state, CheckpointState::kComplete) << info.id;
      const std::string epoch = folder + epoch_folder(info.epoch) + "/";
      for (const Manifest& manifest : info.ranks) {
        needed.insert(epoch + manifest_name(manifest.rank));
        for (const SegmentRef& segment : manifest.segments) needed.insert(epoch + segment.file);
        for (const JournalPart& part : manifest.journal) needed.insert(folder + part.file);
      }
    }
    for (const std::string& path : files_.paths()) {
      if (!path.starts_with(folder)) continue;
      EXPECT_EQ(needed.count(path), 1U) << path << " is left over";
    }
  }

 private:
  Job job(uint32_t rank) const { return {name_, run_, rank, ranks_, {}, 9 << 10}; }

  std::unique_ptr<Increment> hand_over_part(LocalBackend& backend, uint64_t epoch, uint32_t rank,
                                            bool full) {
    std::optional<Parent> parent;
    if (!full) parent = Parent{newest_, chain_, images_.at({newest_, rank})};
    auto increment = std::make_unique<Increment>(backend, job(rank), epoch);
    increment->save(memory_[rank], parent, random_);
    // Now and then it is given up in the middle.
    const bool torn = may_tear_ && below(random_, 12) == 0;
    increment->hand_over(journals_[rank].get(), torn ? Status(Code::kTorn, "torn") : Status());
    return increment;
  }

  static uint64_t newest_of(const std::set<uint64_t>& epochs) {
    return epochs.empty() ? 0 : *epochs.rbegin();
  }
  uint64_t newest_complete(Store& store) { return newest_of(newest_ones(store, 1)); }
  std::set<uint64_t> newest_ones(Store& store, size_t count) {
    std::set<uint64_t> epochs;
    const auto infos = store.list(name_);
    if (!infos.ok()) return epochs;
    for (const CheckpointInfo& info : infos.value()) {
      if (info.state == CheckpointState::kComplete && epochs.size() < count) {
        epochs.insert(info.epoch);
      }
    }
    return epochs;
  }

  FaultFileSystem& files_;
  const std::string name_;
  const uint32_t ranks_;
  Random& random_;
  std::vector<DeviceMemory> memory_;
  std::map<std::pair<uint64_t, uint32_t>, Image> images_;  // of each attempt, by epoch and rank
  std::set<uint64_t> must_;                                // epochs that are complete for certain
  std::string run_;
  uint32_t runs_ = 0;
  uint64_t newest_ = 0;  // what this run goes on from
  uint64_t tried_ = 0;   // by this run
  uint64_t last_complete_ = 0;
  uint32_t chain_ = 0;
  bool may_tear_ = true;
  std::unique_ptr<FileLock> lock_;
  std::vector<std::unique_ptr<JournalWriter>> journals_;
};

class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {
    jobs_.emplace_back(files_, "demo", 1 + static_cast<uint32_t>(below(random_, 2)), random_);
    jobs_.emplace_back(files_, "other", 1, random_);
    options_.slots = 8;
    options_.backend.chunk_bytes = 2 * options_.slot_bytes;
    options_.backend.name = "node";
    options_.backend.warn = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      warnings_ += line + "\n";
    };
    constexpr PlacementPolicy kPolicies[] = {
        PlacementPolicy::kSsdOnly, PlacementPolicy::kHybridNaive, PlacementPolicy::kHybridOpt};
    options_.backend.policy = kPolicies[below(random_, std::size(kPolicies))];
    if (below(random_, 2) == 0) return;
    options_.backend.cache_bytes = 2 * options_.slot_bytes;
    options_.backend.ssd = {{"/ssd", (1 + below(random_, 50)) * 2 * options_.slot_bytes}};
  }

  void run() {
    for (uint64_t lives = 2 + below(random_, 4); lives > 0; --lives) {
      live();
      if (::testing::Test::HasFailure()) return;
    }
  }

 private:
  // Or the log of copies: of a checkpoint that is in the store.
  bool is_copy(const std::string& path) const {
    const std::filesystem::path local(path);
    const std::string name = local.filename();
    const auto part = parse_chunk_name(name) ? parse_chunk_name(name) : parse_block_log_name(name);
    const std::string epoch = local.parent_path().filename();
    const std::string job = local.parent_path().parent_path().filename();
    return part && files_.exists("/pfs/" + job + "/" + epoch + "/" + manifest_name(part->rank));
  }

  // From a start to a stop, and what there is after it.
  void live() {
    options_.keep = static_cast<uint32_t>(below(random_, 4));
    options_.chain = below(random_, 2) == 0 ? 0 : static_cast<uint32_t>(2 + below(random_, 5));
    auto backend = std::make_unique<LocalBackend>(files_, options_);
    {
      const Releaser releaser(files_);
      work(*backend);
      if (::testing::Test::HasFailure()) return;
      backend->stop();
    }
    if (stop()) {
      backend->start();  // finds the area as it was
    } else {
      backend = std::make_unique<LocalBackend>(files_, options_);
    }
    backend->drain();
    for (const std::string& path : files_.paths()) {
      EXPECT_TRUE(!path.starts_with("/ssd/") || is_copy(path)) << path << " is left over\n"
                                                               << warnings_;
    }
    const auto store = std::move(Store::open(files_, "/pfs", true).value());
    for (ModelJob& job : jobs_) {
      job.expect_right(*store, options_.keep);
      if (::testing::Test::HasFailure()) return;
      if (below(random_, 3) == 0) job.prune_between(*store);
      if (::testing::Test::HasFailure()) return;
    }
  }

  void work(LocalBackend& backend) {
    const auto store = std::move(Store::open(files_, "/pfs", true).value());
    for (ModelJob& job : jobs_) job.begin_run(*store, backend);
    // Mostly one good checkpoint, which makes all that was left superfluous.
    backend.options().keep = 1;
    backend.options().chain = 0;
    for (ModelJob& job : jobs_) {
      if (below(random_, 4) == 0) continue;
      job.take_well(*store, backend);
      if (::testing::Test::HasFailure()) return;
    }
    backend.options().keep = options_.keep;
    backend.options().chain = options_.chain;
    begin_faults();
    for (uint64_t steps = 1 + below(random_, 10); steps > 0; --steps) {
      step(jobs_[below(random_, jobs_.size())], *store, backend);
    }
    for (ModelJob& job : jobs_) job.end_run();
  }

  void step(ModelJob& job, Store& store, LocalBackend& backend) {
    if (below(random_, 6) == 0) return job.merge(store);
    std::optional<TakeOver> take_over;
    if (below(random_, 3) == 0) take_over.emplace(files_, backend, below(random_, 30));
    (void)job.take(store, backend, below(random_, 2) == 0);
  }

  void begin_faults() {
    const std::vector<Status> failures = {device_failure(ENOSPC), device_failure(EDQUOT),
                                          device_failure(EIO)};
    files_.end_transfers(below(random_, 2) == 0 ? Ending::kAtOnce : Ending::kByThread, random_());
    const uint64_t operation = below(random_, 150);
    switch (below(random_, 4)) {
      case 0:
        return files_.inject({operation, std::nullopt, false, false});
      case 1:
        return files_.fail_by_chance({random_(), 10 + below(random_, 100), failures});
      case 2:
        return files_.inject({operation, std::nullopt, false, false, true});
      default:
        return files_.inject({operation, failures[below(random_, failures.size())],
                              below(random_, 2) == 0, below(random_, 4) == 0});
    }
  }

  // Whether the staging area is still there.
  bool stop() {
    files_.end_transfers(Ending::kAtOnce);
    const uint64_t how = below(random_, 10);
    if (how < 3) {
      files_.restart_process();
      return how == 0;
    }
    if (how < 5) {
      files_.crash(kAllSurvivals[below(random_, std::size(kAllSurvivals))]);
    } else {
      files_.crash(random_());
    }
    // Another node, or another device.
    if (below(random_, 4) == 0) {
      for (const std::string& path : files_.paths()) {
        if (path.starts_with("/ssd/")) files_.erase(path);
      }
    }
    return false;
  }

  Random random_;
  FaultFileSystem files_;
  LocalBackend::Options options_;
  std::deque<ModelJob> jobs_;
  std::mutex mutex_;
  std::string warnings_;  // of the backends
};

void expect_good_history(uint64_t seed) {
  SCOPED_TRACE("GPUSNAP_HISTORY=" + std::to_string(seed));
  History(seed).run();
}

TEST(Histories, OfAStore) {
  if (const char* const one = std::getenv("GPUSNAP_HISTORY"); one != nullptr) {
    return expect_good_history(std::strtoull(one, nullptr, 10));
  }
  const uint64_t count = std::getenv("GPUSNAP_SOAK") != nullptr ? 5000 : 60;
  for (uint64_t seed = 1; seed <= count && !HasFailure(); ++seed) expect_good_history(seed);
}

}  // namespace
}  // namespace gpusnap::test
