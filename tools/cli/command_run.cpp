// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <string>

#include "interpose/services/log.h"
#include "tiers/store.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/launch.h"
#include "tools/cli/node.h"
#include "tools/cli/setting_options.h"

namespace gpusnap {
namespace {

// Makes the store's folder and a file in it, and takes the file away again.
Status try_store(const std::string& pfs) {
  FileSystem& files = posix_file_system();
  const Result<std::unique_ptr<Store>> store = Store::open(files, pfs, true);
  if (!store.ok()) return store.status();
  const std::string path =
      store.value()->folder() + "/.gpusnap-writable-" + std::to_string(getpid());
  {
    const Result<std::unique_ptr<WritableFile>> file = files.create(path);
    if (!file.ok()) return file.status();
  }
  // On another node a process of the same number may have been faster.
  Status removed = files.remove(path);
  return removed.code() == Code::kNotFound ? Status() : removed;
}

struct Objection {
  std::string line;  // empty: none
  int exit_code = kExitOk;
  bool preload = false;  // the library may be loaded nevertheless
};

// The first reason why there can be no checkpoints of what is started.
Objection objection_to(const Launch& launch) {
  for (const Program& program : launch.programs) {
    const ProgramFile& file = program.file;
    if (file.cannot_preload.empty()) continue;
    return {"no library can be preloaded into " + file.path + ": " + file.cannot_preload,
            kExitSettings, false};
  }
  if (std::ranges::none_of(launch.programs,
                           [](const Program& program) { return program.file.may_use_cuda; })) {
    return {launch.programs.front().file.path +
                " shows no sign of CUDA: there is nothing to checkpoint in it",
            kExitSettings, true};
  }
  const Status store = try_store(launch.settings.pfs);
  if (!store.ok()) {
    return {"the store " + launch.environment.get("GPUSNAP_PFS") +
                " cannot be written: " + store.message(),
            kExitStore, false};
  }
  return {};
}

}  // namespace

int run_command(const LaunchOptions& options) {
  Launch launch;
  if (const auto exit_code = prepare(options, "it runs without checkpoints", launch)) {
    return *exit_code;
  }
  if (!launch.settings_ok) return become(launch, "");
  tend_leftovers(launch.settings);
  const Objection objection = objection_to(launch);
  if (objection.line.empty()) {
    const std::string library = library_to_preload();
    if (library.empty() && launch.strict) return kExitInternal;
    return become(launch, library);
  }
  if (launch.strict) {
    log(LogLevel::kError, objection.line, "; it does not start (strict)");
    return objection.exit_code;
  }
  log(LogLevel::kWarn, objection.line, "; it runs without checkpoints");
  return become(launch, objection.preload ? library_to_preload() : "");
}

namespace {

constexpr const char* kRunNotes =
    "Each option stands for the GPUSNAP_ variable of its name (--store: GPUSNAP_PFS). Address\n"
    "randomisation is turned off for the program, and PYTHONHASHSEED=0 is set where it is unset:\n"
    "a program that repeats itself can be restored. What stands in the way of checkpoints is said\n"
    "in one line and the program runs without them; with --strict it does not start.\n"
    "\n"
    "Where PROGRAM is mpirun, mpiexec, prun or srun, this is done to each process that it starts,\n"
    "on whatever node, and not to itself. Other launchers can start gpusnap instead:\n"
    "jsrun -n 4 gpusnap run -- ./solver\n";

void declare_run(CLI::App& command, LaunchOptions& options) {
  options.command = "run";
  add_launch_options(command, options);
  command.add_flag(
      "--resume", options.resume,
      "go on from the job's newest complete checkpoint where there is one, else start");
  end_help(command, std::string(kRunNotes) +
                        "\nWith --resume one script starts a job and goes on with it. The job's "
                        "name gets the scheduler's\nnumber of the job, which a requeued job keeps, "
                        "unless --job gives one.\n"
                        "\nExamples:\n"
                        "  gpusnap run -- ./solver big.cfg\n"
                        "  gpusnap run -- mpirun -n 4 ./solver big.cfg\n"
                        "  gpusnap run --resume -- srun -n 4 ./solver big.cfg\n"
                        "  gpusnap run --every 30s --store /scratch/$USER -- python3 train.py\n\n");
}

int run_or_resume(const LaunchOptions& options) {
  return options.resume ? resume_command(options) : run_command(options);
}

}  // namespace

const Command kRunCommand{
    "run", "run a program and take checkpoints of it",
    [](CLI::App& command) { return starting_action_of(command, declare_run, run_or_resume); },
    true};

}  // namespace gpusnap
