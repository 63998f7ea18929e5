// gpusnap: the command line. Reads options; the commands are in command_*.cpp.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>

#include "interpose/services/log.h"
#include "interpose/services/settings.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

// An option of `run`, the variable that it sets, and its help.
struct SettingHelp {
  const char* option;
  const char* variable;
  const char* help;
};
constexpr SettingHelp kSettings[] = {
    {"--store", "GPUSNAP_PFS", "durable folder for checkpoints (default ./gpusnap)"},
    {"--every", "GPUSNAP_EVERY",
     "when to take one: 10m, auto (by cost and --mtbf), syncs:50, barriers:50 (MPI collectives of "
     "all ranks), signal:USR1, or off; a comma joins them (default 10m)"},
    {"--mtbf", "GPUSNAP_MTBF", "mean time between failures of the job, for auto (default 24h)"},
    {"--job", "GPUSNAP_JOB",
     "name that ties runs to checkpoints (default: the scheduler's job name, else the program's "
     "file name and working folder)"},
    {"--keep", "GPUSNAP_KEEP", "complete checkpoints that are kept (default 2)"},
    {"--zone", "GPUSNAP_ZONE", "zone size, a power of two from 4K to 2M (default 64K)"},
    {"--host-cache", "GPUSNAP_HOST_CACHE", "staging memory (default 1/8 of RAM, up to 4G)"},
    {"--device-cache", "GPUSNAP_DEVICE_CACHE", "device memory of snapshots (default 256M)"},
    {"--org", "GPUSNAP_ORG", "how snapshots are organised (default nb+i+h+d)"},
    {"--dirty", "GPUSNAP_DIRTY", "what tells which zones changed: fingerprint (default), calls"},
    {"--speculate", "GPUSNAP_SPECULATE", "on (default); off: unproven kernels wait for every zone"},
    {"--compress", "GPUSNAP_COMPRESS",
     "auto (default): chunks that are estimated to be stored no later for it; off; 1 to 19: "
     "all that shrinks, at that level; with a window: 3:8M"},
    {"--compress-workers", "GPUSNAP_COMPRESS_WORKERS",
     "threads that compress, up to 8 (default: one for every 8 processors, 1 to 4)"},
    {"--writes", "GPUSNAP_WRITES", "writes of a checkpoint at the same time (default 8)"},
    {"--slot", "GPUSNAP_SLOT",
     "bytes that are copied, compressed and written at a time (default 4M)"},
    {"--ssd", "GPUSNAP_SSD",
     "folders of the node's own devices: path[:capacity], a comma joins them"},
    {"--chunk", "GPUSNAP_CHUNK", "bytes that are placed together (default 64M)"},
    {"--placement", "GPUSNAP_PLACEMENT",
     "cache-only, ssd-only, hybrid-naive or hybrid-opt (default)"},
    {"--flushes", "GPUSNAP_FLUSHES",
     "chunks that go to the store at the same time: auto (default), or 1 to 64"},
    {"--levels", "GPUSNAP_LEVELS",
     "copies of checkpoints on the SSDs of other nodes: partner, rs:K+M, or off (default)"},
    {"--peers", "GPUSNAP_PEERS", "nodes of --levels: host:port, a comma joins them"},
    {"--level-key", "GPUSNAP_LEVEL_KEY", "file with the key that the nodes of --levels share"},
    {"--level-encrypt", "GPUSNAP_LEVEL_ENCRYPT", "what goes between nodes: on, off (default)"},
    {"--level-rate", "GPUSNAP_LEVEL_RATE",
     "bytes a second between nodes, in the background (default: not bounded)"},
    {"--backend", "GPUSNAP_BACKEND",
     "process (default): what was handed over outlives the program; thread: no second process"},
    {"--backend-idle", "GPUSNAP_BACKEND_IDLE",
     "how long a backend without work stays (default 10s)"},
    {"--wait", "GPUSNAP_WAIT",
     "what the program's end waits for: durable (default), or memory: the backend has all of it"},
    {"--pin", "GPUSNAP_PIN",
     "staging memory: stepwise (default), while the program runs and between its copies; "
     "concurrent: without such pauses; at-once: in its first context"},
    {"--chain", "GPUSNAP_CHAIN", "most increments in a row (default 16)"},
    {"--hints", "GPUSNAP_HINTS", "how often progress is looked at (default 100us)"},
    {"--journal", "GPUSNAP_JOURNAL", "most the replay journal may grow to (default 16G)"},
    {"--max-stall", "GPUSNAP_MAX_STALL", "longest wait for buffers (default 1s)"},
    {"--drain", "GPUSNAP_DRAIN", "longest wait for the device to run empty at a cut (default 30s)"},
    {"--direct", "GPUSNAP_DIRECT",
     "the device writes to --ssd past host memory, where cuFile is there: auto (default), where "
     "that is faster; off; always"},
    {"--balance", "GPUSNAP_BALANCE",
     "devices take zones of each other into their device memory: on (default), those of a process; "
     "off; node: those of the node's processes, too"},
    {"--arena", "GPUSNAP_ARENA",
     "device memory has addresses that the program's calls alone decide: on, off (default)"},
    {"--read-ahead", "GPUSNAP_READ_AHEAD",
     "a checkpoint is read while its replay is on its way: on (default), off"},
    {"--replay-output", "GPUSNAP_REPLAY_OUTPUT",
     "what was printed before the cut: once (default), or again by a restore"},
    {"--outside", "GPUSNAP_OUTSIDE",
     "what clocks and random sources tell the program: journal (default): a restore tells the same "
     "again; real"},
    {"--log", "GPUSNAP_LOG", "error, warn, info, debug or trace (default warn)"},
};

constexpr const char* kRunNotes =
    "Each option stands for the GPUSNAP_ variable of its name (--store: GPUSNAP_PFS). Address\n"
    "randomisation is turned off for the program, and PYTHONHASHSEED=0 is set where it is unset:\n"
    "a program that repeats itself can be restored. What stands in the way of checkpoints is said\n"
    "in one line and the program runs without them; with --strict it does not start.\n"
    "\n"
    "Where PROGRAM is mpirun, mpiexec, prun or srun, this is done to each process that it starts,\n"
    "on whatever node, and not to itself. Other launchers can start gpusnap instead:\n"
    "jsrun -n 4 gpusnap run -- ./solver\n";

// CLI11 knows nothing of the program behind "--".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (app->get_name() == "run" || app->get_name() == "restore" || app->get_name() == "rank") {
      usage.erase(usage.find_last_not_of('\n') + 1);
      usage += " -- PROGRAM [ARGUMENTS]\n";
    }
    return usage;
  }
  // The value that a flag has by itself is no part of its name.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));
  }
};

// `such_as`: an example of one.
void add_time(CLI::App& command, const std::string& name, std::chrono::nanoseconds& time,
              const std::string& such_as, const std::string& help) {
  const auto take = [name, &time, such_as](const std::string& text) {
    if (parse_duration(text, time)) return;
    throw CLI::ValidationError(name, "'" + text + "' is not a time such as " + such_as);
  };
  command.add_option_function<std::string>(name, take, help)->type_name("TIME");
}

void add_launch_options(CLI::App& command, LaunchOptions& options) {
  for (const SettingHelp& setting : kSettings) {
    command
        .add_option_function<std::string>(
            setting.option,
            [&options, &setting](const std::string& value) {
              options.settings.emplace_back(setting.variable, value);
            },
            setting.help)
        ->type_name("VALUE");
  }
  command.add_flag("--strict", options.strict,
                   "do not start what cannot be checkpointed (GPUSNAP_STRICT=1)");
  command.add_flag("--sim", options.sim, "use simcuda, the software GPU");
}

CLI::App* add_run(CLI::App& app, LaunchOptions& options) {
  CLI::App* const command = app.add_subcommand("run", "run a program and take checkpoints of it");
  add_launch_options(*command, options);
  end_help(*command,
           std::string(kRunNotes) +
               "\nExamples:\n"
               "  gpusnap run -- ./solver big.cfg\n"
               "  gpusnap run -- mpirun -n 4 ./solver big.cfg\n"
               "  gpusnap run --every 30s --store /scratch/$USER -- python3 train.py\n\n");
  return command;
}

CLI::App* add_restore(CLI::App& app, RestoreOptions& options) {
  CLI::App* const command =
      app.add_subcommand("restore", "start a program again and go on from its last checkpoint");
  command->add_option("--id", options.id,
                      "checkpoint: JOB@EPOCH, JOB@latest (default: newest complete one of the "
                      "program's job)");
  command->add_flag("--or-start", options.or_start,
                    "start afresh where there is no complete checkpoint");
  command
      ->add_option("--mode", options.mode,
                   "replay: the program runs again up to the checkpoint; reload, reload:N: it "
                   "brings its own state of the host, and gets its device memory back before its "
                   "first launch (or behind N of them)")
      ->type_name("MODE")
      ->check([](const std::string& text) {
        const std::string variable = "GPUSNAP_RESTORE_MODE=" + text;
        const char* const environment[] = {variable.c_str(), nullptr};
        const auto errors = parse_settings(environment).errors;
        return errors.empty() ? std::string() : errors[0];
      });
  AllowedDifferences& allowed = options.allowed;
  command->add_flag("--force-program", allowed.program,
                    "restore although the program's file is another one");
  command->add_flag("--force-arguments", allowed.arguments,
                    "restore although the arguments are others");
  command->add_flag("--force-inputs", allowed.inputs,
                    "restore although files have changed that the program had read");
  command->add_flag("--force-device", allowed.device,
                    "restore although the device is of another model");
  command->add_flag("--force-devices", allowed.devices,
                    "restore although there are fewer devices than the program used");
  command->add_flag("--force-data", allowed.data,
                    "restore although the program gives other data to the device than it did");
  add_launch_options(*command, options.launch);
  end_help(*command,
           "Give the program and the options as to 'gpusnap run'.\n\n"
           "Examples:\n"
           "  gpusnap restore -- ./solver big.cfg\n"
           "  gpusnap restore -- mpirun -n 4 ./solver big.cfg\n"
           "  gpusnap restore --id wave@12 --or-start -- ./solver big.cfg\n\n");
  return command;
}

CLI::App* add_rank(CLI::App& app, RankOptions& options) {
  CLI::App* const command =
      app.add_subcommand("rank", "used by run and restore around each rank of a launcher");
  command->add_option("-s", options.settings, "a variable for the program; may be given again")
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->take_all()
      ->check([](const std::string& text) {
        const size_t equals = text.find('=');
        const bool named = equals != std::string::npos && equals > 0;
        return named ? std::string() : "'" + text + "' is not NAME=VALUE";
      });
  command->add_flag("--sim", options.sim, "use simcuda, the software GPU");
  end_help(*command,
           "Becomes the program, with the library in it and address randomisation off.\n\n"
           "Example:\n"
           "  mpirun -n 4 gpusnap rank -s GPUSNAP_EVERY=30s -- ./solver big.cfg\n\n");
  return command;
}

CLI::App* add_list(CLI::App& app, StoreOptions& options) {
  CLI::App* const command = app.add_subcommand("list", "list checkpoints, the newest first");
  command->add_option("JOB", options.what, "only this job's");
  command->add_flag(
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
  command->add_flag("--space", options.space, "what each job takes instead, and all of them");
  add_store(*command, options.store);
  end_help(*command,
           "Sizes: SIZE of device memory, of which STORED is in the checkpoint's own files and the "
           "rest in\nits ancestors'. STALL: how long the program waited.\n"
           "States: complete (can be restored, durable), partial (not, or not yet, complete), "
           "damaged.\nWhat is on its way and needs its program no more: partial (ssd), on this "
           "node's devices;\npartial (memory), in this node's memory.\n\n"
           "Examples:\n"
           "  gpusnap list\n"
           "  gpusnap list wave --store /scratch/ck --json\n\n");
  return command;
}

CLI::App* add_prune(CLI::App& app, PruneOptions& options) {
  CLI::App* const command =
      app.add_subcommand("prune", "remove checkpoints and files that are not needed any more");
  command->add_option("--job", options.job, "only this job's (default: all that are not running)");
  command
      ->add_option("--keep", options.keep,
                   "complete checkpoints that stay (default GPUSNAP_KEEP, 2); what they build on "
                   "stays, too")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  add_time(*command, "--left-after", options.left_after, "1h",
           "files of dead runs that nobody has written to for so long are left over (default 1h)");
  command->add_flag("--dry-run", options.dry_run, "only say what would go");
  command->add_flag("--json", options.json,
                    "an object with dry_run, bytes, jobs: job, error, bytes, removed: what, files, "
                    "bytes");
  add_store(*command, options.store);
  end_help(*command,
           "A job that runs is left alone: its run prunes it after each checkpoint. Damaged\n"
           "checkpoints, those of later versions and files that are not gpusnap's stay.\n\n"
           "Examples:\n  gpusnap prune --dry-run\n  gpusnap prune --job wave --keep 1\n\n");
  return command;
}

CLI::App* add_explain(CLI::App& app, ExplainOptions& options) {
  CLI::App* const command =
      app.add_subcommand("explain", "say what each kernel of a program may write");
  command
      ->add_option("PROGRAM", options.files, "programs, libraries, or .ptx, .cubin, .fatbin files")
      ->required();
  command
      ->add_option("--arch", options.arch,
                   "the device's compute capability without the dot: code that it cannot run is "
                   "left aside (default: any device)")
      ->type_name("90")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", options.json,
                    "an array of images with file, place, kernels (name, source_name, parameters, "
                    "pointers, numbers, variables, resolved, proven, reason), unreadable");
  end_help(
      *command,
      "While a checkpoint drains, a kernel that is proven waits for the memory alone that it\n"
      "writes. One that is not is taken to write what its arguments point to, and what is\n"
      "saved is compared with the memory at the cut; with GPUSNAP_SPECULATE=off it waits for\n"
      "all memory. Of programs, the device code in their files and in the libraries that they\n"
      "need is looked at, without CUDA's own libraries.\n\n"
      "Examples:\n"
      "  gpusnap explain ./solver\n"
      "  gpusnap explain --arch 90 --json kernels.fatbin\n\n");
  return command;
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

CLI::App* add_calibrate(CLI::App& app, CalibrateOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "calibrate", "measure how fast devices take writes, for the placement of chunks");
  command->add_option("FOLDER", options.folders,
                      "folders on the devices (default: those of GPUSNAP_SSD)");
  command
      ->add_option("--writers", options.writers,
                   "the most writers at a time that are measured with (default 64)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option_function<std::string>(
          "--chunk",
          [&options](const std::string& text) {
            if (!parse_size(text, options.chunk) || options.chunk < kLeastChunk ||
                options.chunk > kMostChunk) {
              throw CLI::ValidationError("--chunk", "'" + text + "' is not a size from 64K to 4G");
            }
          },
          "bytes that each writer writes (default GPUSNAP_CHUNK, 64M)")
      ->type_name("SIZE");
  CLI::Option* const check = command->add_flag(
      "--check", options.check,
      "measure with every number of writers besides, and say how far the model is off");
  command->add_flag("--show", options.show, "show what is stored; measure nothing")
      ->excludes(check);
  command->add_flag("--json", options.json,
                    "an array of objects with folder, device, measured, bytes_per_writer, "
                    "memory_bytes_per_second, samples, "
                    "checked, error_mean, error_most, error_most_at, stored");
  command->add_option("--svg", options.svg, "write a chart into this file")->type_name("FILE");
  end_help(*command,
           "Writes files into a folder gpusnap-calibration in each FOLDER and removes them: as the "
           "backend\nwrites chunks, GPUSNAP_WRITES times GPUSNAP_SLOT of each on their way, "
           "without a sync. At\nmost half of what is free, or the capacity in GPUSNAP_SSD, is "
           "used. What was measured is "
           "kept\n"
           "on the device for 90 days; what is older, or comes from another host or device, is\n"
           "refused by the placement, and here said and measured again.\n\n"
           "Examples:\n"
           "  gpusnap calibrate /local\n"
           "  GPUSNAP_SSD=/nvme0,/nvme1 gpusnap calibrate --check --svg curve.svg\n\n");
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

CLI::App* add_plan(CLI::App& app, PlanOptions& options) {
  CLI::App* const command = app.add_subcommand(
      "plan", "how often to checkpoint to memory, SSD and PFS, and what that costs at scale");
  command->add_option("--machine", options.machine,
                      "snapshot-ics19 (default), snapshot-ics19:EXAFLOPS:GPUS_PER_CPU, tianhe-1, "
                      "or a machine file");
  command->add_option("--model", options.model,
                      "first-order, daly, markov (default) or markov-failures");
  command
      ->add_option("--set", options.changes,
                   "change an input: ssd.write=4.3, or ssd.write=2x for twice; may be given again")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  command->add_option("--job", options.job, "plan for this job of the store, by what it has cost");
  add_store(*command, options.store);
  command->add_flag("--inputs", options.inputs, "list the inputs of a machine, and nothing else");
  CLI::Option* const simulate =
      command->add_flag("--simulate", options.simulate, "simulate each configuration, too");
  command->add_option("--seed", options.seed, "of the simulation (default 1)")->needs(simulate);
  command->add_option("--years", options.years, "of useful time that it simulates (default 10)")
      ->needs(simulate)
      ->check(CLI::Range(1e-6, 1e4));
  command
      ->add_option("--shape", options.shape,
                   "of the Weibull distribution of failures; below 1: young parts fail more often "
                   "(default 1)")
      ->needs(simulate)
      ->check(CLI::Range(0.3, 10.0));
  command
      ->add_flag("--protected", options.protected_copies,
                 "copies and restarts go on through failures of lower levels")
      ->needs(simulate);
  command->add_flag("--json", options.json,
                    "an object with machine, model, inputs, what_if, and for each of baseline, "
                    "level1_free, level1_and_2_free and own: efficiency, intervals_s (by level; "
                    "null: never), overhead (shares of the total time, by cause) and levels");
  command->add_option("--svg", options.svg, "write the papers' figures into this folder")
      ->type_name("FOLDER");
  end_help(*command,
           "own is the machine as its inputs say; baseline holds the job for each whole "
           "checkpoint.\n\n"
           "Examples:\n"
           "  gpusnap plan --set failures.gpu=0.1\n"
           "  gpusnap plan --machine rack.toml --job wave --simulate\n\n");
  return command;
}

int usage_error(const std::string& line, const std::string& command) {
  log(LogLevel::kError, line, "; see 'gpusnap ", command, command.empty() ? "" : " ", "--help'");
  return kExitUsage;
}

// Reports an error of CLI11 in one line.
int explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "" : chosen.front()->get_name();
  std::string line = error.what();
  if (chosen.empty()) {
    const auto extras = app.remaining();
    const std::string what = extras.empty()                    ? "no command"
                             : extras.front().starts_with('-') ? "unknown option " + extras.front()
                                                               : extras.front() + " is no command";
    return usage_error(what +
                           "; commands are run, restore, list, show, extract, diff, prune, verify, "
                           "explain, checkpoint, status, wait, calibrate and plan",
                       command);
  }
  if (command == "run" || command == "restore" || command == "rank") {
    const auto extras = chosen.front()->remaining();
    if (!extras.empty() && !extras.front().starts_with('-')) {
      return usage_error("unexpected '" + extras.front() + "': the program goes after --", command);
    }
  }
  std::replace(line.begin(), line.end(), '\n', ' ');
  return usage_error(line, command);
}

int run(int argc, char** argv) {
  // All arguments after the first "--" are the program's, whatever they look like.
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const bool has_dashes = dashes != arguments.end();
  const std::vector<std::string> program(has_dashes ? dashes + 1 : dashes, arguments.end());
  arguments.erase(dashes, arguments.end());

  CLI::App app("Checkpoint and restart for unmodified CUDA programs.", "gpusnap");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", "gpusnap " GPUSNAP_VERSION);
  app.require_subcommand(1);
  app.footer("'gpusnap COMMAND --help' says more.");
  LaunchOptions run_options;
  RestoreOptions restore_options;
  RankOptions rank_options;
  StoreOptions store_options;
  CheckpointOptions checkpoint_options;
  CLI::App* const run = add_run(app, run_options);
  CLI::App* const restore = add_restore(app, restore_options);
  CLI::App* const rank = add_rank(app, rank_options);
  CLI::App* const list = add_list(app, store_options);
  CLI::App* const show = add_show(app, store_options);
  ExtractOptions extract_options;
  CLI::App* const extract = add_extract(app, extract_options);
  DiffOptions diff_options;
  CLI::App* const diff = add_diff(app, diff_options);
  PruneOptions prune_options;
  CLI::App* const prune = add_prune(app, prune_options);
  CLI::App* const verify = add_verify(app, store_options);
  ExplainOptions explain_options;
  CLI::App* const explained = add_explain(app, explain_options);
  add_checkpoint(app, checkpoint_options);
  StatusOptions status_options;
  CLI::App* const status = add_status(app, status_options);
  WaitOptions wait_options;
  CLI::App* const waited = add_wait(app, wait_options);
  CalibrateOptions calibrate_options;
  CLI::App* const calibrated = add_calibrate(app, calibrate_options);
  PlanOptions plan_options;
  CLI::App* const planned = add_plan(app, plan_options);

  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  const bool starts = run->parsed() || restore->parsed() || rank->parsed();
  const std::string command = app.get_subcommands().front()->get_name();
  if (starts && program.empty()) {
    return usage_error("no program: it goes after --, as in 'gpusnap " + command + " -- ./solver'",
                       command);
  }
  if (!starts && has_dashes) return usage_error("'--' has no meaning here", command);
  run_options.command = restore_options.launch.command = command;
  run_options.program = restore_options.launch.program = rank_options.program = program;
  if (run->parsed()) return run_command(run_options);
  if (restore->parsed()) return restore_command(restore_options);
  if (rank->parsed()) return rank_command(rank_options);
  if (list->parsed()) return list_command(store_options);
  if (prune->parsed()) return prune_command(prune_options);
  if (show->parsed()) return show_command(store_options);
  if (extract->parsed()) return extract_command(extract_options);
  if (diff->parsed()) return diff_command(diff_options);
  if (verify->parsed()) {
    if (!store_options.all && store_options.what.empty()) {
      return usage_error("which checkpoint? give its ID or --all", command);
    }
    return verify_command(store_options);
  }
  if (explained->parsed()) return explain_command(explain_options);
  if (status->parsed()) return status_command(status_options);
  if (waited->parsed()) return wait_command(wait_options);
  if (calibrated->parsed()) return calibrate_command(calibrate_options);
  if (planned->parsed()) return plan_command(plan_options);
  return checkpoint_command(checkpoint_options);
}

}  // namespace
}  // namespace gpusnap

int main(int argc, char** argv) {
  try {
    return gpusnap::run(argc, argv);
  } catch (const std::exception& error) {
    gpusnap::log(gpusnap::LogLevel::kError, "internal failure: ", error.what());
    return gpusnap::kExitInternal;
  }
}
