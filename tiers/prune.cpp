// SPDX-License-Identifier: Apache-2.0
#include "tiers/prune.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "tiers/listing.h"
#include "tiers/manifest_file.h"
#include "tiers/names.h"

namespace gpusnap {

namespace {

class Pruner {
 public:
  Pruner(FileSystem& files, const PruneRequest& request, std::vector<PrunedItem>* items)
      : files_(files), request_(request), items_(items) {}

  Status run() {
    // Before anything else, so that the list has no journals of a run that begins later.
    const Result<std::vector<FolderEntry>> files = files_.entries(request_.job_folder);
    Result<std::vector<ListedCheckpoint>> listed =
        list_job(files_, request_.job_folder, request_.job_folder_name);
    if (!listed.ok()) return listed.status();
    const auto newest = std::find_if(listed->begin(), listed->end(), [](const auto& checkpoint) {
      return checkpoint.info.state == CheckpointState::kComplete;
    });
    const bool any_complete = newest != listed->end();
    // Nothing has a successor.
    if (!any_complete && !request_.left_since_unix_ns) return {};
    const uint64_t newest_epoch = any_complete ? newest->info.epoch : 0;
    const bool all_unnamed =
        any_complete && request_.is_of_this_run && request_.is_of_this_run(newest_epoch);
    std::vector<const ListedCheckpoint*> staying;
    uint32_t kept = 0;
    for (const ListedCheckpoint& checkpoint : listed.value()) {
      // Before the next one, which is older and may be its ancestor.
      const bool superfluous = is_superfluous(checkpoint.info, newest_epoch, kept);
      if (superfluous && !is_ancestor(checkpoint.info) && make_durable(staying) &&
          remove(checkpoint.info)) {
        add_journals(checkpoint.info, released_);
      } else {
        stay(checkpoint);
        staying.push_back(&checkpoint);
      }
    }
    if (make_durable(staying)) {
      for (const ListedCheckpoint* checkpoint : staying) remove_unnamed(checkpoint->info);
    }
    if (!any_unread_) remove_journals(files, all_unnamed);
    if (!request_.dry_run) note(files_.sync_folder(request_.job_folder));
    return status_;
  }

 private:
  void note(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // Newest first; counts the complete ones in `kept`.
  bool is_superfluous(const CheckpointInfo& info, uint64_t newest, uint32_t& kept) {
    switch (info.state) {
      case CheckpointState::kComplete:
        return kept++ >= request_.keep;
      case CheckpointState::kPartial:
        if (request_.is_being_written && request_.is_being_written(info.epoch)) return false;
        return info.epoch < newest || is_left(info);
      case CheckpointState::kDamaged:
        break;
    }
    return false;
  }

  bool is_left(const FolderEntry& entry) const {
    return request_.left_since_unix_ns && entry.modified_unix_ns <= *request_.left_since_unix_ns;
  }
  // Returns whether no process writes the checkpoint.
  bool is_left(const CheckpointInfo& info) {
    if (!request_.left_since_unix_ns || info.time_unix_ns > *request_.left_since_unix_ns) {
      return false;
    }
    const Result<std::vector<FolderEntry>> entries = files_.entries(folder_of(info));
    if (!entries.ok()) {
      note(entries.status());
      return false;
    }
    return std::all_of(entries->begin(), entries->end(),
                       [this](const FolderEntry& entry) { return is_left(entry); });
  }

  // Returns whether a remaining checkpoint needs this one. A manifest that cannot be read may name
  // any checkpoint.
  bool is_ancestor(const CheckpointInfo& info) const {
    return any_unread_ || parents_.count(info.epoch) > 0;
  }

  void stay(const ListedCheckpoint& checkpoint) {
    add_journals(checkpoint.info, needed_);
    for (const Manifest& manifest : checkpoint.info.ranks) {
      if (manifest.parent != 0) parents_.insert(manifest.parent);
    }
    any_unread_ = any_unread_ || checkpoint.has_unread_manifest;
    any_on_its_way_ = any_on_its_way_ || checkpoint.info.state == CheckpointState::kPartial;
  }

  static void add_journals(const CheckpointInfo& info, std::set<std::string>& names) {
    for (const Manifest& manifest : info.ranks) {
      for (const JournalPart& part : manifest.journal) names.insert(part.file);
    }
  }

  std::string folder_of(const CheckpointInfo& info) const {
    return request_.job_folder + "/" + epoch_folder(info.epoch);
  }

  // Makes the remaining checkpoints durable: a process that committed or merged one may have died
  // before the manifest's name was durable. Superfluous files are removed only after that.
  bool make_durable(const std::vector<const ListedCheckpoint*>& staying) {
    for (; durable_ < staying.size() && !request_.dry_run; ++durable_) {
      if (staying[durable_]->info.state != CheckpointState::kComplete) continue;
      Status synced = files_.sync_folder(folder_of(staying[durable_]->info));
      if (synced.ok()) continue;
      note(std::move(synced));
      return false;
    }
    return true;
  }

  // Adds removed files to `item`. Returns true if all matching files are removed.
  template <class F>
  bool remove_where(const std::string& folder, const std::vector<FolderEntry>& entries,
                    PrunedItem& item, F matches) {
    bool all = true;
    for (const FolderEntry& entry : entries) {
      if (entry.is_folder || !matches(entry)) continue;
      Status removed = request_.dry_run ? Status() : files_.remove(folder + "/" + entry.name);
      if (removed.code() == Code::kNotFound) continue;
      if (removed.ok()) {
        ++item.files;
        item.bytes += entry.size;
      }
      all = all && removed.ok();
      note(std::move(removed));
    }
    return all;
  }

  void tell(PrunedItem item) {
    if (items_ != nullptr && item.files > 0) items_->push_back(std::move(item));
  }

  // Returns whether all its manifests are removed, durably.
  bool remove(const CheckpointInfo& info) {
    const std::string folder = folder_of(info);
    const Result<std::vector<FolderEntry>> entries = files_.entries(folder);
    if (!entries.ok()) {
      note(entries.status());
      return false;
    }
    PrunedItem item{info.id + " (" + name_of(info.state) + ")", 0, 0};
    const bool gone = remove_where(folder, entries.value(), item, [](const FolderEntry& entry) {
      return parse_manifest_name(entry.name).has_value();
    });
    Status synced = gone && !request_.dry_run ? files_.sync_folder(folder) : Status();
    if (!gone || !synced.ok()) {
      note(std::move(synced));
      return false;
    }
    const bool empty = remove_where(folder, entries.value(), item, [](const FolderEntry& entry) {
      return rank_of_part_file(entry.name).has_value();
    });
    // Fails if the folder has foreign files.
    if (empty && !request_.dry_run) (void)files_.remove_folder(folder);
    tell(std::move(item));
    return true;
  }

  // Removes files that a merge has made superfluous, or that a killed merge has left. All ranks
  // have committed, so no other process writes here.
  void remove_unnamed(const CheckpointInfo& info) {
    if (info.state != CheckpointState::kComplete) return;
    std::set<uint32_t> ranks;
    for (const FolderEntry& entry : unnamed(info)) {
      if (const auto rank = rank_of_part_file(entry.name)) ranks.insert(*rank);
    }
    PrunedItem item{"files that " + info.id + " does not need", 0, 0};
    for (const uint32_t rank : ranks) remove_unnamed(info, rank, item);
    tell(std::move(item));
  }

  void remove_unnamed(const CheckpointInfo& info, uint32_t rank, PrunedItem& item) {
    std::unique_ptr<FileLock> no_merge;
    if (!request_.dry_run) {
      auto lock = files_.lock(request_.job_folder + "/" + merge_lock_name(rank));
      if (lock.status().code() == Code::kBusy) return;
      if (!lock.ok()) return note(lock.status());
      no_merge = std::move(lock.value());
    }
    // Reads the manifest again: a merge may have ended meanwhile.
    Result<StoredManifest> now =
        read_manifest(files_, request_.job_folder, request_.job_folder_name, info.epoch, rank);
    if (!now.ok()) return;
    CheckpointInfo part = info;
    part.ranks.clear();
    part.ranks.push_back(std::move(now->manifest));
    // Files that the earlier manifest names stay until this one is durable.
    if (!request_.dry_run) {
      if (Status synced = files_.sync_folder(folder_of(info)); !synced.ok()) {
        return note(std::move(synced));
      }
    }
    const std::vector<FolderEntry> entries = unnamed(part);
    remove_where(folder_of(info), entries, item, [rank](const FolderEntry& entry) {
      return rank_of_part_file(entry.name) == rank;
    });
  }

  // Files of parts in its folder that none of its manifests names.
  std::vector<FolderEntry> unnamed(const CheckpointInfo& info) {
    Result<std::vector<FolderEntry>> entries = files_.entries(folder_of(info));
    if (!entries.ok()) {
      note(entries.status());
      return {};
    }
    std::set<std::string> named;
    for (const Manifest& manifest : info.ranks) {
      for (const SegmentRef& segment : manifest.segments) named.insert(segment.file);
    }
    std::erase_if(entries.value(), [&](const FolderEntry& entry) {
      return entry.is_folder || !rank_of_part_file(entry.name) || named.count(entry.name) > 0;
    });
    return std::move(entries.value());
  }

  void remove_journals(const Result<std::vector<FolderEntry>>& entries, bool all_unnamed) {
    if (entries.status().code() == Code::kNotFound) return;
    if (!entries.ok()) return note(entries.status());
    for (const FolderEntry& entry : entries.value()) {
      PrunedItem item{"journal " + entry.name, 0, 0};
      remove_where(request_.job_folder, {entry}, item, [&](const FolderEntry& journal) {
        if (!is_journal_name(journal.name) || needed_.count(journal.name) > 0) return false;
        // It is not known yet which journals a checkpoint in flight needs.
        return all_unnamed || released_.count(journal.name) > 0 ||
               (is_left(journal) && !any_on_its_way_);
      });
      tell(std::move(item));
    }
  }

  FileSystem& files_;
  const PruneRequest& request_;
  std::vector<PrunedItem>* const items_;
  std::set<std::string> needed_;    // journal parts that a remaining manifest names
  std::set<std::string> released_;  // journal parts that removed manifests named
  std::set<uint64_t> parents_;      // epochs that a remaining manifest names
  size_t durable_ = 0;              // number of remaining checkpoints known to be durable
  bool any_unread_ = false;
  bool any_on_its_way_ = false;
  Status status_;
};

}  // namespace

Status prune_job(FileSystem& files, const PruneRequest& request, std::vector<PrunedItem>* items) {
  return Pruner(files, request, items).run();
}

}  // namespace gpusnap
