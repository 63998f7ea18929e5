// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>

#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/interval_text.h"
#include "tools/cli/node.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

struct ListOptions {
  std::string store;  // empty: as the environment says
  std::string job;    // empty: all
  bool json = false;
  bool space = false;
};

// Returns the bytes that would be free if this checkpoint were removed, and no other.
uint64_t reclaimable(const CheckpointInfo& checkpoint) {
  const uint64_t own = checkpoint.stored_bytes - checkpoint.journal_bytes;
  return checkpoint.unnamed_bytes + (checkpoint.needed_by == 0 ? own : 0);
}

// The newest parent over the ranks; 0: full. Ranks differ only after one part of them was merged.
uint64_t parent_of(const CheckpointInfo& checkpoint) {
  uint64_t parent = 0;
  for (const Manifest& rank : checkpoint.ranks) parent = std::max(parent, rank.parent);
  return parent;
}

// The shortest over the ranks: all of them make their cut when the first is due.
plan::ChosenInterval interval_of(const CheckpointInfo& checkpoint) {
  plan::ChosenInterval shortest;
  for (const Manifest& rank : checkpoint.ranks) {
    const bool is_shorter = !shortest.is_chosen() || rank.interval.interval_s < shortest.interval_s;
    if (rank.interval.is_chosen() && is_shorter) shortest = rank.interval;
  }
  return shortest;
}

const char* name_of_kind(const CheckpointInfo& checkpoint) {
  if (checkpoint.ranks.empty()) return "unknown";
  if (checkpoint.ranks.front().by_program()) return "history";
  return parent_of(checkpoint) == 0 ? "full" : "increment";
}

std::string as_json(const std::vector<LevelledCheckpoint>& checkpoints) {
  Json json;
  json.begin_array();
  for (const auto& [checkpoint, level, protection, restorable] : checkpoints) {
    json.begin_object();
    json.key("id").value(checkpoint.id);
    json.key("job").value(checkpoint.job);
    json.key("epoch").value(checkpoint.epoch);
    json.key("time").value(show_iso_time(checkpoint.time_unix_ns));
    json.key("bytes").value(checkpoint.bytes);
    json.key("own_bytes").value(checkpoint.own_bytes);
    json.key("stored_bytes").value(checkpoint.stored_bytes);
    json.key("journal_bytes").value(checkpoint.journal_bytes);
    json.key("shared_bytes").value(checkpoint.shared_bytes);
    json.key("reclaimable_bytes").value(reclaimable(checkpoint));
    json.key("kind").value(name_of_kind(checkpoint));
    json.key("parent").value(parent_of(checkpoint));
    json.key("chain").value(uint64_t{checkpoint.chain});
    json.key("needed_by").value(checkpoint.needed_by);
    json.key("stall_ms").value(static_cast<double>(checkpoint.stall_ns) / 1e6);
    json.key("auto");
    add_interval(json, interval_of(checkpoint));
    json.key("ranks").value(uint64_t{checkpoint.ranks.size()});
    json.key("state").value(name_of(checkpoint.state));
    json.key("level").value(name_of(level));
    json.key("protection").value(protection);
    json.key("restorable").value(restorable);
    json.key("reason").value(checkpoint.reason);
    json.end_object();
  }
  return json.end_array().text() + "\n";
}

std::string show_kind(const CheckpointInfo& checkpoint) {
  if (parent_of(checkpoint) == 0) return name_of_kind(checkpoint);
  return fmt::format("{} on {}", name_of_kind(checkpoint), parent_of(checkpoint));
}

// At most 80 columns for whatever is complete and has an ID of up to ten letters. `--json` and
// `show` have the rest.
std::string as_table(const std::vector<LevelledCheckpoint>& checkpoints) {
  std::vector<std::vector<std::string>> rows = {
      {"ID", "AGE", "KIND", "SIZE", "STORED", "STALL", "STATE"}};
  const std::time_t now = std::time(nullptr);
  for (const LevelledCheckpoint& each : checkpoints) {
    const CheckpointInfo& checkpoint = each.info;
    const bool known = !checkpoint.ranks.empty();
    rows.push_back({checkpoint.id, show_age(now - checkpoint.time_unix_ns / 1'000'000'000),
                    known ? show_kind(checkpoint) : "-", known ? show_bytes(checkpoint.bytes) : "-",
                    known ? show_bytes(checkpoint.own_bytes) : "-",
                    known ? show_nanoseconds(checkpoint.stall_ns) : "-", show_state(each)});
  }
  return table(rows, "lrlrrrl");
}

struct Space {
  std::string job;
  JobUsage usage;
  uint64_t reclaimable = 0;  // by `gpusnap prune`
  uint64_t ssd = 0;          // on this node

  // In the store.
  uint64_t total() const { return usage.checkpoints + usage.journals + usage.unnamed; }
};

// The last one: all of them.
Result<std::vector<Space>> add_up(Store& store, const std::string& job) {
  const Settings settings = parse_settings(environ).settings;
  std::map<std::string, uint64_t> on_ssd = space_on_node(settings, store);
  Result<std::vector<std::string>> names = std::vector<std::string>{job};
  if (job.empty()) names = store.jobs();
  if (!names.ok()) return names.status();
  IdlePrune prune = idle_prune(0, kLeftAfter);
  prune.dry_run = true;
  std::vector<Space> spaces;
  Space all;
  for (const std::string& name : names.value()) {
    const Result<JobUsage> usage = store.usage(name);
    if (!usage.ok()) return usage.status();
    const Result<std::vector<PrunedItem>> items = store.prune_idle(name, prune);
    if (!items.ok()) return items.status();
    spaces.push_back({name, usage.value(), 0, on_ssd[sanitise_job(name)]});
    for (const PrunedItem& item : items.value()) spaces.back().reclaimable += item.bytes;
    all.usage.checkpoints += usage->checkpoints;
    all.usage.journals += usage->journals;
    all.usage.unnamed += usage->unnamed;
    all.reclaimable += spaces.back().reclaimable;
    all.ssd += spaces.back().ssd;
  }
  spaces.push_back(all);
  return spaces;
}

int list_space(Store& store, const ListOptions& options) {
  const Result<std::vector<Space>> spaces = add_up(store, options.job);
  if (!spaces.ok()) return fail(spaces.status());
  Json json;
  json.begin_array();
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "CHECKPOINTS", "JOURNALS", "UNNAMED", "TOTAL", "RECLAIMABLE", "SSD"}};
  for (const Space& space : spaces.value()) {
    json.begin_object();
    json.key("job").value(space.job);
    json.key("checkpoints").value(space.usage.checkpoints);
    json.key("journals").value(space.usage.journals);
    json.key("unnamed").value(space.usage.unnamed);
    json.key("total").value(space.total());
    json.key("reclaimable").value(space.reclaimable);
    json.key("ssd").value(space.ssd);
    json.end_object();
    rows.push_back({space.job.empty() ? "(all)" : space.job, show_bytes(space.usage.checkpoints),
                    show_bytes(space.usage.journals), show_bytes(space.usage.unnamed),
                    show_bytes(space.total()), show_bytes(space.reclaimable),
                    show_bytes(space.ssd)});
  }
  fmt::print("{}", options.json ? json.end_array().text() + "\n" : table(rows, "lrrrrrr"));
  return kExitOk;
}

int list_command(const ListOptions& options) {
  const Settings settings = parse_settings(environ).settings;
  // Nodes may know of a store that was lost.
  const Result<std::unique_ptr<Store>> store =
      open_store(options.store, settings.levels.scheme.has_value());
  if (!store.ok()) {
    if (options.json) std::puts("[]");
    return fail(store.status());
  }
  if (options.space) return list_space(*store.value(), options);
  Result<std::vector<CheckpointInfo>> listed = store.value()->list(options.job);
  if (!listed.ok()) return fail(listed.status());
  tend_leftovers(settings);
  const std::vector<LevelledCheckpoint> checkpoints =
      with_levels(settings, *store.value(), options.job, std::move(listed.value()));
  if (options.json) {
    fmt::print("{}", as_json(checkpoints));
  } else if (checkpoints.empty()) {
    fmt::print(stderr, "gpusnap: no checkpoints{} in {}\n",
               options.job.empty() ? "" : " of " + options.job, store.value()->folder());
  } else {
    fmt::print("{}", as_table(checkpoints));
  }
  return kExitOk;
}

void declare_list(CLI::App& command, ListOptions& options) {
  command.add_option("JOB", options.job, "only this job's");
  command.add_flag(
      "--json", options.json,
      "an array of objects with id, job, epoch, time (ISO 8601), bytes, "
      "stored_bytes, journal_bytes (of those), shared_bytes (of ancestors), "
      "reclaimable_bytes (went it alone), kind (full, increment, history, unknown), parent (its "
      "epoch; "
      "0: none), chain (number of ancestors), stall_ms, auto (with GPUSNAP_EVERY=auto what it had "
      "chosen: interval_s, stall_s, latency_s, mtbf_s, measurements; null), ranks, state, level, "
      "restorable (now, by "
      "this node), reason; with --space of objects with job, checkpoints, journals, unnamed, "
      "total, "
      "reclaimable, ssd (on this node's devices), in bytes");
  command.add_flag("--space", options.space, "what each job takes instead, and all of them");
  add_store(command, options.store);
  end_help(command,
           "Sizes: SIZE of device memory, of which STORED is in the checkpoint's own files and the "
           "rest in\nits ancestors'. STALL: how long the program waited.\n"
           "States: complete (can be restored, durable), partial (not, or not yet, complete), "
           "damaged.\nWhat is on its way and needs its program no more: partial (ssd), on this "
           "node's devices;\npartial (memory), in this node's memory.\n\n"
           "Examples:\n"
           "  gpusnap list\n"
           "  gpusnap list wave --store /scratch/ck --json\n\n");
}

}  // namespace

const Command kListCommand{"list", "list checkpoints, the newest first", [](CLI::App& command) {
                             return action_of(command, declare_list, list_command);
                           }};

}  // namespace gpusnap
