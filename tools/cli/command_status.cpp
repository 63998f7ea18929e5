// status: what runs on this node, and how its checkpoints get on.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "interpose/services/log.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/job_look.h"
#include "tools/cli/job_status.h"

namespace gpusnap {
namespace {

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

}  // namespace

int status_command(const StatusOptions& options) {
  JobLook look({options.job, options.store, options.timeout});
  int exit_code = show_once(look, options);
  while (options.every.count() > 0) {
    std::this_thread::sleep_for(options.every);
    exit_code = show_once(look, options);
  }
  return exit_code;
}

}  // namespace gpusnap
