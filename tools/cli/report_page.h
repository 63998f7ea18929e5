// SPDX-License-Identifier: Apache-2.0
// The page that `gpusnap report` writes: one HTML file that needs nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli/job_times.h"
#include "tools/cli/node.h"

namespace gpusnap {

struct JobReport {
  std::string job;
  std::vector<LevelledCheckpoint> checkpoints;  // newest first
  JobTimes times;
};

struct Report {
  std::string store;  // folder
  int64_t made_unix_ns = 0;
  std::vector<JobReport> jobs;
};

// All text from the store is escaped. The page is well-formed XML, too.
std::string report_as_html(const Report& report);

}  // namespace gpusnap
