#include "tiers/prune.h"

#include <algorithm>
#include <set>
#include <vector>

#include "tiers/listing.h"
#include "tiers/names.h"

namespace gpusnap {

namespace {

class Pruner {
 public:
  Pruner(FileSystem& files, const PruneRequest& request) : files_(files), request_(request) {}

  Status run() {
    Result<std::vector<ListedCheckpoint>> listed =
        list_job(files_, request_.job_folder, request_.job_folder_name);
    if (!listed.ok()) return listed.status();
    const auto newest = std::find_if(listed->begin(), listed->end(), [](const auto& checkpoint) {
      return checkpoint.info.state == CheckpointState::kComplete;
    });
    if (newest == listed->end()) return {};  // there is no successor to anything
    const uint64_t newest_epoch = newest->info.epoch;
    uint32_t kept = 0;
    for (const ListedCheckpoint& checkpoint : listed.value()) {
      // Before the next one's turn, which is older and may be its ancestor.
      const bool superfluous = is_superfluous(checkpoint.info, newest_epoch, kept);
      if (superfluous && !is_ancestor(checkpoint.info) && remove(checkpoint.info)) {
        add_journals(checkpoint.info, released_);
      } else {
        add_journals(checkpoint.info, needed_);
        add_parents(checkpoint.info);
        any_unread_ = any_unread_ || checkpoint.has_unread_manifest;
      }
    }
    if (!any_unread_) remove_journals(request_.is_of_this_run(newest_epoch));
    note(files_.sync_folder(request_.job_folder));
    return status_;
  }

 private:
  void note(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // Newest first; counts the complete ones in `kept`.
  bool is_superfluous(const CheckpointInfo& info, uint64_t newest, uint32_t& kept) const {
    switch (info.state) {
      case CheckpointState::kComplete:
        return kept++ >= request_.keep;
      case CheckpointState::kPartial:
        return info.epoch < newest && !request_.is_being_written(info.epoch);
      case CheckpointState::kDamaged:
        break;
    }
    return false;
  }

  // Of one that stays. A manifest that cannot be read may name any.
  bool is_ancestor(const CheckpointInfo& info) const {
    return any_unread_ || parents_.count(info.epoch) > 0;
  }

  void add_parents(const CheckpointInfo& info) {
    for (const Manifest& manifest : info.ranks) {
      if (manifest.parent != 0) parents_.insert(manifest.parent);
    }
  }

  static void add_journals(const CheckpointInfo& info, std::set<std::string>& names) {
    for (const Manifest& manifest : info.ranks) {
      for (const JournalPart& part : manifest.journal) names.insert(part.file);
    }
  }

  template <class F>
  bool remove_where(const std::string& folder, const std::vector<FolderEntry>& entries, F matches) {
    bool all = true;
    for (const FolderEntry& entry : entries) {
      if (entry.is_folder || !matches(entry.name)) continue;
      Status removed = files_.remove(folder + "/" + entry.name);
      if (removed.code() == Code::kNotFound) continue;
      all = all && removed.ok();
      note(std::move(removed));
    }
    return all;
  }

  // Whether no manifest of it is left, for good.
  bool remove(const CheckpointInfo& info) {
    const std::string folder = request_.job_folder + "/" + epoch_folder(info.epoch);
    const Result<std::vector<FolderEntry>> entries = files_.entries(folder);
    if (!entries.ok()) {
      note(entries.status());
      return false;
    }
    const auto is_manifest = [](const std::string& name) {
      return parse_manifest_name(name).has_value();
    };
    if (!remove_where(folder, entries.value(), is_manifest)) return false;
    if (Status synced = files_.sync_folder(folder); !synced.ok()) {
      note(std::move(synced));
      return false;
    }
    const bool empty = remove_where(folder, entries.value(), [](const std::string& name) {
      return parse_segment_name(name) || is_temporary_manifest_name(name);
    });
    // Files that are not ours keep the folder.
    if (empty) (void)files_.remove_folder(folder);
    return true;
  }

  void remove_journals(bool all_unnamed) {
    const Result<std::vector<FolderEntry>> entries = files_.entries(request_.job_folder);
    if (!entries.ok()) return note(entries.status());
    remove_where(request_.job_folder, entries.value(), [&](const std::string& name) {
      return is_journal_name(name) && needed_.count(name) == 0 &&
             (all_unnamed || released_.count(name) > 0);
    });
  }

  FileSystem& files_;
  const PruneRequest& request_;
  std::set<std::string> needed_;    // journal parts that a remaining manifest names
  std::set<std::string> released_;  // and those that only removed ones named, perhaps
  std::set<uint64_t> parents_;      // epochs that a remaining manifest names
  bool any_unread_ = false;
  Status status_;
};

}  // namespace

Status prune_job(FileSystem& files, const PruneRequest& request) {
  return Pruner(files, request).run();
}

}  // namespace gpusnap
