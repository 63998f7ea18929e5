// SPDX-License-Identifier: Apache-2.0
// A picture of a job over time: its runs, cuts, and how long checkpoints were on their way.
#pragma once

#include <string>

#include "tools/cli/job_times.h"

namespace gpusnap {

// As SVG text; its colours come from the page's style. Empty where there is nothing to show.
std::string timeline_as_svg(const JobTimes& times);

}  // namespace gpusnap
