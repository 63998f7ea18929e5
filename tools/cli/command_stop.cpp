// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): pidfd_send_signal() takes siginfo_t
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "interpose/services/log.h"
#include "tools/cli/checkpoint_request.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/control_client.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/job_look.h"
#include "tools/cli/processes.h"

namespace gpusnap {
namespace {

struct StopOptions {
  std::string what;     // a process or a job
  std::string store;    // folder; empty: any
  bool anyway = false;  // kill it where no checkpoint can be made
  std::chrono::nanoseconds timeout{std::chrono::minutes(5)};
};

using Steady = std::chrono::steady_clock;
constexpr auto kForStatus = std::chrono::seconds(2);

// A process by a descriptor, so that its number cannot be another's when it has ended.
class HeldProcess {
 public:
  explicit HeldProcess(int pid) : descriptor_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}
  ~HeldProcess() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  HeldProcess(HeldProcess&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  HeldProcess& operator=(HeldProcess&&) = delete;

  // Also true of one that had ended before.
  bool ends_until(Steady::time_point until) const {
    if (descriptor_ < 0) return true;
    pollfd polled{descriptor_, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now()).count();
    return poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30))) == 1;
  }
  void kill() const {
    if (descriptor_ >= 0) syscall(SYS_pidfd_send_signal, descriptor_, SIGKILL, nullptr, 0);
  }

 private:
  int descriptor_;
};

// The processes of a job that run on this node.
struct Target {
  std::string name;  // for lines
  int asked = 0;     // the one that is asked; its request is for all ranks
  std::vector<HeldProcess> all;
};

void hold_all(const JobStatus& job, Target& target) {
  for (const RankStatus& rank : job.processes) {
    if (rank.pid == 0) continue;
    if (target.asked == 0 && rank.state == RankState::kTold) target.asked = rank.pid;
    target.all.emplace_back(rank.pid);
  }
  if (target.asked == 0 && !job.processes.empty()) target.asked = job.processes.front().pid;
}

Result<Target> find_process(int pid) {
  Target target{fmt::format("process {}", pid), pid, {}};
  const std::vector<StatusAnswer> about = ask_for_status({pid}, kForStatus);
  if (about.empty() || !about[0].status) {
    target.all.emplace_back(pid);
    return target;
  }
  const ProcessStatus& status = *about[0].status;
  for (const JobStatus& job : JobLook({status.job, status.store, kForStatus}).jobs()) {
    hold_all(job, target);
  }
  return target;
}

Result<Target> find_job(const StopOptions& options) {
  const std::vector<JobStatus> jobs = JobLook({options.what, options.store, kForStatus}).jobs();
  if (jobs.empty()) {
    return Status(Code::kNotFound, "nothing of job " + options.what + " runs on this node");
  }
  if (jobs.size() > 1) {
    return Status(Code::kInvalid, fmt::format("{} jobs of the name {} run on this node: choose one "
                                              "by --store or by a process",
                                              jobs.size(), options.what));
  }
  Target target{"job " + jobs.front().job, 0, {}};
  hold_all(jobs.front(), target);
  return target;
}

bool is_pid(const std::string& text) {
  constexpr size_t kMostDigits = 9;
  return !text.empty() && text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

bool all_end(const Target& target, Steady::time_point until) {
  return std::ranges::all_of(
      target.all, [until](const HeldProcess& process) { return process.ends_until(until); });
}

// There is no checkpoint that the job could have been ended after.
int give_up(const Target& target, const std::string& why, bool anyway) {
  if (!anyway) {
    log(LogLevel::kError, target.name, " was not stopped: ", why);
    return kExitNotSaved;
  }
  for (const HeldProcess& process : target.all) process.kill();
  log(LogLevel::kWarn, target.name, " was killed without a checkpoint: ", why);
  return kExitNotSaved;
}

int stop_command(const StopOptions& options) {
  const auto until = Steady::now() + options.timeout;
  const Result<Target> target =
      is_pid(options.what) ? find_process(std::stoi(options.what)) : find_job(options);
  if (!target.ok()) {
    log(LogLevel::kError, target.status().message());
    return target.status().code() == Code::kNotFound ? kExitNoJob : kExitUsage;
  }
  const Result<TakenCheckpoint> taken =
      take_checkpoint_of(target.value().asked, kStopRequest, options.timeout);
  if (!taken.ok()) return give_up(target.value(), taken.status().message(), options.anyway);
  if (!all_end(target.value(), until)) {
    return give_up(target.value(), taken->id + " is there, and it goes on all the same",
                   options.anyway);
  }
  fmt::print("{}; stopped\n", show(taken.value()));
  return kExitOk;
}

void declare_stop(CLI::App& command, StopOptions& options) {
  command.add_option("PROCESS", options.what, "process id of any of its ranks, or the job's name")
      ->required();
  command.add_option("--store", options.store, "only a job that saves in this folder");
  command.add_flag("--anyway", options.anyway,
                   "where no checkpoint can be made, kill its processes on this node");
  add_time(command, "--timeout", options.timeout, "30s",
           "longest wait for the checkpoint and the end (default 5m)");
  end_help(command,
           "The program is held from the checkpoint on. When the checkpoint is durable, of all "
           "ranks, each\nrank ends with exit status 76, and 'gpusnap restore' goes on from "
           "there. Without a\ncheckpoint the job is not ended.\n"
           "With GPUSNAP_STOP_SIGNAL a signal does the same, for batch systems.\n\n"
           "Examples:\n  gpusnap stop 4711\n  gpusnap stop --timeout 2m wave\n\n");
}

}  // namespace

const Command kStopCommand{
    "stop", "end a running job after a checkpoint, so that it can go on later",
    [](CLI::App& command) { return action_of(command, declare_stop, stop_command); }};

}  // namespace gpusnap
