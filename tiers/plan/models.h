// SPDX-License-Identifier: Apache-2.0
//
// Analytic models of multi-level checkpoints, and their optimal intervals.
//
// A product calls `optimise` with what it has measured (stall, time of a flush, failure rate) and
// gets the interval of each level.
#pragma once

#include <string_view>
#include <vector>

#include "tiers/plan/level.h"
#include "tiers/status.h"

namespace gpusnap::plan {

enum class Model {
  // Young's: half an interval is lost for each failure, and the levels' costs add up.
  kFirstOrder,
  // Daly's complete model of 2006 for each level; the levels' efficiencies are multiplied.
  kDaly,
  // A Markov chain after Moody et al. 2010, in which failures strike only while the job computes.
  kMarkov,
  // The same chain with failures during checkpoints and restarts. Each of them begins again after a
  // failure of any class, as in Moody et al.
  kMarkovFailures,
};

inline constexpr Model kModels[] = {Model::kFirstOrder, Model::kDaly, Model::kMarkov,
                                    Model::kMarkovFailures};

// "first-order", "daly", "markov", "markov-failures".
const char* name_of(Model model);
// kInvalid, with the names that exist.
Result<Model> parse_model(std::string_view name);

// kInvalid for a negative or infinite cost or rate, or without levels.
Status check(const std::vector<Level>& levels);

// The efficiency with these intervals: one for each level, in seconds of work, above 0 and not
// falling. The Markov chains round each interval to a multiple of the interval below it. Levels
// that cost nothing or that no failure needs are left out, whatever their interval. The levels must
// pass `check`.
Prediction predict(Model model, const std::vector<Level>& levels,
                   const std::vector<double>& intervals_s);

// The best intervals. None is shorter than its level's stall and latency together, since a level
// takes one checkpoint at a time, nor shorter than kLeastInterval_s. The levels must pass `check`.
Prediction optimise(Model model, const std::vector<Level>& levels);

inline constexpr double kLeastInterval_s = 1e-3;

}  // namespace gpusnap::plan
