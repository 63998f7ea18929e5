// SPDX-License-Identifier: Apache-2.0
// prune: removes what is no longer needed, also what dead jobs have left.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "interpose/services/log.h"
#include "tiers/daemon/leftovers.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/level_access.h"
#include "tools/cli/node.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

struct PruneOptions {
  std::string store;  // empty: as the environment says
  std::string job;    // empty: all
  uint32_t keep = 0;  // 0: as the environment says
  std::chrono::nanoseconds left_after{kLeftAfter};
  bool dry_run = false;
  bool json = false;
};

struct PrunedJob {
  std::string job;
  Status status;
  std::vector<PrunedItem> items;
};

uint64_t bytes_of(const std::vector<PrunedItem>& items) {
  uint64_t bytes = 0;
  for (const PrunedItem& item : items) bytes += item.bytes;
  return bytes;
}

std::string as_json(const std::vector<PrunedJob>& jobs, bool dry_run) {
  Json json;
  uint64_t bytes = 0;
  json.begin_object().key("dry_run").value(dry_run).key("jobs").begin_array();
  for (const PrunedJob& job : jobs) {
    bytes += bytes_of(job.items);
    json.begin_object();
    json.key("job").value(job.job);
    json.key("error").value(job.status.message());
    json.key("bytes").value(bytes_of(job.items));
    json.key("removed").begin_array();
    for (const PrunedItem& item : job.items) {
      json.begin_object().key("what").value(item.what);
      json.key("files").value(item.files).key("bytes").value(item.bytes).end_object();
    }
    json.end_array().end_object();
  }
  return json.end_array().key("bytes").value(bytes).end_object().text() + "\n";
}

void print(const std::vector<PrunedJob>& jobs, bool dry_run) {
  std::vector<std::vector<std::string>> rows;
  uint64_t bytes = 0;
  for (const PrunedJob& job : jobs) {
    for (const PrunedItem& item : job.items) {
      rows.push_back({job.job, show_bytes(item.bytes), printable(item.what)});
    }
    bytes += bytes_of(job.items);
  }
  fmt::print("{}", table(rows, "lrl"));
  fmt::print("{} {}\n", dry_run ? "would free" : "freed", show_bytes(bytes));
}

int prune_command(const PruneOptions& options) {
  const Result<std::unique_ptr<Store>> store = open_store(options.store);
  if (!store.ok()) return fail(store.status());
  const Settings settings = parse_settings(environ).settings;
  if (!options.dry_run) tend_leftovers(settings);
  Result<std::vector<std::string>> names = std::vector<std::string>{options.job};
  if (options.job.empty()) names = store.value()->jobs();
  if (!names.ok()) return fail(names.status());
  IdlePrune prune = idle_prune(options.keep, options.left_after);
  prune.dry_run = options.dry_run;
  std::vector<PrunedJob> jobs;
  int exit_code = kExitOk;
  for (const std::string& name : names.value()) {
    Result<std::vector<PrunedItem>> items = store.value()->prune_idle(name, prune);
    jobs.push_back({name, items.status(), {}});
    if (items.ok()) {
      jobs.back().items = std::move(items.value());
      if (!options.dry_run) prune_shards(settings, *store.value(), name, prune.keep);
    } else if (items.status().code() == Code::kBusy && options.job.empty()) {
      // Its own run prunes it.
      log(LogLevel::kWarn, "job ", name, " is left alone: it is in use");
    } else {
      exit_code = fail(items.status());
    }
  }
  if (!options.dry_run) remove_stale_copies(posix_file_system(), settings.tiers.ssd);
  if (options.json) {
    fmt::print("{}", as_json(jobs, options.dry_run));
  } else {
    print(jobs, options.dry_run);
  }
  return exit_code;
}

void declare_prune(CLI::App& command, PruneOptions& options) {
  command.add_option("--job", options.job, "only this job's (default: all that are not running)");
  command
      .add_option("--keep", options.keep,
                  "complete checkpoints that stay (default GPUSNAP_KEEP, 2); what they build on "
                  "stays, too")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  add_time(command, "--left-after", options.left_after, "1h",
           "files of dead runs that nobody has written to for so long are left over (default 1h)");
  command.add_flag("--dry-run", options.dry_run, "only say what would go");
  command.add_flag("--json", options.json,
                   "an object with dry_run, bytes, jobs: job, error, bytes, removed: what, files, "
                   "bytes");
  add_store(command, options.store);
  end_help(command,
           "A job that runs is left alone: its run prunes it after each checkpoint. Damaged\n"
           "checkpoints, those of later versions and files that are not gpusnap's stay.\n\n"
           "Examples:\n  gpusnap prune --dry-run\n  gpusnap prune --job wave --keep 1\n\n");
}

}  // namespace

const Command kPruneCommand{
    "prune", "remove checkpoints and files that are not needed any more",
    [](CLI::App& command) { return action_of(command, declare_prune, prune_command); }};

}  // namespace gpusnap
