#include "interpose/restored_rank.h"

#include <unistd.h>

#include <algorithm>

#include "interpose/services/program.h"

namespace gpusnap {

std::string job_of(const Settings& settings, const ProgramIdentity& program) {
  const size_t job_end = settings.restore.rfind('@');
  if (job_end != std::string::npos) return settings.restore.substr(0, job_end);
  return sanitise_job(settings.job.empty() ? default_job_name(program.path, program.folder, environ)
                                           : settings.job);
}

std::string restore_id(const Settings& settings, const std::string& job) {
  return settings.restore == "latest" ? job + "@latest" : settings.restore;
}

Result<RestoredRank> find_rank(Store& store, const std::string& id, const Ranks& ranks) {
  Result<CheckpointInfo> found = store.find(id);
  if (!found.ok()) return found.status();
  RestoredRank restored{std::move(found.value()), 0};
  const CheckpointInfo& checkpoint = restored.checkpoint;
  if (checkpoint.state != CheckpointState::kComplete) {
    return Status(Code::kDamaged,
                  checkpoint.id + " is not a complete checkpoint: " + checkpoint.reason);
  }
  const auto own = std::ranges::find(checkpoint.ranks, ranks.rank, &Manifest::rank);
  if (checkpoint.ranks.front().ranks != ranks.ranks || own == checkpoint.ranks.end()) {
    return Status(Code::kInvalid, checkpoint.id + " is of " +
                                      std::to_string(checkpoint.ranks.front().ranks) +
                                      " rank(s), this run has " + std::to_string(ranks.ranks));
  }
  restored.index = static_cast<size_t>(own - checkpoint.ranks.begin());
  return restored;
}

}  // namespace gpusnap
