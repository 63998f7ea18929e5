// SPDX-License-Identifier: Apache-2.0
// report: one page that shows a job's checkpoints over time.
#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "interpose/services/settings.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/job_times.h"
#include "tools/cli/node.h"
#include "tools/cli/output_file.h"
#include "tools/cli/report_page.h"
#include "tools/cli/store_access.h"

namespace gpusnap {
namespace {

struct ReportOptions {
  std::string job;  // empty: all
  std::string store;
  OutputFile output;
};

int64_t unix_time_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

Result<Report> make_report(Store& store, const std::string& job) {
  Result<std::vector<CheckpointInfo>> listed = store.list(job);
  if (!listed.ok()) return listed.status();
  Report report;
  report.store = store.folder();
  report.made_unix_ns = unix_time_ns();
  std::map<std::string, JobReport> jobs;
  const Settings settings = parse_settings(environ).settings;
  for (LevelledCheckpoint& each : with_levels(settings, store, job, std::move(listed.value()))) {
    jobs[each.info.job].checkpoints.push_back(std::move(each));
  }
  for (auto& [name, of_job] : jobs) {
    of_job.job = name;
    std::vector<CheckpointInfo> infos;
    for (const LevelledCheckpoint& each : of_job.checkpoints) infos.push_back(each.info);
    of_job.times = times_of_job(posix_file_system(), store, name, infos);
    report.jobs.push_back(std::move(of_job));
  }
  return report;
}

int report_command(const ReportOptions& options) {
  const Result<std::unique_ptr<Store>> store = open_store(options.store);
  if (!store.ok()) return fail(store.status());
  const Result<Report> report = make_report(*store.value(), options.job);
  if (!report.ok()) return fail(report.status());
  if (report->jobs.empty()) return fail(no_checkpoints(*store.value(), options.job));
  const std::string to = options.output.path_for(options.job, "report.html");
  const Status written =
      write_output_file(to, report_as_html(report.value()), options.output.force);
  if (!written.ok()) return fail_output(written);
  size_t checkpoints = 0;
  for (const JobReport& job : report->jobs) checkpoints += job.checkpoints.size();
  fmt::print("{}: {} checkpoint{} of {} job{}\n", to, checkpoints, checkpoints == 1 ? "" : "s",
             report->jobs.size(), report->jobs.size() == 1 ? "" : "s");
  return kExitOk;
}

void declare_report(CLI::App& command, ReportOptions& options) {
  command.add_option("JOB", options.job, "only this job's");
  add_output(command, options.output, "JOB-report.html");
  add_store(command, options.store);
  end_help(command,
           "The page needs no network and no other file. It shows the runs and checkpoints over "
           "time,\nstalls, the time until each was durable, sizes, and a table of all. The store "
           "tells of the\ncheckpoints that it still has: GPUSNAP_KEEP says how many.\n\n"
           "Examples:\n"
           "  gpusnap report\n"
           "  gpusnap report wave -o wave.html\n\n");
}

}  // namespace

const Command kReportCommand{
    "report", "write a page that shows checkpoints over time",
    [](CLI::App& command) { return action_of(command, declare_report, report_command); }};

}  // namespace gpusnap
