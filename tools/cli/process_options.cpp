// SPDX-License-Identifier: Apache-2.0
//
// How the commands that speak to running programs read their options.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

#include "interpose/services/settings.h"
#include "tools/cli/command_line.h"

namespace gpusnap {

void add_time(CLI::App& command, const std::string& name, std::chrono::nanoseconds& time,
              const std::string& such_as, const std::string& help) {
  const auto take = [name, &time, such_as](const std::string& text) {
    if (parse_duration(text, time)) return;
    throw CLI::ValidationError(name, "'" + text + "' is not a time such as " + such_as);
  };
  command.add_option_function<std::string>(name, take, help)->type_name("TIME");
}

CLI::App* add_checkpoint(CLI::App& app, CheckpointOptions& options) {
  CLI::App* const command =
      app.add_subcommand("checkpoint", "have a running program take a checkpoint now");
  command->add_option("PID", options.pid, "process that runs under gpusnap")
      ->required()
      ->check([](const std::string& text) {
        const bool number = !text.empty() && text.size() < 10 &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        return number ? std::string() : "'" + text + "' is not a process id";
      });
  add_time(*command, "--timeout", options.timeout, "30s", "longest wait for it (default 5m)");
  end_help(*command,
           "Waits until the checkpoint is durable and prints its name, its size "
           "and how long the program was held.\n\n"
           "Example:\n  gpusnap checkpoint --timeout 30s 4711\n\n");
  return command;
}

CLI::App* add_stop(CLI::App& app, StopOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "stop", "end a running job after a checkpoint, so that it can go on later");
  command->add_option("PROCESS", options.what, "process id of any of its ranks, or the job's name")
      ->required();
  command->add_option("--store", options.store, "only a job that saves in this folder");
  command->add_flag("--anyway", options.anyway,
                    "where no checkpoint can be made, kill its processes on this node");
  add_time(*command, "--timeout", options.timeout, "30s",
           "longest wait for the checkpoint and the end (default 5m)");
  end_help(*command,
           "The program is held from the checkpoint on. When the checkpoint is durable, of all "
           "ranks, each\nrank ends with exit status 76, and 'gpusnap restore' goes on from "
           "there. Without a\ncheckpoint the job is not ended.\n"
           "With GPUSNAP_STOP_SIGNAL a signal does the same, for batch systems.\n\n"
           "Examples:\n  gpusnap stop 4711\n  gpusnap stop --timeout 2m wave\n\n");
  return command;
}

CLI::App* add_status(CLI::App& app, StatusOptions& options) {
  CLI::App* const command =
      app.add_subcommand("status", "show what runs on this node and how its checkpoints get on");
  command->add_option("JOB", options.job, "only this job's");
  command->add_flag(
      "--json", options.json,
      "an array of jobs: job, store, ranks, problem, complete_epoch, complete_time (ISO 8601), "
      "behind (rank, epoch), processes and backends. Processes: rank, pid (0: none here), host, "
      "state, reason, epoch, time, stall_ms, saving_epoch, saving_bytes, saved_bytes, "
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
  command->add_flag("--watch{2}", options.watch, "again every 2 s, or SECONDS, until interrupted")
      ->check(take)
      ->type_name("[=SECONDS]");
  add_time(*command, "--timeout", options.timeout, "500ms",
           "longest wait for processes and for the store (default 1s)");
  command->add_option("--store", options.store, "only jobs that save in this folder");
  end_help(*command,
           "States: starting (no CUDA context yet), replaying, recording, off (no more "
           "checkpoints, and\nwhy), ending (its last checkpoint is waited for), not started (no "
           "session), does not\nanswer, not here (a rank of another node: what the store has of "
           "it).\n"
           "LAST is the last checkpoint that is complete as far as the rank goes. SAVING is on its "
           "way:\nbytes that have left the device, then in memory, then on the node's ssd. "
           "WAITING chunks have\nto be flushed, FLUSHING ones are; writers are at work there.\n"
           "What is complete is told by names of files; 'gpusnap list' looks into them.\n\n"
           "Examples:\n  gpusnap status\n  gpusnap status wave --watch\n\n");
  return command;
}

CLI::App* add_wait(CLI::App& app, WaitOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "wait", "wait until what programs of this node have handed over is durable");
  command->add_option("--job", options.job, "only this job's")->type_name("JOB");
  add_time(*command, "--timeout", options.timeout, "30s",
           "longest wait (default: as long as it takes)");
  end_help(*command,
           "For checkpoints on their way when it is called, whether their programs live or not.\n"
           "Starts gpusnapd where none serves the node and something is left to do.\n\n"
           "Examples:\n  gpusnap wait\n  gpusnap wait --job wave --timeout 10m\n\n");
  return command;
}

}  // namespace gpusnap
