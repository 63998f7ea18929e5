// SPDX-License-Identifier: Apache-2.0
#include "tiers/commit.h"

#include <memory>
#include <utility>
#include <vector>

#include "tiers/manifest_file.h"
#include "tiers/names.h"
#include "tiers/store.h"

namespace gpusnap {

std::string CheckpointPlace::epoch_folder_path() const {
  return job_folder + "/" + epoch_folder(epoch);
}

Status taken_by_another_run(const std::string& epoch_folder) {
  return {Code::kInvalid,
          "cannot write a checkpoint: another run's is in " + epoch_folder + " already"};
}

Commit::Commit(FileSystem& files, CheckpointPlace place)
    : files_(files),
      place_(std::move(place)),
      folder_(place_.epoch_folder_path()),
      pending_(files, folder_, place_.rank, place_.run) {}

Status Commit::finish(Manifest manifest, Existing existing) {
  if (Status fits = check(manifest); !fits.ok()) return fits;
  if (Status linked = link(manifest); !linked.ok()) return linked;
  const std::vector<std::byte> bytes = encode(manifest);
  if (bytes.empty()) return refuse("its manifest would be too large");
  // A manifest that readers would refuse is not written in the first place.
  if (const auto read_back = decode_manifest(bytes); !read_back.ok()) {
    return refuse(read_back.status().message());
  }
  if (Status synced = files_.sync_folder(folder_); !synced.ok()) return synced;
  if (Status written = pending_.write(bytes); !written.ok()) return written;
  return existing == Existing::kReplace ? pending_.replace() : publish();
}

Status Commit::publish() {
  Status published = pending_.publish();
  if (published.ok()) return published;
  const auto there =
      read_manifest(files_, place_.job_folder, place_.job_folder_name, place_.epoch, place_.rank);
  const bool is_anothers = there.ok() && there->manifest.run != place_.run;
  return is_anothers ? taken_by_another_run(folder_) : published;
}

// Makes the parent of an increment durable: it may have been committed or merged by a process that
// died before it had done so. Older ancestors are durable since the parent is.
Status Commit::link(Manifest& manifest) const {
  if (manifest.parent == 0) return {};
  Status linked = link_to_parent(files_, {place_.job_folder, place_.job_folder_name}, manifest);
  if (!linked.ok()) return refuse(linked.message());
  return files_.sync_folder(place_.job_folder + "/" + epoch_folder(manifest.parent));
}

Status Commit::refuse(const std::string& why) const {
  return {Code::kInvalid, "cannot commit " + folder_ + ": " + why};
}

Status Commit::check(const Manifest& manifest) const {
  if (manifest.epoch != place_.epoch || manifest.rank != place_.rank ||
      sanitise_job(manifest.job) != place_.job_folder_name) {
    return refuse("its manifest is that of another checkpoint");
  }
  return {};
}

}  // namespace gpusnap
