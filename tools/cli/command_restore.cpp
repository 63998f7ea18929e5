#include <memory>
#include <string>

#include "interpose/services/log.h"
#include "interpose/services/program.h"
#include "tiers/store.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/launch.h"
#include "tools/cli/node.h"

namespace gpusnap {
namespace {

struct Found {
  int exit_code = kExitOk;
  std::string problem;  // one line; empty where there is a checkpoint
  CheckpointInfo checkpoint;
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
  if (!store.ok()) return {kExitNoCheckpoint, store.status().message(), {}};
  Result<CheckpointInfo> found = store.value()->find(id);
  if (!found.ok()) {
    const Code code = found.status().code();
    const int exit_code = code == Code::kInvalid   ? kExitUsage
                          : code == Code::kDamaged ? kExitDamaged
                                                   : kExitNoCheckpoint;
    return {exit_code, found.status().message(), {}};
  }
  const CheckpointInfo& checkpoint = found.value();
  if (checkpoint.state == CheckpointState::kDamaged) {
    return {kExitDamaged, checkpoint.id + " is damaged: " + checkpoint.reason, {}};
  }
  if (checkpoint.state == CheckpointState::kPartial || checkpoint.ranks.empty()) {
    return {kExitNoCheckpoint, checkpoint.id + " is not complete: " + checkpoint.reason, {}};
  }
  tell_what_is_passed_over(*store.value(), checkpoint);
  return {kExitOk, {}, checkpoint};
}

// A script, or a program that starts others, starts the program itself; the library compares there.
bool starts_another(const ProgramFile& file, const ProgramIdentity& saved) {
  return file.path != saved.path && (!file.is_elf || (file.may_use_cuda && !file.shows_cuda));
}

// One line where the checkpoint is another program's.
std::string mismatch(const Program& program, const ProgramIdentity& saved,
                     const RestoreOptions& options) {
  if (starts_another(program.file, saved)) return {};
  const Result<ProgramIdentity> now =
      identify_program(program.file.path, program.arguments, program.folder);
  if (!now.ok()) return now.status().message();
  if (saved.folder != program.folder) {
    log(LogLevel::kWarn, "the checkpoint's run worked in ", saved.folder, ", this one works in ",
        program.folder, ": files named without a folder may be others");
  }
  return difference_of(saved, now.value(), options.force_program, options.force_arguments);
}

std::string ranks_text(uint64_t ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

// One line where the checkpoint is not of what the command starts.
std::string mismatch(const Launch& launch, const CheckpointInfo& checkpoint,
                     const RestoreOptions& options) {
  const uint64_t saved = checkpoint.ranks.front().ranks;
  const auto ranks = launch.launcher ? launch.launcher->ranks() : std::nullopt;
  if (ranks && *ranks != saved) {
    return checkpoint.id + " is of " + ranks_text(saved) + ", this command starts " +
           std::to_string(*ranks) + "; start as many";
  }
  // Of each program the first rank is compared, where it is known which one that is.
  size_t rank = 0;
  for (size_t i = 0; i < launch.programs.size() && rank < checkpoint.ranks.size(); ++i) {
    const std::string difference =
        mismatch(launch.programs[i], checkpoint.ranks[rank].program, options);
    if (!difference.empty()) return checkpoint.id + ": " + difference;
    if (!launch.launcher || !launch.launcher->programs[i].ranks) break;
    rank += *launch.launcher->programs[i].ranks;
  }
  return {};
}

// What the program's last run had handed over when it was killed is newer than what the store has.
void wait_for_what_was_handed_over(const Settings& settings, const std::string& job) {
  constexpr auto kLongest = std::chrono::hours(1);
  const Status durable = wait_until_durable(settings, job, kLongest);
  if (!durable.ok()) log(LogLevel::kWarn, durable.message());
}

std::string forced(const RestoreOptions& options) {
  if (options.force_program && options.force_arguments) return "program,arguments";
  return options.force_program ? "program" : options.force_arguments ? "arguments" : "";
}

}  // namespace

int restore_command(const RestoreOptions& options) {
  Launch launch;
  if (const auto exit_code = prepare(options.launch, "nothing is restored", launch)) {
    return *exit_code;
  }
  if (!launch.settings_ok) return kExitSettings;
  const std::string id = !options.id.empty() ? options.id : launch.job + "@latest";
  wait_for_what_was_handed_over(launch.settings, id.substr(0, id.rfind('@')));
  const Found found = find_checkpoint(launch.settings, id);
  if (found.exit_code == kExitNoCheckpoint && options.or_start) {
    log(LogLevel::kWarn, found.problem, "; it starts afresh");
    return run_command(options.launch);
  }
  if (!found.problem.empty()) {
    log(LogLevel::kError, found.problem);
    return found.exit_code;
  }
  // A program that brings its own state may be told so by its arguments.
  const bool reloads =
      options.mode.empty() ? launch.settings.reload : options.mode.starts_with("reload");
  const std::string difference =
      reloads ? std::string() : mismatch(launch, found.checkpoint, options);
  if (!difference.empty()) {
    log(LogLevel::kError, difference);
    return kExitMismatch;
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
  if (!options.mode.empty()) launch.environment.set("GPUSNAP_RESTORE_MODE", options.mode);
  if (!forced(options).empty()) launch.environment.set("GPUSNAP_RESTORE_FORCE", forced(options));
  log(LogLevel::kInfo, "restoring ", found.checkpoint.id);
  return become(launch, library);
}

}  // namespace gpusnap
