// The part of a checkpoint that this process is to be restored from.
#pragma once

#include <string>

#include "interpose/services/ranks.h"
#include "interpose/services/settings.h"
#include "tiers/store.h"

namespace gpusnap {

struct RestoredRank {
  CheckpointInfo checkpoint;
  size_t index = 0;  // among its ranks
  const Manifest& manifest() const { return checkpoint.ranks[index]; }
};

// The name of the job, and the checkpoint that GPUSNAP_RESTORE means.
std::string job_of(const Settings& settings, const ProgramIdentity& program);
std::string restore_id(const Settings& settings, const std::string& job);

// kNotFound: there is no such checkpoint. kDamaged: it is not complete. kInvalid: it is of another
// number of ranks.
Result<RestoredRank> find_rank(Store& store, const std::string& id, const Ranks& ranks);

}  // namespace gpusnap
