// SPDX-License-Identifier: Apache-2.0
//
// Costs of a job's checkpoints, by the manifests of its store: input of `gpusnap plan --job`.
#pragma once

#include <string>
#include <vector>

#include "tiers/plan/machine.h"
#include "tiers/store.h"

namespace gpusnap {

// Averages over the job's complete checkpoints; the dirty share comes from increments, and is 1
// where there is none. kNotFound: no complete checkpoint holds device memory.
Result<plan::JobCosts> costs_of_job(const std::vector<CheckpointInfo>& checkpoints,
                                    const std::string& job);

}  // namespace gpusnap
