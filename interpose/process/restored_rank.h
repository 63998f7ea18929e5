// SPDX-License-Identifier: Apache-2.0
// The part of a checkpoint that this process is to be restored from.
#pragma once

#include <string>

#include "interpose/services/ranks.h"
#include "interpose/services/settings.h"
#include "tiers/backend/located_part.h"
#include "tiers/staging/memory.h"
#include "tiers/store.h"

namespace gpusnap {

struct RestoredRank {
  CheckpointInfo checkpoint;
  size_t index = 0;         // among its ranks
  bool is_pending = false;  // the store does not have all ranks' parts: only this one is known
  const Manifest& manifest() const { return checkpoint.ranks[index]; }
};

// Where it went when it was made.
inline plan::Destination destination_of(const Manifest& manifest) {
  return manifest.since_stored != 0 ? plan::Destination::kMemory : plan::Destination::kStore;
}

// The name of the job, and the checkpoint that GPUSNAP_RESTORE means.
std::string job_of(const Settings& settings, const ProgramIdentity& program);
std::string restore_id(const Settings& settings, const std::string& job);

// Whether the tool has said that the checkpoint is on its way to the store, where the backend may
// still be at work on the job.
bool is_on_its_way();

// kNotFound: there is no such checkpoint. kDamaged: it is not complete. kInvalid: it is of another
// number of ranks. kBusy: it did not come in time. Where the tool has said that it is on its way to
// the store, the rank's part may be one that this node has handed over.
Result<RestoredRank> find_rank(const Settings& settings, Store& store, const std::string& id,
                               const Ranks& ranks);

// Locates a part that is on its way from this node. `memory`, which outlives it, as does `store`:
// the node's area; null: it is mapped each time.
LocatePart locate_rank(const Settings& settings, StagingMemory* memory, const Store& store,
                       const CheckpointInfo& checkpoint, uint32_t rank);

}  // namespace gpusnap
