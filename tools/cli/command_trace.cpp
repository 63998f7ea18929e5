// SPDX-License-Identifier: Apache-2.0
// trace: what jobs or a checkpoint did over time, for a viewer of traces.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/job_times.h"
#include "tools/cli/output_file.h"
#include "tools/cli/store_access.h"
#include "tools/cli/trace_events.h"

namespace gpusnap {
namespace {

struct TraceOptions {
  std::string id;  // a checkpoint's or a job's; empty: all jobs
  std::string store;
  OutputFile output;
};

int trace_command(const TraceOptions& options) {
  const Result<std::unique_ptr<Store>> store = open_store(options.store);
  if (!store.ok()) return fail(store.status());
  const Result<std::vector<JobTimes>> jobs =
      read_times(posix_file_system(), *store.value(), options.id);
  if (!jobs.ok()) return fail(jobs.status());
  const std::vector<TraceEvent> events = events_of(jobs.value());
  const std::string to = options.output.path_for(options.id, "trace.json");
  const Status written = write_output_file(to, trace_as_json(events), options.output.force);
  if (!written.ok()) return fail_output(written);
  size_t parts = 0;
  for (const JobTimes& job : jobs.value()) parts += job.parts.size();
  fmt::print("{}: {} part{} of checkpoints, {} events\n", to, parts, parts == 1 ? "" : "s",
             events.size());
  return kExitOk;
}

void declare_trace(CLI::App& command, TraceOptions& options) {
  command.add_option("ID", options.id, "JOB@EPOCH, JOB@latest or JOB (default: all jobs)");
  add_output(command, options.output, "ID-trace.json");
  add_store(command, options.store);
  end_help(command,
           "The file has the Chrome trace event format: open it in ui.perfetto.dev or "
           "chrome://tracing.\nEach rank has a row for its runs, one for the times for which the "
           "program was held at a\ncut, and one for checkpoints on their way to the store: from "
           "the cut until the manifest has\nits name. Waits after the cut are in a slice's "
           "arguments. The store tells of the checkpoints\nthat it still has; a part that was "
           "merged does not tell when it became durable.\n\n"
           "Examples:\n"
           "  gpusnap trace wave -o wave.json\n"
           "  gpusnap trace wave@12\n\n");
}

}  // namespace

const Command kTraceCommand{
    "trace", "write what a job's checkpoints did over time, for a viewer of traces",
    [](CLI::App& command) { return action_of(command, declare_trace, trace_command); }};

}  // namespace gpusnap
