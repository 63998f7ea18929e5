// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "interpose/services/log.h"
#include "interpose/services/program.h"
#include "interpose/services/program_mark.h"
#include "tiers/names.h"
#include "tiers/store.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/devices.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/launch.h"
#include "tools/cli/level_access.h"
#include "tools/cli/node.h"
#include "tools/cli/setting_options.h"

namespace gpusnap {
namespace {

struct RestoreOptions : LaunchOptions {
  std::string id;  // "job@epoch", "job@latest", "job"; empty: the newest of the program's job
  bool or_start = false;
  AllowedDifferences allowed;
};

constexpr auto kLongestWait = std::chrono::hours(1);

struct Found {
  int exit_code = kExitOk;
  std::string problem;  // one line; empty where there is a checkpoint
  CheckpointInfo checkpoint;
  // There is certainly none, and a program may start afresh; of that job there is nothing at all.
  bool none = false, nothing = false;
};

// Newer ones that cannot be used are worth a line: the user will ask where they went.
void tell_what_is_passed_over(Store& store, const CheckpointInfo& chosen) {
  const Result<std::vector<CheckpointInfo>> all = store.list(chosen.job);
  if (!all.ok()) return;
  for (const CheckpointInfo& newer : all.value()) {
    if (newer.epoch <= chosen.epoch || newer.state != CheckpointState::kDamaged) continue;
    log(LogLevel::kWarn, newer.id, " is damaged (", newer.reason, "): passed over for ", chosen.id);
  }
}

Found find_checkpoint(const Settings& settings, const std::string& id) {
  const Result<std::unique_ptr<Store>> store =
      Store::open(posix_file_system(), settings.pfs, false);
  if (!store.ok()) {
    const bool none = store.status().code() == Code::kNotFound;
    return {kExitNoCheckpoint, store.status().message(), {}, none, none};
  }
  Result<CheckpointInfo> found = store.value()->find(id);
  if (!found.ok()) {
    const Code code = found.status().code();
    const int exit_code = code == Code::kInvalid   ? kExitUsage
                          : code == Code::kDamaged ? kExitDamaged
                                                   : kExitNoCheckpoint;
    const auto all = store.value()->list(id.substr(0, id.rfind('@')));
    return {exit_code,
            found.status().message(),
            {},
            code == Code::kNotFound,
            all.ok() && all.value().empty()};
  }
  const CheckpointInfo& checkpoint = found.value();
  if (checkpoint.state == CheckpointState::kDamaged) {
    return {kExitDamaged, checkpoint.id + " is damaged: " + checkpoint.reason, {}};
  }
  if (checkpoint.state == CheckpointState::kPartial || checkpoint.ranks.empty()) {
    return {kExitNoCheckpoint, checkpoint.id + " is not complete: " + checkpoint.reason, {}, true};
  }
  if (checkpoint.ranks.front().by_program()) {
    return {kExitNoCheckpoint,
            checkpoint.id +
                " was written by the program itself, which reads it back when it is "
                "started: it is no checkpoint of a whole program",
            {},
            true};
  }
  tell_what_is_passed_over(*store.value(), checkpoint);
  return {kExitOk, {}, checkpoint};
}

// A script, or a program that starts others, starts the program itself; the library compares there.
bool starts_another(const ProgramFile& file, const ProgramIdentity& saved) {
  return file.path != saved.path && (!file.is_elf || (file.may_use_cuda && !file.shows_cuda));
}

// Why the checkpoint cannot be gone on from; `problem` is empty where it can.
struct Mismatch {
  std::string problem;
  int exit_code = kExitMismatch;
};

// Identifies the program to be started, as far as that can be told before its start.
ProgramIdentity identity_of(const Program& program, const ProgramIdentity& saved, Launch& launch) {
  ProgramIdentity now;
  now.folder = program.folder;
  const bool devices_matter = !saved.devices.empty() && !launch.launcher;
  if (devices_matter) {
    ask_for_devices(launch.environment, launch.simcuda, saved.devices.size(), now);
  }
  return now;
}

Mismatch mismatch(const Program& program, const ProgramIdentity& saved, Launch& launch,
                  AllowedDifferences& allowed) {
  const bool another = starts_another(program.file, saved);
  if (!another) {
    const Result<ProgramIdentity> now =
        identify_program(program.file.path, program.arguments, program.folder);
    if (!now.ok()) return {now.status().message()};
    const std::string difference = program_difference(saved, now.value(), allowed);
    if (!difference.empty()) return {difference};
  }
  const ProgramIdentity now = identity_of(program, saved, launch);
  // Processes of a launcher may have other nodes; they look at what is there by themselves.
  if (!launch.launcher) {
    const std::string input = input_difference(saved, allowed);
    if (!input.empty()) return {input};
  }
  const std::string device = device_difference(saved, now, allowed);
  if (!device.empty()) return {device, kExitImpossible};
  AllowedDifferences told = allowed;
  told.libraries |= launch.launcher.has_value();
  told.folder |= another;
  for (const std::string& line : doubts(saved, now, told)) log(LogLevel::kWarn, line);
  // The library is not to say it again.
  if (!another) allowed.folder = told.folder;
  allowed.driver = told.driver;
  allowed.devices = told.devices;
  if (!launch.launcher) allowed.libraries = told.libraries;
  return {};
}

std::string ranks_text(uint64_t ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

Mismatch mismatch(Launch& launch, const CheckpointInfo& checkpoint, AllowedDifferences& allowed) {
  const uint64_t saved = checkpoint.ranks.front().ranks;
  const auto ranks = launch.launcher ? launch.launcher->ranks() : std::nullopt;
  if (ranks && *ranks != saved) {
    return {checkpoint.id + " is of " + ranks_text(saved) + ", this command starts " +
            std::to_string(*ranks) + "; start as many"};
  }
  // The first rank of each program is compared, if it is known which one that is.
  size_t rank = 0;
  for (size_t i = 0; i < launch.programs.size() && rank < checkpoint.ranks.size(); ++i) {
    Mismatch found = mismatch(launch.programs[i], checkpoint.ranks[rank].program, launch, allowed);
    if (!found.problem.empty()) {
      found.problem.insert(0, checkpoint.id + ": ");
      return found;
    }
    if (!launch.launcher || !launch.launcher->programs[i].ranks) break;
    rank += *launch.launcher->programs[i].ranks;
  }
  return {};
}

// Parts that the program's last run had handed over when it was killed are newer than the store's:
// it is waited for until it is durable, or until it can be restored from this node before that. The
// latter is the result, where it is the one that is meant.
std::optional<CheckpointInfo> wait_for_what_was_handed_over(const Settings& settings,
                                                            const std::string& id) {
  const std::string job = id.substr(0, id.rfind('@'));
  const std::string which = id.substr(std::min(id.size(), job.size() + 1));
  const bool is_newest = which.empty() || which == "latest";
  const std::optional<uint64_t> only = is_newest ? std::nullopt : parse_number(which);
  std::optional<CheckpointInfo> pending;
  const auto is_enough = [&](StagingMemory& memory) {
    const auto store = Store::open(posix_file_system(), settings.pfs, false);
    if (!store.ok() || !settings.backend_process) return false;
    if (is_newest || only) pending = find_pending(settings, *store.value(), job, memory, only);
    return pending.has_value() || is_all_kept(*store.value(), job, memory, only);
  };
  const Status durable = wait_until_durable(settings, job, kLongestWait, is_enough);
  if (!durable.ok()) log(LogLevel::kWarn, durable.message());
  return pending;
}

// Processes of a launcher may be on other nodes than those whose parts they need.
std::string patience_for(const Launch& launch) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(kLongestWait).count();
  return std::to_string(launch.launcher ? seconds : 0);
}

// As the options and the environment say.
AllowedDifferences pass_over_in(const RestoreOptions& options, const Settings& settings) {
  AllowedDifferences all = settings.allowed;
  all.program |= options.allowed.program;
  all.arguments |= options.allowed.arguments;
  all.inputs |= options.allowed.inputs;
  all.device |= options.allowed.device;
  all.devices |= options.allowed.devices;
  all.data |= options.allowed.data;
  return all;
}

// Gives the environment a mark by which the program knows itself, so that it does not print again
// what it has printed before the cut. If a launcher starts several programs, they all print again.
void mark_program(Launch& launch, const ProgramIdentity& saved) {
  if (launch.programs.size() != 1 || launch.environment.get("GPUSNAP_REPLAY_OUTPUT") == "again") {
    return;
  }
  const Program& program = launch.programs.front();
  launch.environment.set(kRestoredProgram,
                         starts_another(program.file, saved)
                             ? program_mark(saved.path, saved.arguments)
                             : program_mark(program.file.path, program.arguments));
}

int restore_command(const RestoreOptions& options) {
  Launch launch;
  if (const auto exit_code = prepare(options, "nothing is restored", launch)) {
    return *exit_code;
  }
  if (!launch.settings_ok) return kExitSettings;
  const std::string id = !options.id.empty() ? options.id : launch.job + "@latest";
  const auto pending = wait_for_what_was_handed_over(launch.settings, id);
  if (!pending) bring_back_from_nodes(launch.settings, id);
  const Found found = pending ? Found{kExitOk, {}, *pending} : find_checkpoint(launch.settings, id);
  if (found.none && options.or_start) {
    // Nothing is what a job has that is started for the first time.
    const bool expected = options.resume && found.nothing;
    log(expected ? LogLevel::kInfo : LogLevel::kWarn, found.problem, "; it starts afresh");
    return run_command(options);
  }
  if (!found.problem.empty()) {
    log(LogLevel::kError, found.problem);
    return found.exit_code;
  }
  // A program that brings its own state may be told so by its arguments.
  const bool reloads = launch.settings.reload;
  AllowedDifferences allowed = pass_over_in(options, launch.settings);
  const Mismatch mismatched = reloads ? Mismatch() : mismatch(launch, found.checkpoint, allowed);
  if (!mismatched.problem.empty()) {
    log(LogLevel::kError, mismatched.problem);
    return mismatched.exit_code;
  }
  for (const Program& program : launch.programs) {
    if (program.file.cannot_preload.empty()) continue;
    log(LogLevel::kError, "no library can be preloaded into ", program.file.path, ": ",
        program.file.cannot_preload);
    return kExitImpossible;
  }
  const std::string library = library_to_preload();
  if (library.empty()) return kExitInternal;
  launch.environment.set("GPUSNAP_RESTORE", found.checkpoint.id);
  launch.environment.set("GPUSNAP_JOB", found.checkpoint.job);
  launch.environment.unset(kRestoredPending);
  if (pending) launch.environment.set(kRestoredPending, patience_for(launch));
  const std::string words = words_of(allowed);
  if (!words.empty()) launch.environment.set("GPUSNAP_RESTORE_FORCE", words);
  // There is no replay in a reload.
  if (!reloads) mark_program(launch, found.checkpoint.ranks.front().program);
  log(LogLevel::kInfo, "restoring ", found.checkpoint.id);
  return become(launch, library);
}

void declare_restore(CLI::App& command, RestoreOptions& options) {
  options.command = "restore";
  command.add_option("--id", options.id,
                     "checkpoint: JOB@EPOCH, JOB@latest (default: newest complete one of the "
                     "program's job)");
  command.add_flag("--or-start", options.or_start,
                   "start afresh where there is no complete checkpoint");
  add_setting_option(command, "GPUSNAP_RESTORE_MODE", options);
  AllowedDifferences& allowed = options.allowed;
  command.add_flag("--force-program", allowed.program,
                   "restore although the program's file is another one");
  command.add_flag("--force-arguments", allowed.arguments,
                   "restore although the arguments are others");
  command.add_flag("--force-inputs", allowed.inputs,
                   "restore although files have changed that the program had read");
  command.add_flag("--force-device", allowed.device,
                   "restore although the device is of another model");
  command.add_flag("--force-devices", allowed.devices,
                   "restore although there are fewer devices than the program used");
  command.add_flag("--force-data", allowed.data,
                   "restore although the program gives other data to the device than it did");
  add_launch_options(command, options);
  end_help(command,
           "Give the program and the options as to 'gpusnap run'.\n\n"
           "Examples:\n"
           "  gpusnap restore -- ./solver big.cfg\n"
           "  gpusnap restore -- mpirun -n 4 ./solver big.cfg\n"
           "  gpusnap restore --id wave@12 --or-start -- ./solver big.cfg\n\n");
}

}  // namespace

int resume_command(const LaunchOptions& options) {
  RestoreOptions restore;
  static_cast<LaunchOptions&>(restore) = options;
  restore.or_start = true;
  return restore_command(restore);
}

const Command kRestoreCommand{
    "restore", "start a program again and go on from its last checkpoint",
    [](CLI::App& command) { return starting_action_of(command, declare_restore, restore_command); },
    true};

}  // namespace gpusnap
