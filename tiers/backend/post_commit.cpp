#include "tiers/backend/post_commit.h"

#include <memory>
#include <string>

#include "tiers/merge.h"
#include "tiers/prune.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {

struct Committed {
  FileSystem& files;
  Turns& turns;
  const CheckpointText& part;
  const std::function<bool()>& client_lives;
  ChunkCache& cache;
  Protection* protection;
  std::string job;         // the folder's name
  std::string job_folder;  // with the store's
};

// Removes what the newest checkpoints do not need. Under the job's lock: the client's, or, where
// that has gone, one of our own, unless another run has it by now.
Status prune(const Committed& committed) {
  const CheckpointText& part = committed.part;
  if (part.rank != 0 || part.keep == 0) return {};
  std::unique_ptr<FileLock> own;
  if (!committed.client_lives()) {
    auto lock = committed.files.lock(committed.job_folder + "/lock");
    if (lock.status().code() == Code::kBusy) return {};
    if (!lock.ok()) return lock.status();
    own = std::move(lock.value());
  }
  return prune_job(
      committed.files,
      {committed.job_folder, committed.job, part.keep,
       [&](uint64_t epoch) { return committed.turns.is_writing(committed.job_folder, epoch); },
       [&](uint64_t epoch) {
         // With the lock held until here, what was found is not of a later run.
         const bool is_locked = own != nullptr || committed.client_lives();
         return is_locked && committed.turns.is_of_run(committed.job_folder, part.run, epoch);
       }});
}

// Local copies of what has been pruned, here or by others.
Status evict(const Committed& committed) {
  committed.cache.drop_pruned(committed.job_folder);
  return {};
}

// So that whoever comes after this backend protects it, should it die before it has.
Status announce(const Committed& committed) {
  if (committed.protection != nullptr) committed.protection->committed(committed.part);
  return {};
}

// Increments become a full checkpoint. Its segments are others then.
Status merge(const BackgroundPart& work) {
  const CheckpointText& part = work.part;
  if (part.chain == 0) return {};
  const std::string job = sanitise_job(part.job);
  MergeRequest request;
  request.job = {part.store + "/" + job, job};
  request.epoch = part.epoch;
  request.rank = part.rank;
  request.chain_limit = part.chain;
  request.segments = work.options;
  request.segments.segment_bytes = part.segment_bytes;
  request.stop = work.stop;
  const Result<bool> merged = merge_if_worth(work.files, request, work.compression, work.spawn);
  if (merged.ok() && merged.value()) {
    work.cache.drop({request.job.folder, part.epoch, part.rank, part.run});
  }
  const bool gone = merged.status().code() == Code::kNotFound;  // pruned meanwhile
  return merged.ok() || gone ? Status() : merged.status();
}

Status protect(const BackgroundPart& work) {
  if (work.protection != nullptr) work.protection->settled(work.part);
  return {};
}

// The chains: in this order. Protection comes after merging, so that what is coded is what stays.
using Module = Status (*)(const Committed&);
constexpr Module kAfterCommit[] = {prune, evict, announce};
using BackgroundModule = Status (*)(const BackgroundPart&);
constexpr BackgroundModule kInBackground[] = {merge, protect};

}  // namespace

Status after_commit(FileSystem& files, Turns& turns, const CheckpointText& part,
                    const std::function<bool()>& client_lives, ChunkCache& cache,
                    Protection* protection) {
  const std::string job = sanitise_job(part.job);
  const Committed committed{files, turns,      part, client_lives,
                            cache, protection, job,  part.store + "/" + job};
  turns.committed(committed.job_folder, part.run, part.epoch);
  Status first;
  for (const Module module : kAfterCommit) {
    Status done = module(committed);
    if (first.ok()) first = std::move(done);
  }
  return first;
}

Status in_background(const BackgroundPart& work) {
  Status first;
  for (const BackgroundModule module : kInBackground) {
    Status done = module(work);
    if (first.ok()) first = std::move(done);
  }
  return first;
}

}  // namespace gpusnap
