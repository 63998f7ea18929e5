// SPDX-License-Identifier: Apache-2.0
//
// A Markov chain of computing and recovering, after Moody, Bronevetsky, Mohror and de Supinski,
// "Design, Modeling, and Evaluation of a Scalable Multi-level Checkpointing System" (2010).
//
// A pattern of checkpoints repeats: every counts[0]-th checkpoint is of the second level, every
// counts[1]-th of these of the third, and so on. After a failure of a level's class the job goes on
// from the last checkpoint of that level or a higher one.
#pragma once

#include <cstdint>
#include <vector>

#include "tiers/plan/level.h"

namespace gpusnap::plan {

struct Pattern {
  double interval_s = 0;         // work between two checkpoints
  std::vector<uint64_t> counts;  // one fewer than levels; each at least 1
};

// Expected times for one pattern; infinite where it practically never ends.
struct PatternTime {
  double work_s = 0;
  double total_s = 0;
  double restart_s = 0;               // of the total
  std::vector<double> checkpoints_s;  // of the total, by level: checkpoints that were completed
};

// `anywhere`: failures strike during checkpoints and restarts, too, and these begin again. Every
// level has a failure rate above 0.
PatternTime markov_time(const std::vector<Level>& levels, const Pattern& pattern, bool anywhere);

}  // namespace gpusnap::plan
