// SPDX-License-Identifier: Apache-2.0
#include "tiers/listing.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "tiers/chain.h"
#include "tiers/manifest_file.h"
#include "tiers/names.h"

namespace gpusnap {

namespace {

using Sizes = std::map<std::string, uint64_t>;  // of files, by name

Sizes sizes_of(const std::vector<FolderEntry>& entries) {
  Sizes sizes;
  for (const FolderEntry& entry : entries) {
    if (!entry.is_folder) sizes.emplace(entry.name, entry.size);
  }
  return sizes;
}

// One epoch's folder.
class Epoch {
 public:
  Epoch(FileSystem& files, const std::string& job_folder, const std::string& job, uint64_t epoch)
      : files_(files), job_folder_(job_folder), folder_(job_folder + "/" + epoch_folder(epoch)) {
    listed_.info.job = job;
    listed_.info.epoch = epoch;
    listed_.info.id = job + "@" + std::to_string(epoch);
  }

  ListedCheckpoint examine(const std::vector<FolderEntry>& entries, const Sizes& journals,
                           int64_t folder_time) {
    const Sizes sizes = sizes_of(entries);
    for (const FolderEntry& entry : entries) {
      const std::optional<uint32_t> rank = parse_manifest_name(entry.name);
      if (rank && !entry.is_folder) add(entry, *rank);
    }
    CheckpointInfo& info = listed_.info;
    std::sort(info.ranks.begin(), info.ranks.end(),
              [](const Manifest& a, const Manifest& b) { return a.rank < b.rank; });
    for (const Manifest& manifest : info.ranks) {
      Status& own = listed_.parts[manifest.rank].problem;
      own = check_segments(manifest, sizes);
      problem(own);
      problem(check_journal(manifest, journals));
      sum_up(manifest);
    }
    info.stored_bytes += info.journal_bytes;
    add_unnamed(entries);
    if (info.ranks.empty()) info.time_unix_ns = folder_time;
    judge();
    return std::move(listed_);
  }

 private:
  void problem(const Status& status) {
    if (listed_.problem.ok()) listed_.problem = status;
  }

  void add(const FolderEntry& entry, uint32_t rank) {
    CheckpointInfo& info = listed_.info;
    Result<StoredManifest> read = read_manifest(files_, job_folder_, info.job, info.epoch, rank);
    info.stored_bytes += entry.size;
    if (read.status().code() == Code::kNotFound) return;  // pruned meanwhile
    listed_.parts[rank] = {read.status(), read.ok() ? read->checksum : 0, entry.size};
    if (!read.ok()) {
      listed_.has_unread_manifest = true;
      return problem(read.status());
    }
    if (!info.ranks.empty() && info.ranks.front().ranks != read->manifest.ranks) {
      problem(
          {Code::kDamaged, "the manifests in " + folder_ + " do not agree on the number of ranks"});
    }
    info.ranks.push_back(std::move(read->manifest));
  }

  // Hundreds of ranks have thousands of segments.
  void add_unnamed(const std::vector<FolderEntry>& entries) {
    std::set<std::string_view> named;
    for (const Manifest& manifest : listed_.info.ranks) {
      for (const SegmentRef& segment : manifest.segments) named.insert(segment.file);
    }
    for (const FolderEntry& entry : entries) {
      const bool is_part = !entry.is_folder && rank_of_part_file(entry.name);
      if (is_part && !named.contains(entry.name)) listed_.info.unnamed_bytes += entry.size;
    }
  }

  Status check_segments(const Manifest& manifest, const Sizes& sizes) const {
    for (const SegmentRef& segment : manifest.segments) {
      const std::string what = "segment " + folder_ + "/" + segment.file;
      const auto found = sizes.find(segment.file);
      if (found == sizes.end()) return {Code::kDamaged, what + " is missing"};
      if (found->second != segment.size) return wrong_size(what, found->second, segment.size);
    }
    return {};
  }

  static Status check_journal(const Manifest& manifest, const Sizes& journals) {
    for (const JournalPart& part : manifest.journal) {
      const std::string what = "journal part " + part.file;
      const auto found = journals.find(part.file);
      if (found == journals.end()) return {Code::kDamaged, what + " is missing"};
      if (found->second < part.file_bytes) return wrong_size(what, found->second, part.file_bytes);
    }
    return {};
  }

  static Status wrong_size(const std::string& what, uint64_t is, uint64_t expected) {
    return {Code::kDamaged,
            what + " has " + std::to_string(is) + " bytes instead of " + std::to_string(expected)};
  }

  void sum_up(const Manifest& manifest) {
    CheckpointInfo& info = listed_.info;
    info.time_unix_ns = std::max(info.time_unix_ns, manifest.cut_unix_ns);
    info.stall_ns = std::max(info.stall_ns, manifest.stall_ns);
    info.bytes += manifest.bytes();
    info.own_bytes += manifest.own_bytes();
    for (const SegmentRef& segment : manifest.segments) {
      info.stored_bytes += segment.size;
      listed_.parts[manifest.rank].bytes += segment.size;
    }
    for (const JournalPart& part : manifest.journal) info.journal_bytes += part.file_bytes;
  }

  // A version that a program wrote again, and not on all of its ranks; or a part of an earlier run
  // that came to the store when a later one had taken the epoch.
  bool is_mixed() const {
    const std::vector<Manifest>& ranks = listed_.info.ranks;
    return std::any_of(ranks.begin(), ranks.end(), [&](const Manifest& manifest) {
      return !is_of_same_run(manifest, ranks.front());
    });
  }

  void judge() {
    CheckpointInfo& info = listed_.info;
    if (!listed_.problem.ok()) {
      info.state = CheckpointState::kDamaged;
      info.reason = listed_.problem.message();
    } else if (info.ranks.empty()) {
      info.state = CheckpointState::kPartial;
      info.reason = "it was not committed";
    } else if (is_mixed()) {
      info.state = CheckpointState::kPartial;
      info.reason = "its ranks were written by different runs";
    } else if (info.ranks.size() < info.ranks.front().ranks) {
      info.state = CheckpointState::kPartial;
      info.reason = "only " + std::to_string(info.ranks.size()) + " of " +
                    std::to_string(info.ranks.front().ranks) + " ranks have committed it";
    } else {
      info.state = CheckpointState::kComplete;
    }
  }

  FileSystem& files_;
  const std::string& job_folder_;
  const std::string folder_;
  ListedCheckpoint listed_;
};

// Newest first.
template <class Listed>
auto find_epoch(Listed& listed, uint64_t epoch) -> decltype(listed.data()) {
  const auto found = std::lower_bound(
      listed.begin(), listed.end(), epoch,
      [](const ListedCheckpoint& a, uint64_t wanted) { return a.info.epoch > wanted; });
  return found != listed.end() && found->info.epoch == epoch ? &*found : nullptr;
}

// Finds increments that lack something, and what others need.
class Chains {
 public:
  explicit Chains(std::vector<ListedCheckpoint>& listed) : listed_(listed) {}

  // Returns whether the parent of a rank's part is missing.
  bool judge() {
    for (auto checkpoint = listed_.rbegin(); checkpoint != listed_.rend(); ++checkpoint) {
      for (const auto& [rank, part] : checkpoint->parts) examine(*checkpoint, rank, part);
    }
    for (const ListedCheckpoint& checkpoint : listed_) mark_ancestors(checkpoint.info);
    return any_missing_;
  }

 private:
  // The problem with a rank's memory, if any, and the epoch of its chain that has it.
  struct Verdict {
    uint64_t epoch = 0;
    Status problem;
    bool missing = false;
    uint32_t ancestors = 0;
    uint64_t bytes = 0;  // of the files of the part and its ancestors
  };

  // Oldest first, so that the parent's verdict exists.
  void examine(ListedCheckpoint& checkpoint, uint32_t rank, const ListedCheckpoint::Part& part) {
    CheckpointInfo& info = checkpoint.info;
    Verdict& verdict = verdicts_[{info.epoch, rank}];
    verdict = {info.epoch, part.problem, false, 0, part.bytes};
    const Manifest* manifest = manifest_of(checkpoint, rank);
    if (manifest == nullptr || !part.problem.ok() || manifest->parent == 0) return;
    verdict = examine_link(*manifest);
    info.chain = std::max(info.chain, verdict.ancestors);
    info.shared_bytes += verdict.bytes;
    verdict.bytes += part.bytes;
    if (verdict.problem.ok() || !checkpoint.problem.ok()) return;
    info.state = CheckpointState::kDamaged;
    info.reason = verdict.epoch == info.epoch
                      ? verdict.problem.message()
                      : "its ancestor " + info.job + "@" + std::to_string(verdict.epoch) +
                            (verdict.missing ? " is missing"
                                             : " cannot be used: " + verdict.problem.message());
    checkpoint.problem = Status(verdict.problem.code(), info.reason);
  }

  Verdict examine_link(const Manifest& child) {
    const ListedCheckpoint* parent = find_epoch(listed_, child.parent);
    if (parent == nullptr || parent->parts.count(child.rank) == 0) {
      any_missing_ = true;
      return {child.parent, {Code::kDamaged, "it is missing"}, true};
    }
    const Verdict& above = verdicts_[{child.parent, child.rank}];
    if (!above.problem.ok()) return above;
    const Manifest& manifest = *manifest_of(*parent, child.rank);
    const uint32_t ancestors = above.ancestors + 1;
    Status good = check_link(child, manifest, parent->parts.at(child.rank).checksum);
    if (good.ok()) good = check_length(child, ancestors);
    return {child.epoch, good, false, ancestors, above.bytes};
  }

  // Newest first, so that a checkpoint is marked as needed before its parent.
  void mark_ancestors(const CheckpointInfo& info) {
    const bool complete = info.state == CheckpointState::kComplete;
    const uint64_t by = info.needed_by == 0 && complete ? info.epoch : info.needed_by;
    for (const Manifest& manifest : info.ranks) {
      if (manifest.parent == 0) continue;
      ListedCheckpoint* parent = find_epoch(listed_, manifest.parent);
      if (parent != nullptr) parent->info.needed_by = std::max(parent->info.needed_by, by);
    }
  }

  std::vector<ListedCheckpoint>& listed_;
  bool any_missing_ = false;
  std::map<std::pair<uint64_t, uint32_t>, Verdict> verdicts_;  // by epoch and rank
};

Result<std::vector<ListedCheckpoint>> read_job(FileSystem& files, const std::string& job_folder,
                                               const std::string& name) {
  std::vector<ListedCheckpoint> listed;
  const Result<std::vector<FolderEntry>> entries = files.entries(job_folder);
  if (entries.status().code() == Code::kNotFound) return listed;
  if (!entries.ok()) return entries.status();
  const Sizes journals = sizes_of(entries.value());
  for (const FolderEntry& entry : entries.value()) {
    const std::optional<uint64_t> epoch = parse_epoch_folder(entry.name);
    if (!epoch || !entry.is_folder) continue;
    const Result<std::vector<FolderEntry>> inside = files.entries(job_folder + "/" + entry.name);
    if (inside.status().code() == Code::kNotFound) continue;  // pruned meanwhile
    if (!inside.ok()) return inside.status();
    listed.push_back(Epoch(files, job_folder, name, *epoch)
                         .examine(inside.value(), journals, entry.modified_unix_ns));
  }
  std::sort(listed.begin(), listed.end(),
            [](const auto& a, const auto& b) { return a.info.epoch > b.info.epoch; });
  return listed;
}

}  // namespace

Result<std::vector<ListedCheckpoint>> list_job(FileSystem& files, const std::string& job_folder,
                                               const std::string& name) {
  Result<std::vector<ListedCheckpoint>> listed = read_job(files, job_folder, name);
  if (!listed.ok() || !Chains(listed.value()).judge()) return listed;
  // Both may have been pruned meanwhile, after the child was read; the child goes first.
  listed = read_job(files, job_folder, name);
  if (listed.ok()) (void)Chains(listed.value()).judge();
  return listed;
}

const Manifest* manifest_of(const ListedCheckpoint& checkpoint, uint32_t rank) {
  const std::vector<Manifest>& ranks = checkpoint.info.ranks;
  const auto found =
      std::find_if(ranks.begin(), ranks.end(), [rank](const auto& m) { return m.rank == rank; });
  return found != ranks.end() ? &*found : nullptr;
}

std::vector<const Manifest*> ancestors_of(const std::vector<ListedCheckpoint>& listed,
                                          const Manifest& manifest) {
  std::vector<const Manifest*> ancestors;
  for (const Manifest* m = &manifest; m != nullptr && m->parent != 0;) {
    const ListedCheckpoint* const parent = find_epoch(listed, m->parent);
    m = parent != nullptr ? manifest_of(*parent, m->rank) : nullptr;
    if (m != nullptr) ancestors.push_back(m);
  }
  return ancestors;
}

}  // namespace gpusnap
