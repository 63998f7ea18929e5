// SPDX-License-Identifier: Apache-2.0
// A trace in the Chrome trace event format, which ui.perfetto.dev and chrome://tracing show.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/job_times.h"

namespace gpusnap {

struct TraceEvent {
  char phase = 'X';  // X: a slice, C: a counter, M: a name
  std::string name;
  uint64_t process = 0;
  uint64_t thread = 0;
  int64_t begin_unix_ns = 0;
  int64_t length_ns = 0;  // X
  std::vector<std::pair<std::string, uint64_t>> numbers;
  std::vector<std::pair<std::string, std::string>> texts;
};

// Each rank of each job is a process of the trace: its runs, when its program was held, and how
// long each checkpoint was on its way to the store.
std::vector<TraceEvent> events_of(const std::vector<JobTimes>& jobs);

// Names first, then the events by time, in microseconds since the first one.
std::string trace_as_json(std::vector<TraceEvent> events);

}  // namespace gpusnap
