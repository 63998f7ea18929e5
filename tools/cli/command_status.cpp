// SPDX-License-Identifier: Apache-2.0
// status: what runs on this node, and how its checkpoints get on.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "interpose/services/log.h"
#include "interpose/services/setting_values.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/job_look.h"
#include "tools/cli/job_status.h"

namespace gpusnap {
namespace {

struct StatusOptions {
  std::string job;    // empty: all
  std::string store;  // empty: all
  bool json = false;
  // For a process to answer, and for a store.
  std::chrono::nanoseconds timeout{std::chrono::seconds(1)};
  std::string watch;                  // as given
  std::chrono::nanoseconds every{0};  // 0: once
};

int64_t now_unix_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// The backend serves jobs that are not asked for, too, and outlives all of them.
std::vector<BackendStatus> backend_to_show(const StatusOptions& options) {
  if (!options.job.empty() || !options.store.empty()) return {};
  return {JobLook::backend_of_node()};
}

void say_that_there_are_none(const StatusOptions& options) {
  const std::string of = options.job.empty() ? "" : " of job " + options.job;
  const std::string where = options.store.empty() ? "" : " that saves in " + options.store;
  if (options.job.empty()) {
    fmt::print(stderr, "gpusnap: no process{} runs under gpusnap on this node\n", where);
  } else {
    log(LogLevel::kError, "no process", of, where, " runs under gpusnap on this node");
  }
}

int show_once(JobLook& look, const StatusOptions& options) {
  const std::vector<JobStatus> jobs = look.jobs();
  // In the place of what was there, without a moment in which nothing is.
  const bool redraws = options.every.count() > 0 && isatty(STDOUT_FILENO) == 1;
  const std::string text =
      options.json ? as_json(jobs) : as_text(jobs, backend_to_show(options), now_unix_ns());
  fmt::print("{}{}", redraws ? "\033[H\033[J" : "", text);
  (void)std::fflush(stdout);
  if (!jobs.empty()) return kExitOk;
  if (!options.json || !options.job.empty()) say_that_there_are_none(options);
  return options.job.empty() ? kExitOk : kExitNoJob;
}

int status_command(const StatusOptions& options) {
  JobLook look({options.job, options.store, options.timeout});
  int exit_code = show_once(look, options);
  while (options.every.count() > 0) {
    std::this_thread::sleep_for(options.every);
    exit_code = show_once(look, options);
  }
  return exit_code;
}

void declare_status(CLI::App& command, StatusOptions& options) {
  command.add_option("JOB", options.job, "only this job's");
  command.add_flag(
      "--json", options.json,
      "an array of jobs: job, store, ranks, problem, complete_epoch, complete_time (ISO 8601), "
      "behind (rank, epoch), processes and backends. Processes: rank, pid (0: none here), host, "
      "state, reason, epoch, time, stall_ms, level, saving_epoch, saving_bytes, saved_bytes, "
      "saving_level, due (not, time, call, ranks), due_in_s, auto (with GPUSNAP_EVERY=auto: "
      "interval_s, stall_s, latency_s, mtbf_s, measurements; null). Backends: backend (process, "
      "thread), "
      "pid (0: does not run), staging_used, staging_bytes, chunk_bytes, checkpoints and journals "
      "(on their way), unplaced (chunks), committed and failed (since it began), "
      "flushes (chunks at the same time), flush_bytes_per_s, tiers (tier, folder; in chunks: "
      "writers, waiting, flushing, capacity)");
  const auto take = [&options](const std::string& text) {
    const bool whole =
        parse_duration(text, options.every) || parse_duration(text + "s", options.every);
    const bool good = whole && options.every.count() > 0;
    return good ? std::string() : "'" + text + "' is no number of seconds";
  };
  command.add_flag("--watch{2}", options.watch, "again every 2 s, or SECONDS, until interrupted")
      ->check(take)
      ->type_name("[=SECONDS]");
  add_time(command, "--timeout", options.timeout, "500ms",
           "longest wait for processes and for the store (default 1s)");
  command.add_option("--store", options.store, "only jobs that save in this folder");
  end_help(command,
           "States: starting (no CUDA context yet), replaying, recording, off (no more "
           "checkpoints, and\nwhy), ending (its last checkpoint is waited for), not started (no "
           "session), does not\nanswer, not here (a rank of another node: what the store has of "
           "it).\n"
           "LAST is the last checkpoint that is complete as far as the rank goes. SAVING is on its "
           "way:\nbytes that have left the device, then in memory, then on the node's ssd. "
           "WAITING chunks have\nto be flushed, FLUSHING ones are; writers are at work there.\n"
           "What is complete is told by names of files; 'gpusnap list' looks into them.\n\n"
           "Examples:\n  gpusnap status\n  gpusnap status wave --watch\n\n");
}

}  // namespace

const Command kStatusCommand{
    "status", "show what runs on this node and how its checkpoints get on",
    [](CLI::App& command) { return action_of(command, declare_status, status_command); }};

}  // namespace gpusnap
