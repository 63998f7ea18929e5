// SPDX-License-Identifier: Apache-2.0
#include "tiers/store.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tiers/chain.h"
#include "tiers/checksum.h"
#include "tiers/listing.h"
#include "tiers/manifest_file.h"
#include "tiers/mutex.h"
#include "tiers/names.h"
#include "tiers/no_throw.h"
#include "tiers/part_reader.h"
#include "tiers/prune.h"
#include "tiers/segment.h"
#include "tiers/verify.h"

namespace gpusnap {

namespace {

// Keeps the segment open that was read last. Thread-safe.
class OpenSegment {
 public:
  Result<std::shared_ptr<ReadableFile>> get(FileSystem& files, const std::string& epoch_folder,
                                            const std::string& job, const Manifest& manifest,
                                            uint32_t segment) {
    const std::string path = epoch_folder + "/" + manifest.segments[segment].file;
    const MutexLock lock(mutex_);
    if (path_ == path && file_) return file_;
    Result<std::unique_ptr<ReadableFile>> file =
        open_segment(files, epoch_folder, job, manifest, segment);
    if (!file.ok()) return file.status();
    file_ = std::move(file.value());
    path_ = path;
    return file_;
  }

 private:
  Mutex mutex_;
  std::string path_ GUARDED_BY(mutex_);
  std::shared_ptr<ReadableFile> file_ GUARDED_BY(mutex_);
};

struct CheckpointId {
  std::string job;                // its folder's name
  std::optional<uint64_t> epoch;  // empty: the newest complete one
};

Result<CheckpointId> parse_id(const std::string& id) {
  const size_t at = id.rfind('@');
  const std::string job = id.substr(0, at);
  const std::string which = at == std::string::npos ? "latest" : id.substr(at + 1);
  const std::optional<uint64_t> epoch = parse_number(which);
  if (job.empty() || (!epoch && which != "latest")) {
    return Status(Code::kInvalid,
                  "cannot read checkpoint id '" + id + "': write JOB@EPOCH, JOB@latest or JOB");
  }
  return CheckpointId{sanitise_job(job), epoch};
}

class FolderStore final : public Store {
 public:
  FolderStore(FileSystem& files, std::string folder, Spawn spawn)
      : files_(files), folder_(std::move(folder)), spawn_(std::move(spawn)) {}

  const std::string& folder() const override { return folder_; }
  std::string job_folder(const std::string& job) const override {
    return folder_ + "/" + sanitise_job(job);
  }

  Result<std::vector<CheckpointInfo>> list(const std::string& job) override {
    return no_throw("list checkpoints", [&] { return job.empty() ? list_all() : list_one(job); });
  }
  Result<CheckpointInfo> find(const std::string& id) override {
    return no_throw("find a checkpoint", [&] { return find_one(id); });
  }
  Status verify(const CheckpointInfo& checkpoint, const Progress& progress,
                VerifyRound* round) override {
    VerifyRound only;
    return no_throw("verify a checkpoint", [&] {
      return verify_one(checkpoint, progress, round != nullptr ? *round : only);
    });
  }
  Result<std::unique_ptr<FileLock>> lock_job(const std::string& job) override {
    return no_throw("lock a job", [&] { return lock(job); });
  }
  Result<uint64_t> next_epoch(const std::string& job) override {
    return no_throw("find the next epoch", [&] { return epoch_after_all(job); });
  }
  Result<Contents> resolve(const CheckpointInfo& checkpoint, uint32_t rank) override {
    return no_throw("resolve a checkpoint", [&] { return resolve_rank(checkpoint, rank); });
  }
  Status read(const CheckpointInfo& checkpoint, const Manifest& manifest, const Extent& extent,
              std::span<std::byte> bytes) override {
    return no_throw("read an extent",
                    [&] { return read_extent(checkpoint, manifest, extent, bytes); });
  }
  Status read_all(const CheckpointInfo& checkpoint, const Contents& contents, ReadBuffers& buffers,
                  const TakePieces& take, LocalChunks* near) override {
    return no_throw("read a checkpoint", [&] {
      return read_pieces(files_, {job_folder(checkpoint.job), sanitise_job(checkpoint.job)},
                         contents.chain, contents.pieces, reader_options(), buffers, take, near);
    });
  }
  Result<std::vector<PrunedItem>> prune_idle(const std::string& job,
                                             const IdlePrune& options) override {
    return no_throw("prune checkpoints", [&] { return prune_left(sanitise_job(job), options); });
  }
  Result<std::vector<std::string>> jobs() override {
    return no_throw("list jobs", [&] { return job_names(); });
  }
  Result<JobUsage> usage(const std::string& job) override {
    return no_throw("add up a job's files", [&] { return usage_of(job); });
  }

 private:
  PartReaderOptions reader_options() const {
    PartReaderOptions options;
    options.spawn = spawn_;
    return options;
  }

  std::string epoch_path(const CheckpointInfo& checkpoint, uint64_t epoch) const {
    return job_folder(checkpoint.job) + "/" + epoch_folder(epoch);
  }

  Result<std::vector<CheckpointInfo>> list_one(const std::string& job) {
    Result<std::vector<ListedCheckpoint>> listed =
        list_job(files_, job_folder(job), sanitise_job(job));
    if (!listed.ok()) return listed.status();
    std::vector<CheckpointInfo> infos;
    infos.reserve(listed->size());
    for (ListedCheckpoint& checkpoint : listed.value()) {
      infos.push_back(std::move(checkpoint.info));
    }
    return infos;
  }

  Result<std::vector<std::string>> job_names() {
    const Result<std::vector<FolderEntry>> entries = files_.entries(folder_);
    if (!entries.ok()) return entries.status();
    std::vector<std::string> names;
    for (const FolderEntry& entry : entries.value()) {
      if (entry.is_folder && is_job_folder(entry.name)) names.push_back(entry.name);
    }
    return names;
  }

  Result<std::vector<CheckpointInfo>> list_all() {
    const Result<std::vector<std::string>> names = job_names();
    if (!names.ok()) return names.status();
    std::vector<CheckpointInfo> infos;
    for (const std::string& name : names.value()) {
      Result<std::vector<CheckpointInfo>> of_job = list_one(name);
      if (!of_job.ok()) return of_job.status();
      std::move(of_job->begin(), of_job->end(), std::back_inserter(infos));
    }
    std::stable_sort(infos.begin(), infos.end(),
                     [](const auto& a, const auto& b) { return a.time_unix_ns > b.time_unix_ns; });
    return infos;
  }

  Result<CheckpointInfo> find_one(const std::string& id) {
    const Result<CheckpointId> wanted = parse_id(id);
    if (!wanted.ok()) return wanted.status();
    const Result<std::vector<CheckpointInfo>> infos = list_one(wanted->job);
    if (!infos.ok()) return infos.status();
    const auto found = std::find_if(infos->begin(), infos->end(), [&](const CheckpointInfo& info) {
      return wanted->epoch ? info.epoch == *wanted->epoch
                           : info.state == CheckpointState::kComplete;
    });
    if (found != infos->end()) return *found;
    return Status(Code::kNotFound, "there is no " +
                                       (wanted->epoch ? "checkpoint " + id
                                                      : "complete checkpoint of " + wanted->job) +
                                       " in " + folder_ + ": " + what_there_is(infos.value()));
  }

  // For a message: "there are demo@4 (complete), demo@3 (damaged: ...)".
  static std::string what_there_is(const std::vector<CheckpointInfo>& infos) {
    constexpr size_t kMost = 3;
    if (infos.empty()) return "there is none of that job";
    std::string text = infos.size() == 1 ? "there is " : "there are ";
    for (size_t i = 0; i < std::min(infos.size(), kMost); ++i) {
      const CheckpointInfo& info = infos[i];
      text += (i == 0 ? "" : ", ") + info.id + " (" + name_of(info.state) +
              (info.reason.empty() ? "" : ": " + info.reason) + ")";
    }
    if (infos.size() > kMost) text += " and " + std::to_string(infos.size() - kMost) + " more";
    return text;
  }

  // Verifies once more if a file has gone meanwhile: a checkpoint that was pruned or merged while
  // it was read is not damaged.
  Status verify_one(const CheckpointInfo& checkpoint, const Progress& progress,
                    VerifyRound& round) {
    const VerifyRound before = round;
    bool vanished = false;
    Status good = verify_listed(checkpoint, progress, round, vanished);
    if (!vanished) return good;
    round = before;
    return verify_listed(checkpoint, progress, round, vanished);
  }

  // `vanished`: set where a file that was listed is not there any more.
  Status verify_listed(const CheckpointInfo& checkpoint, const Progress& progress,
                       VerifyRound& round, bool& vanished) {
    const std::string job = job_folder(checkpoint.job);
    // Lists again: the caller's listing may be old.
    const Result<std::vector<ListedCheckpoint>> listed =
        list_job(files_, job, sanitise_job(checkpoint.job));
    if (!listed.ok()) return listed.status();
    const auto now = std::find_if(listed->begin(), listed->end(), [&](const auto& candidate) {
      return candidate.info.epoch == checkpoint.epoch;
    });
    if (now == listed->end()) {
      return {Code::kNotFound, "checkpoint " + checkpoint.id + " is no longer there"};
    }
    switch (now->info.state) {
      case CheckpointState::kComplete:
        break;
      case CheckpointState::kPartial:
        return {Code::kNotFound,
                "checkpoint " + checkpoint.id + " is partial: " + now->info.reason};
      case CheckpointState::kDamaged:
        return damaged(checkpoint, now->problem);
    }
    std::vector<const Manifest*> ancestors;
    for (const Manifest& manifest : now->info.ranks) {
      const auto of_rank = ancestors_of(listed.value(), manifest);
      ancestors.insert(ancestors.end(), of_rank.begin(), of_rank.end());
    }
    Status good =
        verify_files(files_, job, now->info, ancestors, progress, round, reader_options());
    vanished = good.code() == Code::kNotFound;
    return good.ok() ? good : damaged(checkpoint, good);
  }

  static Status damaged(const CheckpointInfo& checkpoint, const Status& problem) {
    return {problem.code() == Code::kNotFound ? Code::kDamaged : problem.code(),
            "checkpoint " + checkpoint.id + " cannot be used: " + problem.message()};
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string& job) {
    const std::string folder = job_folder(job);
    if (Status made = files_.make_folder(folder); !made.ok()) return made;
    Result<std::unique_ptr<FileLock>> held = files_.lock(folder + "/lock");
    if (held.status().code() != Code::kBusy) return held;
    return Status(Code::kBusy, "job " + sanitise_job(job) + " is in use: another run writes to " +
                                   folder + "; wait for its end or set another GPUSNAP_JOB");
  }

  Result<uint64_t> epoch_after_all(const std::string& job) {
    const Result<std::vector<FolderEntry>> entries = files_.entries(job_folder(job));
    if (entries.status().code() == Code::kNotFound) return uint64_t{1};
    if (!entries.ok()) return entries.status();
    uint64_t last = 0;
    for (const FolderEntry& entry : entries.value()) {
      last = std::max(last, parse_epoch_folder(entry.name).value_or(0));
    }
    return last + 1;
  }

  Status read_extent(const CheckpointInfo& checkpoint, const Manifest& manifest,
                     const Extent& extent, std::span<std::byte> bytes) {
    if (extent.segment >= manifest.segments.size() || extent.size != bytes.size()) {
      return {Code::kInvalid, "cannot read an extent of " + checkpoint.id + ": it is not one"};
    }
    const std::string folder = epoch_path(checkpoint, manifest.epoch);
    const auto file =
        segment_.get(files_, folder, sanitise_job(checkpoint.job), manifest, extent.segment);
    if (!file.ok()) return file.status();
    const MutexLock lock(reader_mutex_);
    return reader_.read(*file.value(), folder + "/" + manifest.segments[extent.segment].file,
                        extent, bytes);
  }

  Result<Contents> resolve_rank(const CheckpointInfo& checkpoint, uint32_t rank) {
    const auto own = std::find_if(checkpoint.ranks.begin(), checkpoint.ranks.end(),
                                  [rank](const Manifest& m) { return m.rank == rank; });
    if (own == checkpoint.ranks.end()) {
      return Status(Code::kInvalid,
                    "checkpoint " + checkpoint.id + " has no rank " + std::to_string(rank));
    }
    const auto unusable = [&checkpoint](const Status& why) {
      return Status(why.code(),
                    "checkpoint " + checkpoint.id + " cannot be used: " + why.message());
    };
    Contents contents;
    contents.chain.push_back(*own);
    Status chained = read_chain(files_, {job_folder(checkpoint.job), sanitise_job(checkpoint.job)},
                                contents.chain);
    if (!chained.ok()) return unusable(chained);
    Result<std::vector<PlacedExtent>> pieces = place_extents(contents.chain);
    if (!pieces.ok()) return unusable(pieces.status());
    contents.pieces = std::move(pieces.value());
    return contents;
  }

  Result<std::vector<PrunedItem>> prune_left(const std::string& job, const IdlePrune& options) {
    if (options.keep == 0) {
      return Status(Code::kInvalid, "cannot prune " + job + ": at least one must be kept");
    }
    PruneRequest request;
    request.job_folder = job_folder(job);
    request.job_folder_name = job;
    request.keep = options.keep;
    request.left_since_unix_ns = options.left_since_unix_ns;
    request.dry_run = options.dry_run;
    std::unique_ptr<FileLock> held;
    if (!options.dry_run) {
      Result<std::unique_ptr<FileLock>> locked = lock(job);
      if (!locked.ok()) return locked.status();
      held = std::move(locked.value());
    }
    std::vector<PrunedItem> items;
    if (Status pruned = prune_job(files_, request, &items); !pruned.ok()) return pruned;
    return items;
  }

  Result<JobUsage> usage_of(const std::string& job) {
    const Result<std::vector<CheckpointInfo>> infos = list_one(job);
    if (!infos.ok()) return infos.status();
    const Result<std::vector<FolderEntry>> entries = files_.entries(job_folder(job));
    if (!entries.ok()) return entries.status();
    JobUsage usage;
    std::set<std::string> named;
    for (const CheckpointInfo& info : infos.value()) {
      usage.checkpoints += info.stored_bytes - info.journal_bytes;
      usage.unnamed += info.unnamed_bytes;
      for (const Manifest& manifest : info.ranks) {
        for (const JournalPart& part : manifest.journal) named.insert(part.file);
      }
    }
    for (const FolderEntry& entry : entries.value()) {
      if (entry.is_folder || !is_journal_name(entry.name)) continue;
      (named.count(entry.name) > 0 ? usage.journals : usage.unnamed) += entry.size;
    }
    return usage;
  }

  FileSystem& files_;
  const std::string folder_;
  const Spawn spawn_;
  OpenSegment segment_;
  Mutex reader_mutex_;
  ExtentReader reader_ GUARDED_BY(reader_mutex_);
};

// A program may change its working directory; the store's path must not depend on it.
std::string absolute(const std::string& path) {
  std::error_code error;
  std::filesystem::path full = std::filesystem::absolute(path, error);
  if (error) return path;
  std::string text = full.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Result<std::unique_ptr<Store>> open_store(FileSystem& files, const std::string& pfs, bool create,
                                          Spawn spawn) {
  if (pfs.empty()) return Status(Code::kInvalid, "cannot open the store: its folder has no name");
  const std::string folder = absolute(pfs);
  if (create) {
    if (Status made = files.make_folder(folder); !made.ok()) return made;
  }
  const Result<std::vector<FolderEntry>> entries = files.entries(folder);
  if (entries.status().code() == Code::kNotFound) {
    return Status(Code::kNotFound, "there is no store at " + folder +
                                       "; give the folder that the run had (GPUSNAP_PFS)");
  }
  if (!entries.ok()) return entries.status();
  return std::unique_ptr<Store>(std::make_unique<FolderStore>(files, folder, std::move(spawn)));
}

}  // namespace

const char* name_of(CheckpointState state) {
  switch (state) {
    case CheckpointState::kComplete:
      return "complete";
    case CheckpointState::kPartial:
      return "partial";
    case CheckpointState::kDamaged:
      break;
  }
  return "damaged";
}

Result<std::unique_ptr<Store>> Store::open(FileSystem& files, const std::string& pfs, bool create,
                                           Spawn spawn) {
  return no_throw("open the store",
                  [&] { return open_store(files, pfs, create, std::move(spawn)); });
}

}  // namespace gpusnap
